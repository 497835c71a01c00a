/* soft_pair.h - two soft fabrics in one process, a lane each, connected over loopback. */
#ifndef SOFT_PAIR_H
#define SOFT_PAIR_H

#include <poll.h>
#include <string.h>

#include "check.h"
#include "soft.h"

#define PAIR_COOKIE 0x00c0ffeeu
#define PAIR_ACCESS (DP_ACCESS_LOCAL_WRITE | DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ)

struct end {
	struct dp_fabric *fabric;
	struct dp_lane *lane;
	uint8_t *memory;
	uint64_t length;
	uint32_t psn;
};

struct pair {
	struct end ours;
	struct end peer;
};

static inline struct dp_fabric_options pair_options(uint32_t mtu)
{
	return (struct dp_fabric_options){
		.kind = DP_FABRIC_SOFT,
		.carrier = DP_CARRIER_UDP,
		.mtu_cap_bytes = mtu,
		.lanes_max = 8,
		.io_threads = 1,
		.spin_us = 20,
		.slot_bytes = 1 << 16,
		.segment_bytes = 1 << 20,
		.network_count = 1,
		.networks = { { .address = { [10] = 0xff, 0xff, 127 }, .prefix_bits = 104 } },
	};
}

static inline void end_open(struct end *end, const struct dp_fabric_options *options,
			    uint64_t length, uint32_t psn)
{
	CHECK_EQUAL(dp_fabric_open(options, &end->fabric), 0);
	end->length = length;
	end->memory = calloc(1, length);
	end->psn = psn;
	CHECK_EQUAL(dp_lane_open(end->fabric, end->memory, length, PAIR_ACCESS, psn, &end->lane),
		    0);
}

static inline struct dp_peer end_as_peer(const struct end *end)
{
	struct dp_fabric_info info;
	struct dp_peer peer = { .qpn = dp_lane_qpn(end->lane), .psn = end->psn };

	dp_fabric_query(end->fabric, &info);
	memcpy(peer.gid, info.gid, sizeof(peer.gid));
	return peer;
}

static inline struct dp_remote end_as_remote(const struct end *end)
{
	return (struct dp_remote){ .addr = (uintptr_t)end->memory,
				   .length_bytes = end->length,
				   .rkey = dp_lane_rkey(end->lane) };
}

/* Ours may be reached in no way, the peer's memory by @access. */
static inline void pair_connect(struct pair *pair, uint32_t access)
{
	struct dp_peer ours, peer;

	CHECK_EQUAL(dp_lane_prepare(pair->ours.lane, pair->ours.psn, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_prepare(pair->peer.lane, pair->peer.psn, access), 0);
	ours = end_as_peer(&pair->ours);
	peer = end_as_peer(&pair->peer);
	CHECK_EQUAL(dp_lane_connect(pair->ours.lane, &peer), 0);
	CHECK_EQUAL(dp_lane_connect(pair->peer.lane, &ours), 0);
}

static inline struct pair pair_open(const struct dp_fabric_options *options, uint64_t length,
				    uint32_t access)
{
	struct pair pair;

	end_open(&pair.ours, options, length, DP_PSN_MAX - 2); /* wraps in the third packet */
	end_open(&pair.peer, options, length, 1);
	for (uint64_t i = 0; i < length; i++)
		pair.ours.memory[i] = (uint8_t)(i * 31 + i / 251);
	pair_connect(&pair, access);
	return pair;
}

static inline void pair_close(struct pair *pair)
{
	dp_fabric_close(&pair->ours.fabric);
	dp_fabric_close(&pair->peer.fabric);
	free(pair->ours.memory);
	free(pair->peer.memory);
}

static inline uint64_t counted(const struct dp_fabric *fabric, enum dp_counter counter)
{
	struct dp_counters counters;

	dp_fabric_counters(fabric, &counters);
	return counters.counts[counter];
}

/* Whether an event of @fabric comes within @limit_ms. */
static inline bool event_within(struct dp_fabric *fabric, int limit_ms, struct dp_event *out)
{
	struct pollfd fd = { .fd = dp_fabric_fd(fabric), .events = POLLIN };

	return poll(&fd, 1, limit_ms) == 1 && dp_fabric_drain(fabric, out, 1) == 1;
}

static inline struct dp_event next_event(const struct end *end)
{
	struct dp_event event;

	CHECK(event_within(end->fabric, 20000, &event));
	return event;
}

#endif
