/* The pipeline: pieces, order, completions in any order, and a failure at every position. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "fake_verbs.h"

#define SLOT (1u << 16) /* fake_options() */
#define LANE (8u * SLOT)
#define COOKIE 0x00c0ffeeu

static const struct dp_peer PEER = { .qpn = 5, .psn = 6 };
static uint8_t source[20 * SLOT], memory[LANE], target[20 * SLOT];

struct rig {
	struct dp_fabric *fabric;
	struct dp_lane *lane;
	int fd;
};

static struct rig setup(void)
{
	struct rig rig;

	fake_reset();
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 31 + i / 251);
	memset(target, 0, sizeof(target));
	rig.fabric = fake_open();
	CHECK_EQUAL(dp_lane_open(rig.fabric, memory, LANE, DP_ACCESS_LOCAL_WRITE, 42, &rig.lane),
		    0);
	CHECK_EQUAL(dp_lane_prepare(rig.lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(rig.lane, &PEER), 0);
	rig.fd = memfd_create("object", 0);
	CHECK_EQUAL(write(rig.fd, source, sizeof(source)), sizeof(source));
	return rig;
}

static void teardown(struct rig *rig)
{
	dp_fabric_close(&rig->fabric);
	CHECK_EQUAL(fake.live, 0);
	close(rig->fd);
}

static struct dp_remote room(uint64_t length)
{
	return (struct dp_remote){ .addr = (uintptr_t)target, .length_bytes = length, .rkey = 7 };
}

/* Begin to send the first @length bytes; @extent lives as long as the caller's. */
static void send(struct rig *rig, struct dp_extent *extent, uint64_t length)
{
	const struct dp_remote to = room(length);

	*extent = (struct dp_extent){ .fd = rig->fd, .length_bytes = length };
	CHECK_EQUAL(dp_lane_send(rig->lane, extent, 1, &to, DP_IMM_PRESENT, COOKIE), 0);
}

static void splits_and_marks_the_last(void)
{
	static const uint64_t LENGTHS[] = { 1, SLOT - 1, SLOT, SLOT + 1, 7 * SLOT, 19 * SLOT + 5 };

	for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
		struct rig rig = setup();
		int pieces = (int)((LENGTHS[i] + SLOT - 1) / SLOT);
		struct dp_extent extent;
		struct dp_event event;

		send(&rig, &extent, LENGTHS[i]);
		event = fake_event(rig.fabric);
		CHECK_EQUAL(event.kind, DP_EVENT_SENT);
		CHECK_EQUAL(event.tag, 42);
		CHECK_EQUAL(event.status, 0);
		CHECK_EQUAL(event.bytes, LENGTHS[i]);
		CHECK_EQUAL(memcmp(target, source, LENGTHS[i]), 0);
		CHECK_EQUAL(fake.send_count, pieces);
		for (int n = 0; n < pieces; n++) {
			const struct fake_send *sent = &fake.sends[n];

			CHECK_EQUAL(sent->wr.wr.rdma.remote_addr,
				    (uintptr_t)target + (uint64_t)n * SLOT);
			CHECK_EQUAL(sent->wr.wr.rdma.rkey, 7);
			CHECK_EQUAL(sent->wr.opcode, n == pieces - 1 ? IBV_WR_RDMA_WRITE_WITH_IMM
								     : IBV_WR_RDMA_WRITE);
		}
		CHECK(fake_quiet(rig.fabric));
		teardown(&rig);
	}
}

static void sends_no_immediate_where_there_is_none(void)
{
	struct rig rig = setup();
	const struct dp_extent extents[] = {
		{ .fd = rig.fd, .offset_bytes = 10, .length_bytes = 5 },
		{ .fd = rig.fd, .offset_bytes = 3, .length_bytes = SLOT },
	};
	const struct dp_remote to = room(sizeof(target));

	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 2, &to, DP_IMM_ABSENT, 0), 0);
	CHECK_EQUAL(fake_event(rig.fabric).bytes, SLOT + 5);
	CHECK_EQUAL(fake.sends[1].wr.opcode, IBV_WR_RDMA_WRITE);
	CHECK_EQUAL(memcmp(target, source + 10, 5), 0);
	CHECK_EQUAL(memcmp(target + 5, source + 3, SLOT), 0);
	teardown(&rig);
}

static void never_has_more_in_flight_than_the_ring_holds(void)
{
	struct rig rig = setup();
	struct dp_extent extent;

	fake.manual = true;
	send(&rig, &extent, 12 * SLOT);
	fake_wait_sends(8);
	CHECK(fake_quiet(rig.fabric));
	fake_lock();
	CHECK_EQUAL(fake.send_count, 8);
	fake_unlock();
	fake_complete(0, IBV_WC_SUCCESS); /* frees one slot, which is filled again */
	fake_wait_sends(9);
	CHECK_EQUAL(fake.sends[8].sge.addr, fake.sends[0].sge.addr);
	for (int i = 1; i < 12; i++) {
		fake_wait_sends(i + 1);
		fake_complete(i, IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(fake_event(rig.fabric).bytes, 12 * SLOT);
	CHECK_EQUAL(memcmp(target, source, 12 * SLOT), 0);
	teardown(&rig);
}

static void counts_completions_out_of_order(void)
{
	static const int ORDER[] = { 3, 0, 2, 1 };
	struct rig rig = setup();
	struct dp_extent extent;

	fake.manual = true;
	send(&rig, &extent, 4 * SLOT);
	fake_wait_sends(4);
	for (int i = 0; i < 4; i++) {
		CHECK(fake_quiet(rig.fabric));
		fake_complete(ORDER[i], IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(fake_event(rig.fabric).bytes, 4 * SLOT);
	teardown(&rig);
}

/* The first failure names the reason; the flushes behind it are only counted. */
static void fails_at_each_position(void)
{
	for (int bad = 0; bad < 5; bad++) {
		struct rig rig = setup();
		struct dp_extent extent;
		struct dp_event event;

		fake.manual = true;
		send(&rig, &extent, 5 * SLOT);
		fake_wait_sends(5);
		for (int i = 0; i < 5; i++)
			fake_complete(i, i < bad    ? IBV_WC_SUCCESS
					 : i == bad ? IBV_WC_REM_ACCESS_ERR
						    : IBV_WC_WR_FLUSH_ERR);
		event = fake_event(rig.fabric);
		CHECK_EQUAL(event.kind, DP_EVENT_SENT);
		CHECK_EQUAL(event.status, -EREMOTEIO);
		CHECK_EQUAL(event.wc_status, IBV_WC_REM_ACCESS_ERR);
		CHECK_EQUAL(event.qp_state, IBV_QPS_ERR);
		CHECK_EQUAL(event.bytes, (uint64_t)bad * SLOT);
		CHECK(fake_quiet(rig.fabric));
		teardown(&rig);
	}
}

static void ends_when_a_post_is_refused(void)
{
	for (int at = 1; at <= 3; at++) {
		struct rig rig = setup();
		struct dp_extent extent;
		struct dp_event event;

		fake.post_errno_at = at;
		send(&rig, &extent, 3 * SLOT);
		event = fake_event(rig.fabric);
		CHECK_EQUAL(event.status, -ENOMEM);
		CHECK_EQUAL(event.bytes, (uint64_t)(at - 1) * SLOT);
		CHECK_EQUAL(fake.send_count, at - 1);
		teardown(&rig);
	}
}

static void tells_a_short_file_and_a_broken_disk(void)
{
	struct rig rig = setup();
	int broken = open("/proc/self/mem", O_RDONLY);
	const struct dp_remote to = room(sizeof(target));
	struct dp_extent extents[] = {
		{ .fd = rig.fd,
		  .offset_bytes = sizeof(source) - 2 * SLOT,
		  .length_bytes = 3 * SLOT },
		{ .fd = broken, .length_bytes = SLOT },
	};
	struct dp_event event;

	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 1, &to, DP_IMM_PRESENT, COOKIE), 0);
	event = fake_event(rig.fabric);
	CHECK_EQUAL(event.status, -ENODATA);
	CHECK_EQUAL(event.qp_state, IBV_QPS_RTS);
	CHECK_EQUAL(fake.send_count, 2); /* without the immediate: the peer sees no success */
	CHECK_EQUAL(dp_lane_send(rig.lane, extents + 1, 1, &to, DP_IMM_PRESENT, COOKIE), 0);
	CHECK_EQUAL(fake_event(rig.fabric).status, -EIO);
	teardown(&rig);
	close(broken);
}

static void refuses_what_cannot_begin(void)
{
	struct rig rig = setup();
	const struct dp_remote small = room(SLOT - 1), large = room(sizeof(target)),
			       huge = room(UINT64_MAX);
	struct dp_extent extents[] = { { .fd = rig.fd, .length_bytes = SLOT },
				       { .fd = rig.fd, .length_bytes = 0 },
				       { .fd = rig.fd, .length_bytes = UINT64_MAX } };

	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 0, &large, 0, 0), -EINVAL);
	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 2, &large, 0, 0), -EINVAL);
	extents[1] = extents[0];
	extents[1].summed_bytes = SLOT - 1; /* fewer than it is to send */
	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 2, &large, 0, 0), -EINVAL);
	extents[1] = extents[0];
	extents[1].offset_bytes = UINT64_MAX;
	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 2, &large, 0, 0), -EINVAL);
	extents[1] = extents[0];
	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 3, &huge, 0, 0), -EINVAL); /* overflows */
	CHECK_EQUAL(dp_lane_send(rig.lane, extents, 1, &small, 0, 0), -EMSGSIZE);
	CHECK_EQUAL(dp_lane_write(rig.lane, LANE + 1, &large, COOKIE), -EMSGSIZE);
	CHECK_EQUAL(dp_lane_write(rig.lane, UINT64_C(1) << 31, &huge, COOKIE), -EMSGSIZE);
	CHECK_EQUAL(dp_lane_write(rig.lane, 0, &large, COOKIE), -EINVAL);
	CHECK_EQUAL(dp_lane_read(rig.lane, SLOT, &small), -EMSGSIZE);
	fake.manual = true;
	CHECK_EQUAL(dp_lane_write(rig.lane, 1, &large, COOKIE), 0);
	CHECK_EQUAL(dp_lane_write(rig.lane, 1, &large, COOKIE), -EBUSY);
	CHECK_EQUAL(fake.send_count, 1);
	teardown(&rig);
}

static void writes_one_message_whatever_max_msg_sz_says(void)
{
	struct rig rig = setup();
	const struct dp_remote to = room(LANE);

	memcpy(memory, source, LANE);
	CHECK_EQUAL(dp_lane_write(rig.lane, LANE, &to, COOKIE), 0);
	CHECK_EQUAL(fake_event(rig.fabric).kind, DP_EVENT_WRITTEN);
	CHECK_EQUAL(fake.send_count, 1);
	CHECK_EQUAL(fake.sends[0].sge.length, LANE);
	CHECK_EQUAL(memcmp(target, source, LANE), 0);
	teardown(&rig);
}

/* A lane that reads 1000 bytes at a time: the port's limit wins over the option's. */
static struct dp_fabric *open_segmented(struct dp_lane **lane)
{
	struct dp_fabric_options options = fake_options();
	struct dp_fabric *fabric;

	fake_reset();
	fake.port.max_msg_sz = 1000;
	CHECK_EQUAL(dp_verbs_fabric_open(fake_verbs(), &options, &fabric), 0);
	CHECK_EQUAL(dp_lane_open(fabric, memory, LANE, DP_ACCESS_LOCAL_WRITE, 1, lane), 0);
	CHECK_EQUAL(dp_lane_prepare(*lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(*lane, &PEER), 0);
	memset(memory, 0, LANE);
	return fabric;
}

static void reads_in_segments(void)
{
	const struct dp_remote from = { .addr = (uintptr_t)source, .length_bytes = LANE };
	struct dp_lane *lane;
	struct dp_fabric *fabric = open_segmented(&lane);

	CHECK_EQUAL(dp_lane_read(lane, 99999, &from), 0);
	CHECK_EQUAL(fake_event(fabric).bytes, 99999);
	CHECK_EQUAL(fake.send_count, 100);
	CHECK_EQUAL(fake.sends[99].wr.opcode, IBV_WR_RDMA_READ);
	CHECK_EQUAL(fake.sends[99].sge.length, 999);
	CHECK_EQUAL(memcmp(memory, source, 99999), 0);
	CHECK_EQUAL(memory[99999], 0);
	dp_fabric_close(&fabric);
}

static void a_segment_done_without_its_data_fails_the_read(void)
{
	const struct dp_remote from = { .addr = (uintptr_t)source, .length_bytes = LANE };
	struct dp_lane *lane;
	struct dp_fabric *fabric = open_segmented(&lane);
	struct dp_event event;

	fake.manual = true;
	CHECK_EQUAL(dp_lane_read(lane, 3000, &from), 0);
	fake_wait_sends(3);
	fake_complete(0, IBV_WC_SUCCESS);
	fake_lock();
	fake.unplaced = 8;
	fake_unlock();
	fake_complete(1, IBV_WC_SUCCESS);
	fake_complete(2, IBV_WC_WR_FLUSH_ERR);
	event = fake_event(fabric);
	CHECK_EQUAL(event.kind, DP_EVENT_READ);
	CHECK_EQUAL(event.status, -EPROTO);
	CHECK_EQUAL(event.wc_status, 0);
	CHECK_EQUAL(event.bytes, 1000);
	dp_fabric_close(&fabric);
}

int main(void)
{
	RUN(splits_and_marks_the_last);
	RUN(sends_no_immediate_where_there_is_none);
	RUN(never_has_more_in_flight_than_the_ring_holds);
	RUN(counts_completions_out_of_order);
	RUN(fails_at_each_position);
	RUN(ends_when_a_post_is_refused);
	RUN(tells_a_short_file_and_a_broken_disk);
	RUN(refuses_what_cannot_begin);
	RUN(writes_one_message_whatever_max_msg_sz_says);
	RUN(reads_in_segments);
	RUN(a_segment_done_without_its_data_fails_the_read);
	return 0;
}
