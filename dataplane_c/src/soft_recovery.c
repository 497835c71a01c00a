/*
 * soft_recovery.c - how much a soft lane keeps in flight, and when it sends again.
 *
 * The window is TCP's (RFC 5681: slow start, then a packet a window; a loss halves it). What is
 * missing is learned from a NAK, or from silence: first the probe's, then the transport timer's.
 */
#include "soft.h"

#define ACK_TIMEOUT_NS (UINT64_C(4096) << 14) /* qp.c: timeout 14 */
#define ACK_TIMEOUT_SHIFT_MAX 2
#define RETRY_COUNT 7
#define PROBE_LEAST_NS UINT64_C(1000000)
#define PROBE_FIRST_NS UINT64_C(10000000) /* as long as no round trip is known */
#define PROBE_SHIFT_MAX 6
#define ROUND_TRIP_PARTS 8 /* one of which is the newest measurement */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The probe comes well after an answer would have, and ever later. */
static void restart_probe(struct soft_requester *requester, uint64_t now_ns)
{
	uint64_t wait_ns = requester->round_trip_ns ? PROBE_LEAST_NS + 2 * requester->round_trip_ns
						    : PROBE_FIRST_NS;

	requester->probe_at_ns = now_ns + (wait_ns << least(requester->probes, PROBE_SHIFT_MAX));
}

/*
 * The transport timer (9.7.6.1.3): it may take up to four times the timeout, and from the third
 * wait on it does, because a peer that is a process may be kept from its CPU for long. With
 * retry_cnt 7 it gives up after 31 timeouts, 2.1 s; hardware does between 8 and 32.
 */
static void restart_timers(struct soft_requester *requester, uint64_t now_ns)
{
	if (requester->una == requester->sent) {
		requester->retry_at_ns = requester->probe_at_ns = SOFT_NEVER;
		return;
	}
	requester->retry_at_ns =
		now_ns + (ACK_TIMEOUT_NS << least(requester->retries, ACK_TIMEOUT_SHIFT_MAX));
	restart_probe(requester, now_ns);
}

/* How long an answer takes, by packets that were sent once (P. Karn, C. Partridge, 1987). */
static void measure(struct soft_requester *requester, uint64_t sequence, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - requester->timed_from_ns;

	if (!requester->timed || sequence < requester->timed)
		return;
	if (requester->round_trip_ns)
		took_ns = (requester->round_trip_ns * (ROUND_TRIP_PARTS - 1) + took_ns) /
			  ROUND_TRIP_PARTS;
	requester->round_trip_ns = took_ns;
	requester->timed = 0;
}

/* By slow start up to the threshold, then by one a window. */
static void grow(struct soft_requester *requester, uint32_t packets)
{
	if (requester->window < requester->threshold) {
		requester->window += packets;
	} else {
		requester->growth += packets;
		if (requester->growth >= requester->window) {
			requester->growth = 0;
			requester->window++;
		}
	}
	requester->window = least(requester->window, requester->window_max);
}

/* Send again from the oldest that is missing; a loss costs half the window, once a window. */
static void go_back(struct dp_lane *lane)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (self->una >= self->recovery) {
		self->recovery = self->sent;
		self->threshold = most(self->window / 2, SOFT_WINDOW_MIN);
		self->window = self->threshold;
	}
	self->nxt = self->una;
	self->timed = 0;
	dp_count(lane->fabric, DP_COUNT_RETRANSMISSIONS, 1);
}

/* More is acknowledged than the probe sent again: nothing was lost, the peer was away. */
static void undo_probe(struct soft_requester *requester)
{
	requester->window = requester->undo_window;
	requester->threshold = requester->undo_threshold;
}

/* soft_recovery_progress - everything below @sequence is acknowledged; una lies before it. */
void soft_recovery_progress(struct soft_requester *requester, uint64_t sequence, uint64_t now_ns)
{
	if (requester->probes && sequence > requester->nxt)
		undo_probe(requester);
	grow(requester, (uint32_t)(sequence - requester->una));
	measure(requester, sequence, now_ns);
	requester->una = sequence;
	if (requester->nxt < sequence)
		requester->nxt = sequence;
	requester->retries = requester->probes = 0;
	requester->reread = false;
	requester->wait_until_ns = requester->deaf_until_ns = 0;
	restart_timers(requester, now_ns);
}

/* soft_recovery_sent - what lies below nxt has gone out, perhaps for the first time. */
void soft_recovery_sent(struct soft_requester *requester, uint64_t now_ns)
{
	if (requester->sent < requester->nxt) {
		requester->sent = requester->nxt;
		if (!requester->timed) {
			requester->timed = requester->nxt;
			requester->timed_from_ns = now_ns;
		}
	}
	if (requester->retry_at_ns == SOFT_NEVER)
		restart_timers(requester, now_ns);
}

/* One of retry_cnt attempts; false: that was the last, and the queue has failed. */
static bool retry(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (self->retries == RETRY_COUNT) {
		soft_lane_fail(lane, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	self->retries++;
	self->reread = false;
	go_back(lane);
	restart_timers(self, now_ns);
	return true;
}

/* soft_recovery_gap - a NAK told of one. For a round trip more may tell of the same. */
void soft_recovery_gap(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (now_ns < self->deaf_until_ns || !retry(lane, now_ns))
		return;
	self->deaf_until_ns = now_ns + (self->round_trip_ns ? self->round_trip_ns : PROBE_LEAST_NS);
}

/* soft_recovery_reread - there is a gap in a READ's answer, which is asked for again, once. */
void soft_recovery_reread(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (self->reread)
		return;
	go_back(lane);
	restart_timers(self, now_ns);
	self->reread = true;
}

/* soft_recovery_wait - the peer is not ready: again from the oldest, but not before @until_ns. */
void soft_recovery_wait(struct soft_requester *requester, uint64_t until_ns)
{
	requester->nxt = requester->una;
	requester->timed = 0;
	requester->wait_until_ns = until_ns;
	requester->retry_at_ns = requester->probe_at_ns = SOFT_NEVER;
}

/*
 * Silence: the last packets are lost, or what was sent again is, or the answer. To wait for the
 * timer would cost a thousand round trips, so the oldest few go out again before. That is none of
 * the retries that retry_cnt counts, and the transport timer runs on.
 */
static void probe(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (self->probes == 0) {
		self->undo_window = self->window;
		self->undo_threshold = self->threshold;
	}
	go_back(lane);
	self->window = SOFT_WINDOW_MIN;
	self->reread = false;
	self->probes++;
	restart_probe(self, now_ns);
}

/* soft_recovery_turn - what is due by the clock; whether anything may be sent now. */
bool soft_recovery_turn(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (now_ns < self->wait_until_ns)
		return false;
	self->wait_until_ns = 0;
	if (now_ns >= self->retry_at_ns) {
		dp_count(lane->fabric, DP_COUNT_TIMEOUTS, 1);
		return retry(lane, now_ns);
	}
	if (now_ns >= self->probe_at_ns)
		probe(lane, now_ns);
	return true;
}
