/*
 * Soft lanes of one host: the same rules as over UDP, both straight from the peer's memory and
 * through its ring.
 */
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "local_pair.h"

static void writes_arrive_at_every_length(void)
{
	static const uint64_t LENGTHS[] = {
		1, 4095, 4097, 131071, 131073, 700001, 1 << 20, LENGTH
	};
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);

	for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
		memset(pair.peer.memory, 0, LENGTH);
		CHECK(dp_lane_receive(pair.peer.lane) >= 0);
		write_to_peer(&pair, LENGTHS[i]);
		check_written(&pair, LENGTHS[i]);
		for (uint64_t at = LENGTHS[i]; at < LENGTH; at++)
			CHECK_EQUAL(pair.peer.memory[at], 0);
	}
	CHECK(strcmp(dp_lane_carrier(pair.ours.lane), "local") == 0);
	CHECK(strcmp(dp_lane_carrier(pair.peer.lane), "local") == 0);
	CHECK_EQUAL(goes_direct(pair.ours.lane), direct);
	CHECK_EQUAL(goes_direct(pair.peer.lane), direct);
	pair_close(&pair);
}

static void reads_arrive_at_every_length(void)
{
	static const uint64_t LENGTHS[] = { 1, 4097, 131073, 1 << 20, LENGTH };
	struct pair pair = open_pair(DP_ACCESS_REMOTE_READ);
	const struct dp_remote from = end_as_remote(&pair.peer);

	for (uint64_t i = 0; i < LENGTH; i++)
		pair.peer.memory[i] = (uint8_t)(i * 7 + i / 255);
	for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
		memset(pair.ours.memory, 0, LENGTH);
		CHECK_EQUAL(dp_lane_read(pair.ours.lane, LENGTHS[i], &from), 0);
		CHECK_EQUAL(next_event(&pair.ours).bytes, LENGTHS[i]);
		CHECK_EQUAL(memcmp(pair.ours.memory, pair.peer.memory, LENGTHS[i]), 0);
	}
	pair_close(&pair);
}

static void a_file_arrives(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);
	const struct dp_remote to = end_as_remote(&pair.peer);
	struct dp_extent extent = { .fd = memfd_create("object", 0), .length_bytes = 3000001 };
	uint8_t *object = malloc(extent.length_bytes);

	for (uint64_t i = 0; i < extent.length_bytes; i++)
		object[i] = (uint8_t)(i * 13 + i / 999);
	CHECK_EQUAL(write(extent.fd, object, extent.length_bytes), extent.length_bytes);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_send(pair.ours.lane, &extent, 1, &to, DP_IMM_PRESENT, PAIR_COOKIE), 0);
	CHECK_EQUAL(next_event(&pair.ours).status, 0);
	CHECK_EQUAL(next_event(&pair.peer).imm, PAIR_COOKIE);
	CHECK_EQUAL(memcmp(object, pair.peer.memory, extent.length_bytes), 0);
	free(object);
	close(extent.fd);
	pair_close(&pair);
}

static void a_wrong_rkey_is_refused_and_nothing_written(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);
	struct dp_remote to = end_as_remote(&pair.peer);

	to.rkey ^= 1;
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, 100, &to, PAIR_COOKIE), 0);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_REM_ACCESS_ERR);
	check_failed(&pair.peer, DP_EVENT_RECEIVED, IBV_WC_WR_FLUSH_ERR);
	check_untouched(&pair.peer, 0);
	pair_close(&pair);
}

/* Begins @offset from the peer's memory, @length long: REM_ACCESS_ERR. */
static void check_outside(int64_t offset, uint64_t length)
{
	struct pair pair = open_pair(ALL_ACCESS);
	struct dp_remote to = end_as_remote(&pair.peer);

	to.addr += (uint64_t)offset;
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, length, &to, PAIR_COOKIE), 0);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_REM_ACCESS_ERR);
	check_untouched(&pair.peer, 0);
	pair_close(&pair);
}

static void a_length_past_the_region_is_refused(void)
{
	check_outside(1, LENGTH);
	check_outside(LENGTH, 1);
	check_outside(-1, 2);
	check_outside(INT64_MAX, 4096);
}

static void access_that_was_not_granted_is_refused(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_READ);
	struct dp_remote remote = end_as_remote(&pair.peer);

	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	write_to_peer(&pair, 100);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_REM_INV_REQ_ERR);
	check_untouched(&pair.peer, 0);
	pair_close(&pair);
	pair = open_pair(DP_ACCESS_REMOTE_WRITE);
	remote = end_as_remote(&pair.peer);
	CHECK_EQUAL(dp_lane_read(pair.ours.lane, 100, &remote), 0);
	check_failed(&pair.ours, DP_EVENT_READ, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
}

static void an_immediate_waits_for_its_receive(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);
	struct dp_event event;

	write_to_peer(&pair, 10000);
	CHECK(!event_within(pair.ours.fabric, QUIET_MS, &event));
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	check_written(&pair, 10000);
	pair_close(&pair);
}

static void abort_end(struct end *end)
{
	struct dp_event event;

	CHECK_EQUAL(dp_lane_abort(end->lane), 0);
	do
		event = next_event(end);
	while (event.kind != DP_EVENT_DRAINED);
}

static void a_region_that_was_revoked_is_out_of_reach(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);

	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	write_to_peer(&pair, 100);
	check_written(&pair, 100);
	abort_end(&pair.peer);
	CHECK_EQUAL(dp_lane_replace(pair.peer.lane), 0);
	memset(pair.peer.memory, 0x55, LENGTH);
	write_to_peer(&pair, LENGTH);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_RETRY_EXC_ERR);
	check_untouched(&pair.peer, 0x55);
	pair_close(&pair);
}

/* The peer ends at once, however far the copy is: afterwards its memory stays as it is. */
static void an_abort_in_the_middle_ends_the_copy(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);

	for (int use = 0; use < 20; use++) {
		struct dp_event event;

		write_to_peer(&pair, LENGTH);
		usleep((useconds_t)use * 50);
		CHECK_EQUAL(dp_lane_abort(pair.peer.lane), 0);
		memset(pair.peer.memory, 0x77, LENGTH);
		event = next_event(&pair.ours);
		CHECK_EQUAL(event.wc_status, IBV_WC_RETRY_EXC_ERR);
		CHECK_EQUAL(next_event(&pair.peer).kind, DP_EVENT_DRAINED);
		check_untouched(&pair.peer, 0x77);
		abort_end(&pair.ours);
		CHECK_EQUAL(dp_lane_recycle(pair.ours.lane), 0);
		CHECK_EQUAL(dp_lane_recycle(pair.peer.lane), 0);
		pair_connect(&pair, DP_ACCESS_REMOTE_WRITE);
	}
	pair_close(&pair);
}

/* What its owner takes back is no message: the receive stays, whatever has been copied. */
static void a_write_that_is_aborted_consumes_no_receive(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);
	struct dp_event event;

	write_to_peer(&pair, LENGTH);
	CHECK_EQUAL(dp_lane_abort(pair.ours.lane), 0);
	memset(pair.ours.memory, 0x11, LENGTH);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK(!event_within(pair.peer.fabric, QUIET_MS, &event));
	event = next_event(&pair.ours);
	CHECK_EQUAL(event.kind, DP_EVENT_WRITTEN);
	CHECK_EQUAL(event.status, -ECANCELED);
	CHECK_EQUAL(next_event(&pair.ours).kind, DP_EVENT_DRAINED);
	pair_close(&pair);
}

static void a_recycled_lane_carries_again(void)
{
	struct pair pair = open_pair(DP_ACCESS_REMOTE_WRITE);

	for (int use = 0; use < 200; use++) {
		CHECK(dp_lane_receive(pair.peer.lane) >= 0);
		write_to_peer(&pair, 5000);
		check_written(&pair, 5000);
		abort_end(&pair.ours);
		abort_end(&pair.peer);
		CHECK_EQUAL(dp_lane_recycle(pair.ours.lane), 0);
		CHECK_EQUAL(dp_lane_replace(pair.peer.lane), 0);
		CHECK_EQUAL(dp_lane_recycle(pair.peer.lane), 0);
		pair_connect(&pair, DP_ACCESS_REMOTE_WRITE);
	}
	pair_close(&pair);
}

static void work_before_the_peer_connects_waits_for_it_and_nothing_spins(void)
{
	const struct dp_fabric_options options = local_options();
	struct pair pair;
	struct dp_peer ours, peer;
	struct dp_event event;
	clock_t used;

	open_end(&pair.ours, &options, 7);
	open_end(&pair.peer, &options, 8);
	CHECK_EQUAL(dp_lane_prepare(pair.ours.lane, 7, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_prepare(pair.peer.lane, 8, DP_ACCESS_REMOTE_WRITE), 0);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	ours = end_as_peer(&pair.ours);
	peer = end_as_peer(&pair.peer);
	CHECK_EQUAL(dp_lane_connect(pair.ours.lane, &peer), 0);
	write_to_peer(&pair, 33);
	CHECK(!event_within(pair.ours.fabric, QUIET_MS, &event));
	CHECK_EQUAL(dp_lane_connect(pair.peer.lane, &ours), 0);
	check_written(&pair, 33);
	/* Until after the time that work waits for a peer. */
	used = clock();
	CHECK(!event_within(pair.ours.fabric, 600, &event));
	CHECK(clock() - used < CLOCKS_PER_SEC / 10);
	pair_close(&pair);
}

static void a_peer_that_never_connects_is_retry_exceeded(void)
{
	const struct dp_fabric_options options = local_options();
	struct pair pair;
	struct dp_peer peer;

	open_end(&pair.ours, &options, 7);
	open_end(&pair.peer, &options, 8);
	CHECK_EQUAL(dp_lane_prepare(pair.ours.lane, 7, DP_ACCESS_NONE), 0);
	peer = end_as_peer(&pair.peer);
	CHECK_EQUAL(dp_lane_connect(pair.ours.lane, &peer), 0);
	write_to_peer(&pair, 33);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_RETRY_EXC_ERR);
	pair_close(&pair);
}

/* Both lanes write and read at once, the receives posted late: nothing waits for the other. */
static void both_ways_at_once(void)
{
	struct pair pair = open_pair(ALL_ACCESS);
	struct dp_remote ours = end_as_remote(&pair.ours);
	struct dp_event event;

	abort_end(&pair.ours);
	abort_end(&pair.peer);
	CHECK_EQUAL(dp_lane_recycle(pair.ours.lane), 0);
	CHECK_EQUAL(dp_lane_recycle(pair.peer.lane), 0);
	CHECK_EQUAL(dp_lane_prepare(pair.ours.lane, pair.ours.psn, ALL_ACCESS), 0);
	CHECK_EQUAL(dp_lane_prepare(pair.peer.lane, pair.peer.psn, ALL_ACCESS), 0);
	{
		struct dp_peer a = end_as_peer(&pair.ours), b = end_as_peer(&pair.peer);

		CHECK_EQUAL(dp_lane_connect(pair.ours.lane, &b), 0);
		CHECK_EQUAL(dp_lane_connect(pair.peer.lane, &a), 0);
	}
	write_to_peer(&pair, LENGTH / 2); /* its immediate waits */
	CHECK_EQUAL(dp_lane_read(pair.peer.lane, LENGTH, &ours), 0);
	event = next_event(&pair.peer);
	CHECK_EQUAL(event.kind, DP_EVENT_READ);
	CHECK_EQUAL(event.status, 0);
	CHECK_EQUAL(memcmp(pair.ours.memory, pair.peer.memory, LENGTH), 0);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	check_written(&pair, LENGTH / 2);
	pair_close(&pair);
}

static void run_all(void)
{
	RUN(writes_arrive_at_every_length);
	RUN(reads_arrive_at_every_length);
	RUN(a_file_arrives);
	RUN(a_wrong_rkey_is_refused_and_nothing_written);
	RUN(a_length_past_the_region_is_refused);
	RUN(access_that_was_not_granted_is_refused);
	RUN(an_immediate_waits_for_its_receive);
	RUN(a_region_that_was_revoked_is_out_of_reach);
	RUN(an_abort_in_the_middle_ends_the_copy);
	RUN(a_write_that_is_aborted_consumes_no_receive);
	RUN(a_recycled_lane_carries_again);
	RUN(work_before_the_peer_connects_waits_for_it_and_nothing_spins);
	RUN(a_peer_that_never_connects_is_retry_exceeded);
	RUN(both_ways_at_once);
}

int main(void)
{
	direct = true;
	run_all();
	direct = false;
	run_all();
	return 0;
}
