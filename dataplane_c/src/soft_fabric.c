/*
 * soft_fabric.c - the soft NIC as a fabric: turns of the lanes, timers, sleep and wake.
 *
 * A bit per lane says that it has something to do or to wait for. Whoever gives a lane work sets
 * it, and wakes the NIC where that sleeps; the NIC clears it once the lane is quiet.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "soft.h"

#define WORD_BITS (8 * sizeof(unsigned long))
#define ROUNDS 16 /* of receiving and sending in one poll, before completions are handed up */
#define SECOND_NS UINT64_C(1000000000)

uint64_t soft_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static struct soft_nic *nic_of(const struct dp_fabric *fabric)
{
	return fabric->impl;
}

/* soft_nic_mark - the lane has something to do, says the NIC itself. */
void soft_nic_mark(struct dp_lane *lane)
{
	struct soft_nic *nic = soft_nic_of(lane);

	atomic_fetch_or(&nic->active[lane->index / WORD_BITS], 1ul << lane->index % WORD_BITS);
}

/* soft_nic_wake - the lane has something for the NIC to do. Any thread, lane's lock held. */
void soft_nic_wake(struct dp_lane *lane)
{
	struct soft_nic *nic = soft_nic_of(lane);
	const uint64_t one = 1;

	soft_nic_mark(lane);
	/* Only a full counter could refuse, and then the NIC is being woken already. */
	if (atomic_load(&nic->sleeping) && write(lane->fabric->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void sleep_no_later(struct soft_nic *nic, uint64_t deadline_ns)
{
	nic->deadline_ns = soft_earlier(nic->deadline_ns, deadline_ns);
}

/* Answers and requests as packets; whether more could go at once. */
static bool packets_turn(struct dp_lane *lane, uint64_t now_ns)
{
	uint32_t budget = SOFT_TURN_PACKETS;
	bool busy = soft_responder_turn(lane, &budget);

	if (soft_qp_of(lane)->state == IBV_QPS_RTS)
		busy |= soft_requester_turn(lane, &budget, now_ns);
	soft_socket_flush(soft_nic_of(lane), soft_qp_of(lane));
	return busy;
}

/*
 * One lane's turn: send, report, and be quiet where nothing is left. Lane's lock held.
 *
 * Returns how many completions went to @out; *@more says that it could go on at once.
 */
static int turn(struct dp_lane *lane, uint64_t now_ns, struct dp_completion *out, int max,
		bool *more)
{
	struct soft_nic *nic = soft_nic_of(lane);
	struct soft_qp *qp = soft_qp_of(lane);
	bool busy = qp->carrier == SOFT_CARRIER_UDP ? packets_turn(lane, now_ns)
						    : soft_local_turn(lane, now_ns);
	int count = soft_lane_reap(lane, out, max);
	uint64_t deadline_ns =
		soft_earlier(soft_requester_deadline(&qp->requester), qp->link.deadline_ns);

	busy |= count == max;
	if (busy)
		*more = true;
	else if (deadline_ns == SOFT_NEVER)
		atomic_fetch_and(&nic->active[lane->index / WORD_BITS],
				 ~(1ul << lane->index % WORD_BITS));
	sleep_no_later(nic, deadline_ns);
	return count;
}

/* The turns of all lanes with a bit in @word and in @mask; as turn(). */
static int turn_word(struct dp_fabric *fabric, uint32_t word, unsigned long mask, uint64_t now_ns,
		     struct dp_completion *out, int max, bool *more)
{
	unsigned long bits = atomic_load(&nic_of(fabric)->active[word]) & mask;
	int count = 0;

	for (; bits; bits &= bits - 1) {
		uint32_t bit = (uint32_t)__builtin_ctzl(bits);
		struct dp_lane *lane = &fabric->lanes[word * WORD_BITS + bit];

		pthread_mutex_lock(&lane->lock);
		if (lane->impl)
			count += turn(lane, now_ns, out + count, max - count, more);
		else
			atomic_fetch_and(&nic_of(fabric)->active[word], ~(1ul << bit));
		pthread_mutex_unlock(&lane->lock);
	}
	return count;
}

/* A turn for every lane that wants one. The first of them changes, so that none is always last. */
static int turn_all(struct dp_fabric *fabric, uint64_t now_ns, struct dp_completion *out, int max,
		    bool *more)
{
	struct soft_nic *nic = nic_of(fabric);
	uint32_t first = nic->turn++ % nic->options.lanes_max;
	unsigned long from_first = ~0ul << first % WORD_BITS;
	int count = 0;

	nic->deadline_ns = soft_socket_release(nic, now_ns);
	/* The first one's word comes twice: from it on, and at the end up to it. */
	for (uint32_t i = 0; i <= nic->words; i++) {
		unsigned long mask = i == 0 ? from_first : i < nic->words ? ~0ul : ~from_first;

		count += turn_word(fabric, (uint32_t)(first / WORD_BITS + i) % nic->words, mask,
				   now_ns, out + count, max - count, more);
	}
	return count;
}

static int soft_poll(struct dp_fabric *fabric, struct dp_completion *out, int max)
{
	struct soft_nic *nic = nic_of(fabric);
	bool more = true;
	int count = 0;

	nic->fabric = fabric;
	for (int round = 0; more && round < ROUNDS && count < max; round++) {
		uint64_t now_ns = soft_now_ns();

		soft_local_receive(nic);
		more = soft_socket_receive(nic, now_ns);
		count += turn_all(fabric, now_ns, out + count, max - count, &more);
	}
	if (more)
		nic->deadline_ns = 0;
	return count;
}

/* From now on be woken by who brings work. */
static int soft_arm(struct dp_fabric *fabric)
{
	atomic_store(&nic_of(fabric)->sleeping, true);
	return 0;
}

/* The timer to the nearest deadline. The poll after the arming may have changed that. */
static void set_timer(struct soft_nic *nic)
{
	uint64_t at_ns = nic->deadline_ns ? nic->deadline_ns : 1;
	struct itimerspec timer = { 0 };

	if (nic->armed_ns == at_ns)
		return;
	if (at_ns != SOFT_NEVER) {
		timer.it_value.tv_sec = (time_t)(at_ns / SECOND_NS);
		timer.it_value.tv_nsec = (long)(at_ns % SECOND_NS);
	}
	nic->armed_ns = at_ns;
	(void)timerfd_settime(nic->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

static int soft_pollfds(struct dp_fabric *fabric, struct pollfd *out)
{
	set_timer(nic_of(fabric));
	out[0] = (struct pollfd){ .fd = soft_socket_fd(nic_of(fabric)), .events = POLLIN };
	out[1] = (struct pollfd){ .fd = nic_of(fabric)->timer_fd, .events = POLLIN };
	out[2] = (struct pollfd){ .fd = soft_local_fd(nic_of(fabric)), .events = POLLIN };
	return 3; /* poll passes over a descriptor of -1 */
}

static void soft_serve(struct dp_fabric *fabric)
{
	struct soft_nic *nic = nic_of(fabric);
	uint64_t count;

	atomic_store(&nic->sleeping, false);
	if (read(nic->timer_fd, &count, sizeof(count)) > 0)
		nic->armed_ns = SOFT_NEVER; /* it has fired */
	while (read(fabric->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

static void nic_free(struct soft_nic *nic)
{
	soft_local_close(nic);
	soft_socket_close(nic);
	if (nic->timer_fd >= 0)
		close(nic->timer_fd);
	free(nic->active);
	free(nic);
}

static void soft_close(struct dp_fabric *fabric)
{
	nic_free(nic_of(fabric));
}

static const struct dp_fabric_ops OPS = {
	.domain_open = soft_domain_open,
	.domain_close = soft_domain_close,
	.region_open = soft_region_open,
	.region_revoke = soft_region_revoke,
	.region_close = soft_region_close,
	.lane_open = soft_lane_open,
	.lane_close = soft_lane_close,
	.lane_prepare = soft_lane_prepare,
	.lane_connect = soft_lane_connect,
	.lane_error = soft_lane_error,
	.lane_reset = soft_lane_reset,
	.lane_replace = soft_lane_replace,
	.lane_state = soft_lane_state,
	.lane_carrier = soft_lane_carrier,
	.post = soft_lane_post,
	.post_receive = soft_lane_post_receive,
	.poll = soft_poll,
	.arm = soft_arm,
	.pollfds = soft_pollfds,
	.serve = soft_serve,
	.close = soft_close,
};

/* Faults are of packets, so who wants them wants UDP. Where it can't be had, auto does without. */
static int open_local(struct soft_nic *nic)
{
	bool forced = nic->options.carrier == DP_CARRIER_LOCAL;
	int error;

	if (nic->options.carrier == DP_CARRIER_UDP ||
	    (!forced && soft_has_faults(&nic->options.faults)))
		return 0;
	error = soft_local_open(nic);
	return forced ? error : 0;
}

/* Sockets, timer and the lanes' bits; 0 or -errno, the caller undoes. */
static int nic_open(struct soft_nic *nic)
{
	int error = soft_socket_open(nic);

	if (error)
		return error;
	nic->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (nic->timer_fd < 0)
		return -errno;
	nic->armed_ns = SOFT_NEVER;
	while (1u << nic->index_bits < nic->options.lanes_max)
		nic->index_bits++;
	nic->words = (uint32_t)((nic->options.lanes_max + WORD_BITS - 1) / WORD_BITS);
	nic->active = calloc(nic->words, sizeof(*nic->active));
	return nic->active ? open_local(nic) : -ENOMEM;
}

/* The path MTU within the configured cap, a power of two; 0, or -ENETDOWN. */
static int choose_mtu(struct soft_nic *nic, struct dp_fabric_info *info)
{
	info->mtu_active_bytes = soft_path_mtu(nic->gid);
	if (!info->mtu_active_bytes)
		return -ENETDOWN;
	for (nic->mtu = info->mtu_active_bytes; nic->mtu > nic->options.mtu_cap_bytes;)
		nic->mtu /= 2;
	info->mtu_bytes = nic->mtu;
	return 0;
}

/* dp_soft_fabric_open - dp_fabric_open for DP_FABRIC_SOFT. */
int dp_soft_fabric_open(const struct dp_fabric_options *options, struct dp_fabric **out)
{
	struct dp_fabric_info info = { .link = DP_LINK_ETHERNET,
				       .message_max_bytes = (uint32_t)DP_MESSAGE_MAX };
	struct soft_nic *nic;
	int error = -EINVAL;

	if (options->lanes_max == 0 || options->lanes_max > DP_LANES_MAX ||
	    options->mtu_cap_bytes < 256 || options->network_count > DP_NETWORKS_MAX ||
	    options->carrier > DP_CARRIER_LOCAL)
		return error;
	nic = calloc(1, sizeof(*nic));
	if (!nic)
		return -ENOMEM;
	nic->timer_fd = -1;
	nic->options = *options;
	memcpy(nic->gid, options->address, sizeof(nic->gid));
	error = nic_open(nic);
	if (!error)
		error = choose_mtu(nic, &info);
	memcpy(info.gid, nic->gid, sizeof(info.gid));
	if (!error)
		error = dp_fabric_start(options, &OPS, nic, &info, out);
	if (error)
		nic_free(nic);
	return error;
}
