/* The soft fabric over real sockets: what arrives, and the status where it can't. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "soft_pair.h"

#define LENGTH (1u << 20)
#define QUIET_MS 30

static struct pair open_plain(void)
{
	const struct dp_fabric_options options = pair_options(4096);

	return pair_open(&options, LENGTH, DP_ACCESS_REMOTE_WRITE);
}

static void write_to_peer(struct pair *pair, uint64_t length)
{
	const struct dp_remote to = end_as_remote(&pair->peer);

	CHECK_EQUAL(dp_lane_write(pair->ours.lane, length, &to, PAIR_COOKIE), 0);
}

/* The transfer and the peer's receive both end well, and the bytes are the same. */
static void check_written(struct pair *pair, uint64_t length)
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

static void check_failed(const struct end *end, uint32_t kind, uint32_t wc_status)
{
	struct dp_event event = next_event(end);

	CHECK_EQUAL(event.kind, kind);
	CHECK_EQUAL(event.status, -EREMOTEIO);
	CHECK_EQUAL(event.wc_status, wc_status);
	CHECK_EQUAL(event.qp_state, IBV_QPS_ERR);
}

static void writes_arrive_at_every_length_and_mtu(void)
{
	static const uint32_t MTUS[] = { 256, 1024, 4096 };
	static const uint64_t LENGTHS[] = { 1,   2,    3,    4,    5,     255,   256,
					    257, 4095, 4096, 4097, 70001, LENGTH };

	for (size_t m = 0; m < 3; m++) {
		const struct dp_fabric_options options = pair_options(MTUS[m]);
		struct pair pair = pair_open(&options, LENGTH, DP_ACCESS_REMOTE_WRITE);

		for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
			memset(pair.peer.memory, 0, LENGTH);
			CHECK(dp_lane_receive(pair.peer.lane) >= 0);
			write_to_peer(&pair, LENGTHS[i]);
			check_written(&pair, LENGTHS[i]);
			for (uint64_t at = LENGTHS[i]; at < LENGTH; at++)
				CHECK_EQUAL(pair.peer.memory[at], 0);
		}
		pair_close(&pair);
	}
}

static void a_file_arrives(void)
{
	struct pair pair = open_plain();
	const struct dp_remote to = end_as_remote(&pair.peer);
	struct dp_extent extent = { .fd = memfd_create("object", 0), .length_bytes = 700001 };
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

static void reads_arrive_at_every_length_and_mtu(void)
{
	static const uint32_t MTUS[] = { 256, 4096 };
	static const uint64_t LENGTHS[] = { 1, 255, 256, 257, 4096, 70001, 3 * LENGTH };

	for (size_t m = 0; m < 2; m++) {
		struct dp_fabric_options options = pair_options(MTUS[m]);
		struct pair pair = pair_open(&options, 3 * LENGTH, DP_ACCESS_REMOTE_READ);
		const struct dp_remote from = end_as_remote(&pair.peer);

		for (uint64_t i = 0; i < 3 * LENGTH; i++)
			pair.peer.memory[i] = (uint8_t)(i * 7 + i / 255);
		for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
			memset(pair.ours.memory, 0, 3 * LENGTH);
			CHECK_EQUAL(dp_lane_read(pair.ours.lane, LENGTHS[i], &from), 0);
			CHECK_EQUAL(next_event(&pair.ours).bytes, LENGTHS[i]);
			CHECK_EQUAL(memcmp(pair.ours.memory, pair.peer.memory, LENGTHS[i]), 0);
		}
		pair_close(&pair);
	}
}

static void a_wrong_rkey_is_refused_and_nothing_written(void)
{
	struct pair pair = open_plain();
	struct dp_remote to = end_as_remote(&pair.peer);

	to.rkey ^= 1;
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, 100, &to, PAIR_COOKIE), 0);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_REM_ACCESS_ERR);
	check_failed(&pair.peer, DP_EVENT_RECEIVED, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(pair.peer.memory[0], 0);
	pair_close(&pair);
}

/* Begins @offset from the peer's memory, @length long: REM_ACCESS_ERR. */
static void check_outside(int64_t offset, uint64_t length)
{
	struct pair pair = open_plain();
	struct dp_remote to = end_as_remote(&pair.peer);

	to.addr += (uint64_t)offset;
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, length, &to, PAIR_COOKIE), 0);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 0; i < LENGTH; i++)
		CHECK_EQUAL(pair.peer.memory[i], 0);
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
	const struct dp_fabric_options options = pair_options(4096);
	struct pair pair = pair_open(&options, LENGTH, DP_ACCESS_REMOTE_READ);
	const struct dp_remote to = end_as_remote(&pair.peer);

	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	write_to_peer(&pair, 100);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
	pair = open_plain();
	CHECK_EQUAL(dp_lane_read(pair.ours.lane, 100, &to), 0);
	check_failed(&pair.ours, DP_EVENT_READ, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
}

static void an_immediate_waits_for_its_receive(void)
{
	struct pair pair = open_plain();
	struct dp_event event;

	write_to_peer(&pair, 10000);
	CHECK(!event_within(pair.ours.fabric, QUIET_MS, &event));
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	check_written(&pair, 10000);
	pair_close(&pair);
}

static void a_dead_peer_ends_in_retry_exceeded(void)
{
	struct pair pair = open_plain();
	struct dp_event drained;

	CHECK_EQUAL(dp_lane_abort(pair.peer.lane), 0);
	drained = next_event(&pair.peer);
	CHECK_EQUAL(drained.kind, DP_EVENT_DRAINED);
	write_to_peer(&pair, 100000);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQUAL(pair.peer.memory[0], 0);
	pair_close(&pair);
}

static void an_abort_ends_everything_once(void)
{
	struct pair pair = open_plain();
	struct dp_event event;

	write_to_peer(&pair, LENGTH); /* the immediate has no receive, so it can't complete */
	CHECK_EQUAL(dp_lane_abort(pair.ours.lane), 0);
	event = next_event(&pair.ours);
	CHECK_EQUAL(event.kind, DP_EVENT_WRITTEN);
	CHECK_EQUAL(event.status, -ECANCELED);
	CHECK_EQUAL(next_event(&pair.ours).kind, DP_EVENT_DRAINED);
	CHECK(!event_within(pair.ours.fabric, QUIET_MS, &event));
	pair_close(&pair);
}

static void an_aborted_lane_is_written_to_no_more(void)
{
	struct pair pair = open_plain();

	write_to_peer(&pair, LENGTH);
	CHECK_EQUAL(dp_lane_abort(pair.peer.lane), 0);
	memset(pair.peer.memory, 0x77, LENGTH);
	check_failed(&pair.ours, DP_EVENT_WRITTEN, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t i = 0; i < LENGTH; i++)
		CHECK_EQUAL(pair.peer.memory[i], 0x77);
	pair_close(&pair);
}

static void abort_end(struct end *end)
{
	CHECK_EQUAL(dp_lane_abort(end->lane), 0);
	CHECK_EQUAL(next_event(end).kind, DP_EVENT_DRAINED);
}

static void a_recycled_lane_carries_again(void)
{
	struct pair pair = open_plain();

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

static void a_receive_may_be_posted_before_the_peer_is_known(void)
{
	const struct dp_fabric_options options = pair_options(4096);
	struct pair pair;
	struct dp_peer ours, peer;

	end_open(&pair.ours, &options, LENGTH, 7);
	end_open(&pair.peer, &options, LENGTH, 8);
	CHECK_EQUAL(dp_lane_prepare(pair.ours.lane, 7, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_prepare(pair.peer.lane, 8, DP_ACCESS_REMOTE_WRITE), 0);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	ours = end_as_peer(&pair.ours);
	peer = end_as_peer(&pair.peer);
	CHECK_EQUAL(dp_lane_connect(pair.ours.lane, &peer), 0);
	CHECK_EQUAL(dp_lane_connect(pair.peer.lane, &ours), 0);
	write_to_peer(&pair, 33);
	check_written(&pair, 33);
	pair_close(&pair);
}

static void a_peer_that_may_not_or_cannot_be_reached_is_refused(void)
{
	struct dp_peer peer = { .qpn = 5, .psn = 6, .gid = { [10] = 0xff, 0xff, 127, 1, 0, 1 } };
	struct dp_fabric_options options = pair_options(4096);
	struct end end;

	options.networks[0].address[13] = 1; /* 127.1.2.0/23 */
	options.networks[0].address[14] = 2;
	options.networks[0].prefix_bits = 119;
	end_open(&end, &options, LENGTH, 1);
	CHECK_EQUAL(dp_lane_prepare(end.lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(end.lane, &peer), -EACCES);
	peer.gid[14] = 4;
	CHECK_EQUAL(dp_lane_connect(end.lane, &peer), -EACCES);
	peer.gid[12] = 10;
	CHECK_EQUAL(dp_lane_connect(end.lane, &peer), -ENETUNREACH);
	memset(peer.gid, 0, sizeof(peer.gid));
	CHECK_EQUAL(dp_lane_connect(end.lane, &peer), -EAFNOSUPPORT);
	peer = (struct dp_peer){ .qpn = 5, .psn = 6, .gid = { [10] = 0xff, 0xff, 127, 1, 3, 9 } };
	CHECK_EQUAL(dp_lane_connect(end.lane, &peer), 0);
	dp_fabric_close(&end.fabric);
	free(end.memory);
}

static void an_address_that_is_taken_or_not_ours_is_said_so(void)
{
	struct pair pair = open_plain();
	struct dp_fabric_options options = pair_options(4096);
	struct dp_fabric_info info;
	struct dp_fabric *other = NULL;

	dp_fabric_query(pair.ours.fabric, &info);
	memcpy(options.address, info.gid, sizeof(info.gid));
	CHECK_EQUAL(dp_fabric_open(&options, &other), -EADDRINUSE);
	memcpy(options.address, (uint8_t[16]){ [10] = 0xff, 0xff, 192, 0, 2, 1 }, 16);
	CHECK_EQUAL(dp_fabric_open(&options, &other), -EADDRNOTAVAIL);
	CHECK(!other);
	pair_close(&pair);
}

int main(void)
{
	RUN(writes_arrive_at_every_length_and_mtu);
	RUN(a_file_arrives);
	RUN(reads_arrive_at_every_length_and_mtu);
	RUN(a_wrong_rkey_is_refused_and_nothing_written);
	RUN(a_length_past_the_region_is_refused);
	RUN(access_that_was_not_granted_is_refused);
	RUN(an_immediate_waits_for_its_receive);
	RUN(a_dead_peer_ends_in_retry_exceeded);
	RUN(an_abort_ends_everything_once);
	RUN(an_aborted_lane_is_written_to_no_more);
	RUN(a_recycled_lane_carries_again);
	RUN(a_receive_may_be_posted_before_the_peer_is_known);
	RUN(a_peer_that_may_not_or_cannot_be_reached_is_refused);
	RUN(an_address_that_is_taken_or_not_ours_is_said_so);
	return 0;
}
