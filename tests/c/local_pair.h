/* local_pair.h - two soft fabrics of one host whose lanes exchange bytes without packets. */
#ifndef LOCAL_PAIR_H
#define LOCAL_PAIR_H

#include <errno.h>

#include "soft_pair.h"

#define LENGTH (4u << 20)
#define QUIET_MS 30
#define ALL_ACCESS (DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ)

static bool direct; /* the way that is being tested */

static inline struct dp_fabric_options local_options(void)
{
	struct dp_fabric_options options = pair_options(4096);

	options.carrier = DP_CARRIER_LOCAL;
	return options;
}

/* An end whose lanes go the way that is being tested. */
static inline void open_end(struct end *end, const struct dp_fabric_options *options, uint32_t psn)
{
	end_open(end, options, LENGTH, psn);
	if (!direct && soft_nic_of(end->lane)->local)
		soft_local_refuse_direct(soft_nic_of(end->lane));
}

static inline struct pair open_pair(uint32_t access)
{
	const struct dp_fabric_options options = local_options();
	struct pair pair;

	open_end(&pair.ours, &options, DP_PSN_MAX - 2);
	open_end(&pair.peer, &options, 1);
	for (uint64_t i = 0; i < LENGTH; i++) {
		pair.ours.memory[i] = (uint8_t)(i * 31 + i / 251);
		pair.peer.memory[i] = 0;
	}
	pair_connect(&pair, access);
	return pair;
}

static inline void write_to_peer(struct pair *pair, uint64_t length)
{
	const struct dp_remote to = end_as_remote(&pair->peer);

	CHECK_EQUAL(dp_lane_write(pair->ours.lane, length, &to, PAIR_COOKIE), 0);
}

static inline void check_written(struct pair *pair, uint64_t length)
{
	struct dp_event sent = next_event(&pair->ours);
	struct dp_event received = next_event(&pair->peer);

	CHECK_EQUAL(sent.kind, DP_EVENT_WRITTEN);
	CHECK_EQUAL(sent.status, 0);
	CHECK_EQUAL(sent.bytes, length);
	CHECK_EQUAL(received.kind, DP_EVENT_RECEIVED);
	CHECK_EQUAL(received.status, 0);
	CHECK_EQUAL(received.bytes, length);
	CHECK_EQUAL(received.imm, PAIR_COOKIE);
	CHECK_EQUAL(received.flags, DP_EVENT_WRITE_IMM);
	CHECK_EQUAL(memcmp(pair->ours.memory, pair->peer.memory, length), 0);
}

static inline void check_failed(const struct end *end, uint32_t kind, uint32_t wc_status)
{
	struct dp_event event = next_event(end);

	CHECK_EQUAL(event.kind, kind);
	CHECK_EQUAL(event.status, -EREMOTEIO);
	CHECK_EQUAL(event.wc_status, wc_status);
	CHECK_EQUAL(event.qp_state, IBV_QPS_ERR);
}

static inline void check_untouched(const struct end *end, uint8_t value)
{
	for (uint64_t i = 0; i < LENGTH; i++)
		CHECK_EQUAL(end->memory[i], value);
}

static inline bool goes_direct(struct dp_lane *lane)
{
	bool result;

	pthread_mutex_lock(&lane->lock);
	result = soft_qp_of(lane)->link.direct;
	pthread_mutex_unlock(&lane->lock);
	return result;
}

#endif
