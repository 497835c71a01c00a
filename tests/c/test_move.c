/* Moves of a joined lane: whose slots they use, files at either end, several at once, and failure. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "fake_libc.h"
#include "fake_verbs.h"

#define SLOT (1u << 16)
#define SLOTS 64u
#define LENGTH (10u * SLOT + 7)
#define COOKIE 0x00c0ffeeu
#define UNTOUCHED 0xa5

static const struct dp_peer PEER = { .qpn = 5, .psn = 6 };
static uint8_t staging[SLOTS * SLOT], source[LENGTH], target[LENGTH];

struct rig {
	struct dp_fabric *fabric;
	struct dp_domain *domain;
	struct dp_region *region;
	struct dp_lane *lane;
	int object; /* holds `source` */
	int empty;
};

static struct rig setup(void)
{
	struct rig rig;

	fake_reset();
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 31 + i / 251);
	memset(target, 0, sizeof(target));
	memset(staging, UNTOUCHED, sizeof(staging));
	rig.fabric = fake_open();
	CHECK_EQUAL(dp_domain_open(rig.fabric, &rig.domain), 0);
	CHECK_EQUAL(dp_region_open(rig.domain, staging, sizeof(staging), DP_ACCESS_LOCAL_WRITE,
				   &rig.region),
		    0);
	CHECK_EQUAL(dp_lane_join(rig.domain, rig.region, 42, &rig.lane), 0);
	CHECK_EQUAL(dp_lane_prepare(rig.lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(rig.lane, &PEER), 0);
	rig.object = memfd_create("object", 0);
	CHECK_EQUAL(write(rig.object, source, sizeof(source)), sizeof(source));
	rig.empty = memfd_create("empty", 0);
	return rig;
}

static void teardown(struct rig *rig)
{
	dp_fabric_close(&rig->fabric);
	CHECK_EQUAL(fake.live, 0);
	close(rig->object);
	close(rig->empty);
}

/* A move of the whole object through slots @first and @first + 2. */
static struct dp_move move_of(uint32_t direction, const struct dp_extent *extent, uint64_t tag,
			      uint64_t first)
{
	const uint8_t *remote = direction == DP_MOVE_SEND ? target : source;

	return (struct dp_move){
		.tag = tag,
		.direction = direction,
		.extent_count = 1,
		.extents = extent,
		.remote = { .addr = (uintptr_t)remote, .length_bytes = LENGTH, .rkey = 7 },
		.slot_bytes = SLOT,
		.slot_count = 2,
		.slots = { first * SLOT, (first + 2) * SLOT },
	};
}

static void check_file(int fd)
{
	static uint8_t found[LENGTH];

	CHECK_EQUAL(pread(fd, found, sizeof(found), 0), LENGTH);
	CHECK_EQUAL(memcmp(found, source, LENGTH), 0);
}

static void check_moved(struct rig *rig, uint64_t tag)
{
	struct dp_event event = fake_event(rig->fabric);

	CHECK_EQUAL(event.kind, DP_EVENT_MOVED);
	CHECK_EQUAL(event.tag, tag);
	CHECK_EQUAL(event.status, 0);
	CHECK_EQUAL(event.bytes, LENGTH);
}

static void check_only_slots_touched(uint32_t a, uint32_t b)
{
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		if (slot == a || slot == b)
			continue;
		for (uint32_t i = 0; i < SLOT; i++)
			CHECK_EQUAL(staging[slot * SLOT + i], UNTOUCHED);
	}
}

static void sends_through_its_slots_only(void)
{
	struct rig rig = setup();
	const struct dp_extent extent = { .fd = rig.object, .length_bytes = LENGTH };
	struct dp_move move = move_of(DP_MOVE_SEND, &extent, 9, 3);

	move.immediate = DP_IMM_PRESENT;
	move.imm = COOKIE;
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	check_moved(&rig, 9);
	CHECK_EQUAL(memcmp(target, source, LENGTH), 0);
	CHECK_EQUAL(fake.send_count, 11);
	CHECK_EQUAL(fake.sends[9].wr.opcode, IBV_WR_RDMA_WRITE);
	CHECK_EQUAL(fake.sends[10].wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	check_only_slots_touched(3, 5);
	CHECK(fake_quiet(rig.fabric));
	teardown(&rig);
}

static void fetches_into_a_file_at_its_offset(void)
{
	struct rig rig = setup();
	const struct dp_extent extent = { .fd = rig.empty,
					  .offset_bytes = 1000,
					  .length_bytes = LENGTH };
	const struct dp_move move = move_of(DP_MOVE_FETCH, &extent, 9, 3);
	static uint8_t found[LENGTH];

	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	check_moved(&rig, 9);
	CHECK_EQUAL(pread(rig.empty, found, LENGTH, 1000), LENGTH);
	CHECK_EQUAL(memcmp(found, source, LENGTH), 0);
	CHECK_EQUAL(lseek(rig.empty, 0, SEEK_END), 1000 + LENGTH);
	for (int i = 0; i < fake.send_count; i++)
		CHECK_EQUAL(fake.sends[i].wr.opcode, IBV_WR_RDMA_READ);
	check_only_slots_touched(3, 5);
	teardown(&rig);
}

/* A move of @length bytes of memory through slot 3. */
static struct dp_move move_without_files(uint32_t direction, uint64_t length)
{
	struct dp_move move = move_of(direction, NULL, 9, 3);

	move.extent_count = 0;
	move.slot_count = 1;
	move.remote.length_bytes = length;
	return move;
}

static void bytes_in_a_slot_need_no_file(void)
{
	struct rig rig = setup();
	struct dp_move move = move_without_files(DP_MOVE_SEND, SLOT);
	struct dp_event event;

	memcpy(staging + 3 * SLOT, source, SLOT);
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	CHECK_EQUAL(fake_event(rig.fabric).bytes, SLOT);
	CHECK_EQUAL(memcmp(target, source, SLOT), 0);
	CHECK_EQUAL(fake.sends[0].wr.opcode, IBV_WR_RDMA_WRITE);
	memset(staging, UNTOUCHED, sizeof(staging));
	move = move_without_files(DP_MOVE_FETCH, SLOT - 1);
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	event = fake_event(rig.fabric);
	CHECK_EQUAL(event.kind, DP_EVENT_MOVED);
	CHECK_EQUAL(event.status, 0);
	CHECK_EQUAL(event.bytes, SLOT - 1);
	CHECK_EQUAL(memcmp(staging + 3 * SLOT, source, SLOT - 1), 0);
	check_only_slots_touched(3, 3);
	CHECK(fake_quiet(rig.fabric));
	move.remote.length_bytes = SLOT + 1;
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), -EINVAL);
	move.remote.length_bytes = 0;
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), -EINVAL);
	teardown(&rig);
}

static void asks_for_no_more_than_its_slots_hold(void)
{
	struct rig rig = setup();
	const struct dp_extent extent = { .fd = rig.empty, .length_bytes = LENGTH };
	const struct dp_move move = move_of(DP_MOVE_FETCH, &extent, 9, 3);

	fake.manual = true;
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	fake_wait_sends(2);
	CHECK(fake_quiet(rig.fabric));
	fake_lock();
	CHECK_EQUAL(fake.send_count, 2);
	fake_unlock();
	for (int i = 1; i >= 0; i--) /* the second before the first */
		fake_complete(i, IBV_WC_SUCCESS);
	for (int i = 2; i < 11; i++) {
		fake_wait_sends(i + 1);
		fake_complete(i, IBV_WC_SUCCESS);
	}
	check_moved(&rig, 9);
	check_file(rig.empty);
	teardown(&rig);
}

static void runs_as_many_at_once_as_it_may(void)
{
	struct rig rig = setup();
	const struct dp_extent from = { .fd = rig.object, .length_bytes = LENGTH };
	const struct dp_extent to = { .fd = rig.empty, .length_bytes = LENGTH };
	uint64_t seen = 0;

	fake.manual = true;
	for (uint64_t i = 0; i <= DP_MOVES_MAX; i++) {
		struct dp_move move = move_of(i % 2 ? DP_MOVE_FETCH : DP_MOVE_SEND,
					      i % 2 ? &to : &from, i, 4 * i);

		CHECK_EQUAL(dp_lane_move(rig.lane, &move), i < DP_MOVES_MAX ? 0 : -EBUSY);
	}
	for (int i = 0; i < 11 * DP_MOVES_MAX; i++) {
		fake_wait_sends(i + 1);
		fake_complete(i, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < DP_MOVES_MAX; i++) {
		struct dp_event event = fake_event(rig.fabric);

		CHECK_EQUAL(event.kind, DP_EVENT_MOVED);
		CHECK_EQUAL(event.status, 0);
		seen |= UINT64_C(1) << event.tag;
	}
	CHECK_EQUAL(seen, (1 << DP_MOVES_MAX) - 1);
	CHECK_EQUAL(memcmp(target, source, LENGTH), 0);
	check_file(rig.empty);
	teardown(&rig);
}

static void a_failed_completion_names_its_move(void)
{
	struct rig rig = setup();
	const struct dp_extent to = { .fd = rig.empty, .length_bytes = LENGTH };
	const struct dp_move first = move_of(DP_MOVE_FETCH, &to, 1, 0);
	const struct dp_move second = move_of(DP_MOVE_FETCH, &to, 2, 4);
	struct dp_event event;

	fake.manual = true;
	CHECK_EQUAL(dp_lane_move(rig.lane, &first), 0);
	fake_wait_sends(2);
	CHECK_EQUAL(dp_lane_move(rig.lane, &second), 0);
	fake_wait_sends(4);
	fake_complete(0, IBV_WC_REM_ACCESS_ERR);
	for (int i = 1; i < 4; i++)
		fake_complete(i, IBV_WC_WR_FLUSH_ERR);
	event = fake_event(rig.fabric);
	CHECK_EQUAL(event.tag, 1);
	CHECK_EQUAL(event.wc_status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(event.status, -EREMOTEIO);
	event = fake_event(rig.fabric);
	CHECK_EQUAL(event.tag, 2);
	CHECK_EQUAL(event.wc_status, IBV_WC_WR_FLUSH_ERR);
	teardown(&rig);
}

static struct dp_event fetched(struct rig *rig, const struct dp_move *move)
{
	CHECK_EQUAL(dp_lane_move(rig->lane, move), 0);
	return fake_event(rig->fabric);
}

/* With as little missing as a mark is long, and with all of it. */
static void a_read_done_without_its_data_fails_the_move(void)
{
	static const uint32_t UNPLACED[] = { 8, 9, SLOT - 1, SLOT };

	for (size_t i = 0; i < sizeof(UNPLACED) / sizeof(UNPLACED[0]); i++) {
		struct rig rig = setup();
		const struct dp_extent to = { .fd = rig.empty, .length_bytes = SLOT };
		struct dp_move move = move_of(DP_MOVE_FETCH, &to, 9, 3);
		struct dp_event event;

		fake.unplaced = UNPLACED[i];
		event = fetched(&rig, &move);
		CHECK_EQUAL(event.kind, DP_EVENT_MOVED);
		CHECK_EQUAL(event.status, -EPROTO);
		CHECK_EQUAL(event.wc_status, 0);
		CHECK_EQUAL(event.bytes, 0);
		CHECK_EQUAL(lseek(rig.empty, 0, SEEK_END), 0);
		move = move_without_files(DP_MOVE_FETCH, SLOT);
		CHECK_EQUAL(fetched(&rig, &move).status, -EPROTO);
		fake.unplaced = 0; /* the slot's old mark is no one's any more */
		CHECK_EQUAL(fetched(&rig, &move).status, 0);
		CHECK_EQUAL(memcmp(staging + 3 * SLOT, source, SLOT), 0);
		teardown(&rig);
	}
}

static void a_read_that_cannot_be_marked_is_not_posted(void)
{
	struct rig rig = setup();
	const struct dp_move move = move_without_files(DP_MOVE_FETCH, SLOT);

	fake_no_random(true);
	CHECK_EQUAL(fetched(&rig, &move).status, -ENOSYS);
	fake_no_random(false);
	CHECK_EQUAL(fake.send_count, 0);
	CHECK_EQUAL(fetched(&rig, &move).status, 0);
	teardown(&rig);
}

static void one_read_of_many_fails_the_move(void)
{
	struct rig rig = setup();
	const struct dp_extent to = { .fd = rig.empty, .length_bytes = LENGTH };
	const struct dp_move move = move_of(DP_MOVE_FETCH, &to, 9, 3);
	struct dp_event event;

	fake.manual = true;
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	fake_wait_sends(2);
	fake_complete(0, IBV_WC_SUCCESS);
	fake_wait_sends(3);
	fake_lock();
	fake.unplaced = SLOT;
	fake_unlock();
	fake_complete(1, IBV_WC_SUCCESS);
	fake_complete(2, IBV_WC_WR_FLUSH_ERR); /* as Soft-RoCE flushes what is behind it */
	event = fake_event(rig.fabric);
	CHECK_EQUAL(event.status, -EPROTO);
	CHECK_EQUAL(event.wc_status, 0);
	CHECK_EQUAL(event.bytes, SLOT);
	CHECK_EQUAL(lseek(rig.empty, 0, SEEK_END), SLOT);
	teardown(&rig);
}

/* What is missing of such a piece is not noticed; what is there is no one else's. */
static void a_read_shorter_than_a_mark_leaves_zeros(void)
{
	static const uint8_t ZEROS[7];
	struct rig rig = setup();
	const struct dp_move move = move_without_files(DP_MOVE_FETCH, sizeof(ZEROS));

	fake.unplaced = sizeof(ZEROS);
	CHECK_EQUAL(fetched(&rig, &move).status, 0);
	CHECK_EQUAL(memcmp(staging + 3 * SLOT, ZEROS, sizeof(ZEROS)), 0);
	CHECK_EQUAL(staging[3 * SLOT + sizeof(ZEROS)], UNTOUCHED);
	fake.unplaced = 3;
	CHECK_EQUAL(fetched(&rig, &move).status, 0);
	CHECK_EQUAL(memcmp(staging + 3 * SLOT, source, 4), 0);
	CHECK_EQUAL(memcmp(staging + 3 * SLOT + 4, ZEROS, 3), 0);
	teardown(&rig);
}

static void less_than_a_mark_that_is_missing_is_noise(void)
{
	struct rig rig = setup();
	const struct dp_move move = move_without_files(DP_MOVE_FETCH, SLOT);
	static const uint8_t old[7] = { [0 ... 6] = UNTOUCHED };

	fake.unplaced = sizeof(old);
	CHECK_EQUAL(fetched(&rig, &move).status, 0);
	CHECK_EQUAL(memcmp(staging + 3 * SLOT, source, SLOT - sizeof(old)), 0);
	CHECK(memcmp(staging + 4 * SLOT - sizeof(old), old, sizeof(old)) != 0);
	teardown(&rig);
}

/* The slots are lent again only after the event: nothing may then be on its way to them. */
static void abort_waits_for_what_is_in_flight(void)
{
	struct rig rig = setup();
	const struct dp_extent to = { .fd = rig.empty, .length_bytes = LENGTH };
	const struct dp_move move = move_of(DP_MOVE_FETCH, &to, 9, 3);
	struct dp_event event;

	fake.manual = fake.swallow_flush = true;
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), 0);
	fake_wait_sends(2);
	CHECK_EQUAL(dp_lane_abort(rig.lane), 0);
	CHECK(fake_quiet(rig.fabric));
	fake_complete(0, IBV_WC_SUCCESS); /* it had arrived before the QP was in ERR */
	CHECK(fake_quiet(rig.fabric));
	fake_complete(1, IBV_WC_WR_FLUSH_ERR);
	event = fake_event(rig.fabric);
	CHECK_EQUAL(event.kind, DP_EVENT_MOVED);
	CHECK_EQUAL(event.status, -ECANCELED);
	CHECK_EQUAL(event.bytes, 0);
	CHECK_EQUAL(fake_event(rig.fabric).kind, DP_EVENT_DRAINED);
	CHECK_EQUAL(lseek(rig.empty, 0, SEEK_END), 0);
	CHECK_EQUAL(dp_lane_move(rig.lane, &move), -EPIPE);
	teardown(&rig);
}

static void a_disk_that_fails_ends_the_move(void)
{
	struct rig rig = setup();
	int unwritable = open("/dev/null", O_RDONLY);
	const struct dp_extent to = { .fd = unwritable, .length_bytes = LENGTH };
	const struct dp_extent from = { .fd = rig.object,
					.offset_bytes = 1,
					.length_bytes = LENGTH };
	const struct dp_move fetch = move_of(DP_MOVE_FETCH, &to, 1, 0);
	const struct dp_move send = move_of(DP_MOVE_SEND, &from, 2, 0);

	CHECK_EQUAL(dp_lane_move(rig.lane, &fetch), 0);
	CHECK_EQUAL(fake_event(rig.fabric).status, -EBADF);
	CHECK_EQUAL(dp_lane_move(rig.lane, &send), 0);
	CHECK_EQUAL(fake_event(rig.fabric).status, -ENODATA);
	teardown(&rig);
	close(unwritable);
}

static void refuses_what_cannot_begin(void)
{
	struct rig rig = setup();
	const struct dp_extent extents[] = { { .fd = rig.object, .length_bytes = 5 },
					     { .fd = rig.object, .length_bytes = 5 } };
	const struct dp_move good = move_of(DP_MOVE_FETCH, extents, 1, 0);
	struct dp_lane *bare;
	struct dp_move bad = good;

	bad.slot_count = 0;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad.slot_count = DP_MOVE_SLOTS + 1;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad = good;
	bad.slots[1] = sizeof(staging) - SLOT + 1;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad = good;
	bad.slot_bytes = 0;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad.slot_bytes = sizeof(staging) + 1;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad = good;
	bad.extent_count = 2;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad.extent_count = 0;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EINVAL);
	bad = good;
	bad.remote.length_bytes = 4;
	CHECK_EQUAL(dp_lane_move(rig.lane, &bad), -EMSGSIZE);
	CHECK_EQUAL(dp_lane_join(rig.domain, NULL, 43, &bare), 0);
	CHECK_EQUAL(dp_lane_move(bare, &good), -EINVAL);
	CHECK_EQUAL(dp_lane_rkey(bare), 0);
	CHECK_EQUAL(fake.send_count, 0);
	teardown(&rig);
}

static void a_domain_is_closed_after_what_is_in_it(void)
{
	struct rig rig = setup();

	CHECK_EQUAL(dp_domain_close(&rig.domain), -EBUSY);
	CHECK_EQUAL(dp_lane_close(&rig.lane), 0);
	CHECK_EQUAL(dp_domain_close(&rig.domain), -EBUSY);
	dp_region_close(&rig.region);
	CHECK_EQUAL(dp_domain_close(&rig.domain), 0);
	CHECK(!rig.domain && !rig.region);
	teardown(&rig);
}

static void a_domain_holds_so_many_regions(void)
{
	struct rig rig = setup();
	struct dp_region *regions[DP_REGIONS_MAX];

	for (int i = 1; i < DP_REGIONS_MAX; i++)
		CHECK_EQUAL(dp_region_open(rig.domain, target, LENGTH, DP_ACCESS_REMOTE_WRITE,
					   &regions[i]),
			    0);
	CHECK_EQUAL(dp_region_open(rig.domain, target, LENGTH, DP_ACCESS_REMOTE_WRITE, regions),
		    -ENOSPC);
	dp_region_close(&regions[500]);
	CHECK_EQUAL(dp_region_open(rig.domain, target, LENGTH, DP_ACCESS_REMOTE_WRITE,
				   &regions[500]),
		    0);
	fake.register_errno = ENOMEM;
	dp_region_close(&regions[1]);
	CHECK_EQUAL(dp_region_open(rig.domain, target, LENGTH, DP_ACCESS_REMOTE_WRITE, regions),
		    -ENOMEM);
	CHECK_EQUAL(dp_region_open(rig.domain, target, 0, DP_ACCESS_REMOTE_WRITE, regions),
		    -EINVAL);
	teardown(&rig);
}

int main(void)
{
	RUN(sends_through_its_slots_only);
	RUN(fetches_into_a_file_at_its_offset);
	RUN(bytes_in_a_slot_need_no_file);
	RUN(asks_for_no_more_than_its_slots_hold);
	RUN(runs_as_many_at_once_as_it_may);
	RUN(a_failed_completion_names_its_move);
	RUN(a_read_done_without_its_data_fails_the_move);
	RUN(a_read_that_cannot_be_marked_is_not_posted);
	RUN(one_read_of_many_fails_the_move);
	RUN(a_read_shorter_than_a_mark_leaves_zeros);
	RUN(less_than_a_mark_that_is_missing_is_noise);
	RUN(abort_waits_for_what_is_in_flight);
	RUN(a_disk_that_fails_ends_the_move);
	RUN(refuses_what_cannot_begin);
	RUN(a_domain_is_closed_after_what_is_in_it);
	RUN(a_domain_holds_so_many_regions);
	return 0;
}
