/* fabric.c - an opened device port, whatever is below it: lanes' table, event ring, threads. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core.h"

/* Each lane has at most its moves, a receive and a drain to tell of, and one more to spare. */
#define EVENTS_PER_LANE (DP_MOVES_MAX + 3)
#define EVENTS_OF_FABRIC 16

/*
 * dp_fabric_emit - hand @event to the event loop.
 *
 * The ring has room for all that can be owed (EVENTS_PER_LANE), so nothing is lost here; the
 * health, which may flap without limit, is a state beside the ring.
 */
void dp_fabric_emit(struct dp_fabric *fabric, const struct dp_event *event)
{
	dp_count(fabric, DP_COUNT_EVENTS, 1);
	(void)dp_ring_push(&fabric->ring, event);
}

/* dp_fabric_set_health - note a change, once; GONE is for ever. */
void dp_fabric_set_health(struct dp_fabric *fabric, enum dp_health health)
{
	const struct dp_event event = { .kind = DP_EVENT_HEALTH };
	unsigned int was = atomic_load(&fabric->health);

	if (was == DP_HEALTH_GONE || was == health)
		return;
	atomic_store(&fabric->health, health);
	dp_fabric_emit(fabric, &event);
}

void dp_fabric_query(const struct dp_fabric *fabric, struct dp_fabric_info *out)
{
	*out = fabric->info;
}

int dp_fabric_fd(const struct dp_fabric *fabric)
{
	return fabric->ring.fd;
}

uint32_t dp_fabric_drain(struct dp_fabric *fabric, struct dp_event *events, uint32_t max)
{
	return dp_ring_drain(&fabric->ring, events, max);
}

uint32_t dp_fabric_health(const struct dp_fabric *fabric)
{
	return atomic_load(&fabric->health);
}

/* Start the progress thread, then the I/O threads; all deaf to signals, which are Python's. */
static int start_threads(struct dp_fabric *fabric)
{
	uint32_t count = fabric->options.io_threads + 1;
	sigset_t all, before;
	int error = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (!error && fabric->threads_started < count) {
		bool progress = fabric->threads_started == 0;
		pthread_t *thread = &fabric->threads[fabric->threads_started];

		error = -pthread_create(thread, NULL, progress ? dp_progress_main : dp_io_main,
					fabric);
		if (error)
			break;
		pthread_setname_np(*thread, progress ? "dp-progress" : "dp-io");
		fabric->threads_started++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static void stop_threads(struct dp_fabric *fabric)
{
	uint64_t one = 1;

	atomic_store(&fabric->stop, true);
	while (write(fabric->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	dp_io_stop(&fabric->io);
	for (uint32_t i = 0; i < fabric->threads_started; i++)
		pthread_join(fabric->threads[i], NULL);
}

/* Undo dp_fabric_start but for what is below. Threads have stopped. */
static void fabric_free(struct dp_fabric *fabric)
{
	for (uint32_t i = 0; i < fabric->options.lanes_max; i++)
		pthread_mutex_destroy(&fabric->lanes[i].lock);
	pthread_mutex_destroy(&fabric->lanes_lock);
	dp_io_destroy(&fabric->io);
	dp_ring_destroy(&fabric->ring);
	close(fabric->wake_fd);
	free(fabric->threads);
	free(fabric->lanes);
	free(fabric);
}

static int check_options(const struct dp_fabric_options *options)
{
	if (options->lanes_max == 0 || options->lanes_max > DP_LANES_MAX ||
	    options->io_threads == 0 || options->slot_bytes == 0 || options->segment_bytes == 0 ||
	    options->slot_bytes > DP_MESSAGE_MAX || options->segment_bytes > DP_MESSAGE_MAX)
		return -EINVAL;
	return 0;
}

/* Everything but the threads; NULL with *@error set, and then nothing remains. */
static struct dp_fabric *fabric_new(const struct dp_fabric_options *options, int *error)
{
	struct dp_fabric *fabric = calloc(1, sizeof(*fabric));

	*error = -ENOMEM;
	if (!fabric)
		return NULL;
	fabric->options = *options;
	fabric->lanes = calloc(options->lanes_max, sizeof(*fabric->lanes));
	fabric->threads = calloc(options->io_threads + 1, sizeof(*fabric->threads));
	if (!fabric->lanes || !fabric->threads)
		goto err_free;
	fabric->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	*error = -errno;
	if (fabric->wake_fd < 0)
		goto err_free;
	*error = dp_ring_init(&fabric->ring,
			      options->lanes_max * EVENTS_PER_LANE + EVENTS_OF_FABRIC);
	if (*error)
		goto err_wake;
	*error = dp_io_init(&fabric->io);
	if (*error)
		goto err_ring;
	pthread_mutex_init(&fabric->lanes_lock, NULL);
	for (uint32_t i = 0; i < options->lanes_max; i++) {
		fabric->lanes[i].fabric = fabric;
		fabric->lanes[i].index = i;
		pthread_mutex_init(&fabric->lanes[i].lock, NULL);
	}
	return fabric;

err_ring:
	dp_ring_destroy(&fabric->ring);
err_wake:
	close(fabric->wake_fd);
err_free:
	free(fabric->threads);
	free(fabric->lanes);
	free(fabric);
	return NULL;
}

/*
 * dp_fabric_start - the generic part over an opened @impl, which it owns from now on.
 *
 * @info: slots and segments are held to its message_max_bytes. Returns 0, -EINVAL, -ENOMEM or
 * the errno of a thread or eventfd; then @impl is still the caller's.
 */
int dp_fabric_start(const struct dp_fabric_options *options, const struct dp_fabric_ops *ops,
		    void *impl, const struct dp_fabric_info *info, struct dp_fabric **out)
{
	struct dp_fabric *fabric;
	int error = check_options(options);

	if (error)
		return error;
	fabric = fabric_new(options, &error);
	if (!fabric)
		return error;
	fabric->ops = ops;
	fabric->impl = impl;
	fabric->info = *info;
	if (fabric->options.segment_bytes > info->message_max_bytes)
		fabric->options.segment_bytes = info->message_max_bytes;
	if (fabric->options.slot_bytes > fabric->options.segment_bytes)
		fabric->options.slot_bytes = fabric->options.segment_bytes;
	error = start_threads(fabric);
	if (error) {
		stop_threads(fabric);
		fabric_free(fabric);
		return error;
	}
	*out = fabric;
	return 0;
}

void dp_fabric_close(struct dp_fabric **fabric)
{
	struct dp_fabric *self = *fabric;

	if (!self)
		return;
	stop_threads(self);
	for (uint32_t i = 0; i < self->options.lanes_max; i++) {
		if (self->lanes[i].state != DP_LANE_CLOSED)
			self->ops->lane_close(&self->lanes[i]);
	}
	dp_domains_end(self);
	self->ops->close(self);
	fabric_free(self);
	*fabric = NULL;
}
