/*
 * progress.c - the one thread that owns the completion queue.
 *
 * It polls; with work in flight it spins for at most spin_us, then arms the completion channel,
 * polls once more (what came before the arming raises no event) and sleeps in poll(2).
 */
#include <time.h>
#include <unistd.h>

#include "core.h"

#define POLL_BATCH 32
#define GONE_POLL_MS 10 /* a dead device raises no event, but may still flush */

/* dp_progress_poll - dispatch what has completed; returns how many. */
uint32_t dp_progress_poll(struct dp_fabric *fabric)
{
	struct dp_completion batch[POLL_BATCH];
	int count = fabric->ops->poll(fabric, batch, POLL_BATCH);

	dp_count(fabric, DP_COUNT_POLLS, 1);
	if (count < 0) {
		dp_fabric_set_health(fabric, DP_HEALTH_GONE);
		return 0;
	}
	for (int i = 0; i < count; i++) {
		dp_count_completion(fabric, batch[i].status);
		dp_lane_complete(fabric, &batch[i]);
	}
	return (uint32_t)count;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Sleep until a completion, an async event, or dp_fabric_close. */
static void sleep_until_event(struct dp_fabric *fabric)
{
	struct pollfd fds[DP_POLLFDS] = { { .fd = fabric->wake_fd, .events = POLLIN } };
	bool gone = atomic_load(&fabric->health) == DP_HEALTH_GONE;
	int count = 1;

	if (!gone)
		count += fabric->ops->pollfds(fabric, fds + 1);
	if (poll(fds, (nfds_t)count, gone ? GONE_POLL_MS : -1) > 0) {
		dp_count(fabric, DP_COUNT_WAKEUPS, 1);
		fabric->ops->serve(fabric);
	}
}

void *dp_progress_main(void *arg)
{
	struct dp_fabric *fabric = arg;
	uint64_t quiet_since_us = now_us();

	while (!atomic_load(&fabric->stop)) {
		if (dp_progress_poll(fabric)) {
			quiet_since_us = now_us();
			continue;
		}
		if (atomic_load(&fabric->in_flight) &&
		    now_us() - quiet_since_us < fabric->options.spin_us) {
			relax();
			continue;
		}
		if (fabric->ops->arm(fabric))
			dp_fabric_set_health(fabric, DP_HEALTH_GONE);
		if (dp_progress_poll(fabric) == 0)
			sleep_until_event(fabric);
		quiet_since_us = now_us();
	}
	return NULL;
}
