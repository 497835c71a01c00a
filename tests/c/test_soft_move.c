/* Connections over the soft fabric, by either carrier: one lane for buffers that come and go. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_libc.h"
#include "fake_verbs.h"
#include "soft_pair.h"

#define SLOT (1u << 16)
#define LENGTH (300u * 1000)
#define SMALL 4096u
#define REQUESTS 1000u
#define BOTH (DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ)

/* One side: a domain and a lane in it. */
struct side {
	struct dp_fabric *fabric;
	struct dp_domain *domain;
	struct dp_lane *lane;
};

struct link {
	struct side gateway, client;
	struct dp_region *staging;
	uint8_t *slots;
};

static enum dp_carrier carrier;

static struct side side_open(void)
{
	struct dp_fabric_options options = pair_options(4096);
	struct side side = { 0 };

	options.carrier = carrier;
	CHECK_EQUAL(dp_fabric_open(&options, &side.fabric), 0);
	CHECK_EQUAL(dp_domain_open(side.fabric, &side.domain), 0);
	return side;
}

static struct dp_peer as_peer(const struct side *side)
{
	struct dp_fabric_info info;
	struct dp_peer peer = { .qpn = dp_lane_qpn(side->lane), .psn = 77 };

	dp_fabric_query(side->fabric, &info);
	memcpy(peer.gid, info.gid, sizeof(peer.gid));
	return peer;
}

static struct link link_open(void)
{
	struct link link = { .gateway = side_open(), .client = side_open() };
	struct dp_peer gateway, client;

	link.slots = calloc(8, SLOT);
	CHECK_EQUAL(dp_region_open(link.gateway.domain, link.slots, 8 * SLOT, DP_ACCESS_LOCAL_WRITE,
				   &link.staging),
		    0);
	CHECK_EQUAL(dp_lane_join(link.gateway.domain, link.staging, 1, &link.gateway.lane), 0);
	CHECK_EQUAL(dp_lane_join(link.client.domain, NULL, 2, &link.client.lane), 0);
	CHECK_EQUAL(dp_lane_prepare(link.gateway.lane, 77, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_prepare(link.client.lane, 77, BOTH), 0);
	gateway = as_peer(&link.gateway);
	client = as_peer(&link.client);
	CHECK_EQUAL(dp_lane_connect(link.gateway.lane, &client), 0);
	CHECK_EQUAL(dp_lane_connect(link.client.lane, &gateway), 0);
	return link;
}

static void link_close(struct link *link)
{
	dp_fabric_close(&link->gateway.fabric);
	dp_fabric_close(&link->client.fabric);
	free(link->slots);
}

static struct dp_move move_of(uint32_t direction, const struct dp_extent *extent,
			      const uint8_t *buffer, const struct dp_region *region)
{
	return (struct dp_move){
		.tag = 9,
		.direction = direction,
		.extent_count = 1,
		.extents = extent,
		.remote = { .addr = (uintptr_t)buffer,
			    .length_bytes = LENGTH,
			    .rkey = dp_region_rkey(region) },
		.slot_bytes = SLOT,
		.slot_count = 4,
		.slots = { 0, 2 * SLOT, 4 * SLOT, 6 * SLOT },
	};
}

static struct dp_event outcome(struct link *link)
{
	struct dp_event event;

	CHECK(event_within(link->gateway.fabric, 20000, &event));
	CHECK_EQUAL(event.kind, DP_EVENT_MOVED);
	return event;
}

static uint8_t *patterned(uint32_t seed)
{
	uint8_t *bytes = malloc(LENGTH);

	for (uint32_t i = 0; i < LENGTH; i++)
		bytes[i] = (uint8_t)(i * seed + i / 251);
	return bytes;
}

static void buffers_come_and_go_on_one_connection(void)
{
	struct link link = link_open();

	for (uint32_t round = 1; round < 20; round++) {
		uint8_t *from = patterned(round), *to = calloc(1, LENGTH);
		struct dp_extent object = { .fd = memfd_create("object", 0),
					    .length_bytes = LENGTH };
		struct dp_region *source, *target;
		struct dp_move fetch, send;

		CHECK_EQUAL(dp_region_open(link.client.domain, from, LENGTH, DP_ACCESS_REMOTE_READ,
					   &source),
			    0);
		CHECK_EQUAL(dp_region_open(link.client.domain, to, LENGTH, DP_ACCESS_REMOTE_WRITE,
					   &target),
			    0);
		fetch = move_of(DP_MOVE_FETCH, &object, from, source);
		CHECK_EQUAL(dp_lane_move(link.gateway.lane, &fetch), 0);
		CHECK_EQUAL(outcome(&link).status, 0);
		send = move_of(DP_MOVE_SEND, &object, to, target);
		CHECK_EQUAL(dp_lane_move(link.gateway.lane, &send), 0);
		CHECK_EQUAL(outcome(&link).status, 0);
		CHECK_EQUAL(memcmp(from, to, LENGTH), 0);
		dp_region_close(&source);
		dp_region_close(&target);
		close(object.fd);
		free(from);
		free(to);
	}
	link_close(&link);
}

/* What the client did not offer, or no longer does, is refused as hardware refuses it. */
static void only_what_a_region_grants_is_reached(void)
{
	for (int fault = 0; fault < 4; fault++) {
		struct link link = link_open();
		uint8_t *buffer = patterned(3), *before = patterned(3);
		struct dp_extent object = { .fd = memfd_create("object", 0),
					    .length_bytes = LENGTH };
		uint32_t access = fault == 0 ? DP_ACCESS_REMOTE_READ : DP_ACCESS_REMOTE_WRITE;
		struct dp_region *region;
		struct dp_move move;
		struct dp_event event;

		CHECK_EQUAL(ftruncate(object.fd, LENGTH), 0);
		CHECK_EQUAL(dp_region_open(link.client.domain, buffer, LENGTH, access, &region), 0);
		move = move_of(DP_MOVE_SEND, &object, buffer, region);
		switch (fault) {
		case 1:
			move.remote.rkey ^= 1;
			break;
		case 2:
			move.remote.addr += 1;
			break;
		case 3:
			dp_region_close(&region);
			break;
		default:
			break;
		}
		CHECK_EQUAL(dp_lane_move(link.gateway.lane, &move), 0);
		event = outcome(&link);
		CHECK_EQUAL(event.status, -EREMOTEIO);
		CHECK_EQUAL(event.wc_status, IBV_WC_REM_ACCESS_ERR);
		if (fault != 2) /* there, all but the last piece was granted */
			CHECK_EQUAL(memcmp(buffer, before, LENGTH), 0);
		link_close(&link);
		close(object.fd);
		free(buffer);
		free(before);
	}
}

/* A canary: once dp_region_close has returned, whatever is still on its way changes nothing. */
static void a_region_that_was_closed_stays_as_it_is(void)
{
	for (int round = 0; round < 50; round++) {
		struct link link = link_open();
		uint8_t *buffer = calloc(1, LENGTH), *after = malloc(LENGTH);
		struct dp_extent object = { .fd = memfd_create("object", 0),
					    .length_bytes = LENGTH };
		uint8_t *content = patterned(7);
		struct dp_region *region;
		struct dp_move move;
		struct dp_event event;

		CHECK_EQUAL(write(object.fd, content, LENGTH), LENGTH);
		CHECK_EQUAL(dp_region_open(link.client.domain, buffer, LENGTH,
					   DP_ACCESS_REMOTE_WRITE, &region),
			    0);
		move = move_of(DP_MOVE_SEND, &object, buffer, region);
		CHECK_EQUAL(dp_lane_move(link.gateway.lane, &move), 0);
		usleep((useconds_t)(round * 20));
		dp_region_close(&region);
		memcpy(after, buffer, LENGTH);
		event = outcome(&link);
		CHECK_EQUAL(memcmp(buffer, after, LENGTH), 0);
		if (event.status == 0)
			CHECK_EQUAL(memcmp(buffer, content, LENGTH), 0);
		else
			CHECK_EQUAL(event.wc_status, IBV_WC_REM_ACCESS_ERR);
		link_close(&link);
		close(object.fd);
		free(buffer);
		free(after);
		free(content);
	}
}

static struct dp_counters counters_of(const struct side *side)
{
	struct dp_counters counters;

	dp_fabric_counters(side->fabric, &counters);
	return counters;
}

static void check_nothing_made(const struct side *side, const struct dp_counters *before)
{
	const struct dp_counters now = counters_of(side);

	for (int i = DP_COUNT_QUEUE_PAIRS; i <= DP_COUNT_ALLOCATIONS; i++)
		CHECK_EQUAL(now.counts[i], before->counts[i]);
}

/* One small object, by WRITE and back by READ. */
static void there_and_back(struct link *link, const struct dp_move *send,
			   const struct dp_move *fetch)
{
	CHECK_EQUAL(dp_lane_move(link->gateway.lane, send), 0);
	CHECK_EQUAL(outcome(link).status, 0);
	CHECK_EQUAL(dp_lane_move(link->gateway.lane, fetch), 0);
	CHECK_EQUAL(outcome(link).status, 0);
}

static void a_thousand_moves_make_nothing_and_take_no_memory(void)
{
	struct link link = link_open();
	uint8_t *buffer = patterned(5);
	struct dp_extent object = { .fd = memfd_create("object", 0), .length_bytes = SMALL };
	struct dp_counters ours, theirs, now;
	struct dp_region *region;
	struct dp_move send, fetch;
	unsigned int heap_uses;

	CHECK_EQUAL(dp_region_open(link.client.domain, buffer, LENGTH, BOTH, &region), 0);
	send = move_of(DP_MOVE_SEND, &object, buffer, region);
	fetch = move_of(DP_MOVE_FETCH, &object, buffer, region);
	CHECK_EQUAL(write(object.fd, buffer, SMALL), SMALL);
	there_and_back(&link, &send, &fetch); /* pairs, and touches its memory */
	ours = counters_of(&link.gateway);
	theirs = counters_of(&link.client);
	heap_uses = fake_heap_uses();
	for (uint32_t i = 0; i < REQUESTS; i++)
		there_and_back(&link, &send, &fetch);
	CHECK_EQUAL(fake_heap_uses(), heap_uses);
	check_nothing_made(&link.gateway, &ours);
	check_nothing_made(&link.client, &theirs);
	now = counters_of(&link.gateway);
	CHECK_EQUAL(now.counts[DP_COUNT_WRITES] - ours.counts[DP_COUNT_WRITES], REQUESTS);
	CHECK_EQUAL(now.counts[DP_COUNT_WRITTEN_BYTES] - ours.counts[DP_COUNT_WRITTEN_BYTES],
		    REQUESTS * SMALL);
	CHECK_EQUAL(now.counts[DP_COUNT_READS] - ours.counts[DP_COUNT_READS], REQUESTS);
	CHECK_EQUAL(now.counts[DP_COUNT_READ_BYTES] - ours.counts[DP_COUNT_READ_BYTES],
		    REQUESTS * SMALL);
	CHECK_EQUAL(now.counts[DP_COUNT_EVENTS] - ours.counts[DP_COUNT_EVENTS], 2 * REQUESTS);
	CHECK_EQUAL(now.completions[IBV_WC_SUCCESS] - ours.completions[IBV_WC_SUCCESS],
		    2 * REQUESTS);
	link_close(&link);
	close(object.fd);
	free(buffer);
}

/* The library's own count is the heap's, from the first lane on. */
static void each_use_of_the_heap_is_counted(void)
{
	struct dp_fabric *fabric = side_open().fabric;
	uint64_t counted_before = counted(fabric, DP_COUNT_ALLOCATIONS);
	unsigned int heap_uses = fake_heap_uses();
	struct dp_lane *lane;
	static uint8_t memory[SLOT];

	CHECK_EQUAL(dp_lane_open(fabric, memory, SLOT, DP_ACCESS_NONE, 1, &lane), 0);
	CHECK(fake_heap_uses() > heap_uses);
	CHECK_EQUAL(counted(fabric, DP_COUNT_ALLOCATIONS) - counted_before,
		    fake_heap_uses() - heap_uses);
	CHECK_EQUAL(counted(fabric, DP_COUNT_QUEUE_PAIRS), 1);
	CHECK_EQUAL(counted(fabric, DP_COUNT_REGIONS), 1);
	dp_fabric_close(&fabric);
}

int main(void)
{
	static const enum dp_carrier CARRIERS[] = { DP_CARRIER_UDP, DP_CARRIER_LOCAL };

	for (size_t i = 0; i < 2; i++) {
		carrier = CARRIERS[i];
		RUN(buffers_come_and_go_on_one_connection);
		RUN(only_what_a_region_grants_is_reached);
		RUN(a_region_that_was_closed_stays_as_it_is);
		RUN(a_thousand_moves_make_nothing_and_take_no_memory);
		RUN(each_use_of_the_heap_is_counted);
	}
	return 0;
}
