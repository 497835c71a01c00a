/* Teardown: a lane is used again only when all that was posted is accounted for. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "fake_libc.h"
#include "fake_verbs.h"

#define SLOT (1u << 16)
#define LANE (4u * SLOT)

static const struct dp_peer PEER = { .qpn = 5, .psn = 6 };
static uint8_t memory[LANE], target[8 * SLOT];
static struct dp_extent extent;
static struct dp_fabric *fabric;
static struct dp_lane *lane;

static void connect_lane(void)
{
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(lane, &PEER), 0);
}

static void setup(void)
{
	fake_reset();
	fake.manual = true;
	fabric = fake_open();
	CHECK_EQUAL(dp_lane_open(fabric, memory, LANE, DP_ACCESS_REMOTE_WRITE, 7, &lane), 0);
	connect_lane();
	extent = (struct dp_extent){ .fd = memfd_create("object", 0), .length_bytes = 8 * SLOT };
	CHECK_EQUAL(ftruncate(extent.fd, 8 * SLOT), 0);
}

static void teardown(void)
{
	dp_fabric_close(&fabric);
	CHECK_EQUAL(fake.live, 0);
	close(extent.fd);
}

static void send(void)
{
	const struct dp_remote to = { .addr = (uintptr_t)target, .length_bytes = sizeof(target) };

	CHECK_EQUAL(dp_lane_send(lane, &extent, 1, &to, DP_IMM_PRESENT, 9), 0);
}

/* The events that end a lane with a receive and a transfer under way, then silence. */
static void expect_cancelled(void)
{
	bool sent = false, received = false;

	for (int i = 0; i < 2; i++) {
		struct dp_event event = fake_event(fabric);

		CHECK_EQUAL(event.status, -ECANCELED);
		sent |= event.kind == DP_EVENT_SENT;
		received |= event.kind == DP_EVENT_RECEIVED;
	}
	CHECK(sent && received);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_DRAINED);
	CHECK(fake_quiet(fabric));
	CHECK_EQUAL(atomic_load(&fabric->in_flight), 0);
}

static void works_again(void)
{
	CHECK_EQUAL(dp_lane_recycle(lane), 0);
	connect_lane();
	fake_lock();
	fake.manual = false;
	fake_unlock();
	send();
	CHECK_EQUAL(fake_event(fabric).status, 0);
}

static void abort_flushes_all_then_drains(void)
{
	setup();
	CHECK_EQUAL(dp_lane_receive(lane), 0);
	send();
	fake_wait_sends(4);
	CHECK_EQUAL(dp_lane_recycle(lane), -EBUSY);
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	expect_cancelled();
	CHECK_EQUAL(dp_lane_receive(lane), -EPIPE);
	works_again();
	teardown();
}

static void abort_of_an_idle_lane_drains_at_once(void)
{
	setup();
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_DRAINED);
	CHECK_EQUAL(dp_lane_recycle(lane), 0);
	CHECK_EQUAL(dp_lane_abort(lane), 0); /* from RESET: no transition is asked for */
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_DRAINED);
	CHECK_EQUAL(fake.modifies[fake.modify_count - 1].attr.qp_state, IBV_QPS_RESET);
	works_again();
	teardown();
}

static void a_queue_pair_that_does_not_drain_is_replaced(void)
{
	uint32_t old_qpn;
	uint64_t old_wr_id;

	setup();
	fake.swallow_flush = true;
	CHECK_EQUAL(dp_lane_receive(lane), 0);
	send();
	fake_wait_sends(4);
	old_qpn = dp_lane_qpn(lane);
	old_wr_id = fake.sends[0].wr.wr_id;
	CHECK_EQUAL(dp_lane_replace(lane), -EBUSY); /* not before an abort */
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	CHECK(fake_quiet(fabric));
	CHECK_EQUAL(dp_lane_replace(lane), 0);
	expect_cancelled();
	CHECK(dp_lane_qpn(lane) != old_qpn);
	fake_stray(old_wr_id); /* a late completion of the destroyed QP is nobody's */
	CHECK(fake_quiet(fabric));
	works_again();
	teardown();
}

static void a_device_that_refuses_err_is_told_by_errno(void)
{
	setup();
	fake.modify_errno = EIO;
	CHECK_EQUAL(dp_lane_receive(lane), 0);
	CHECK_EQUAL(dp_lane_abort(lane), -EIO);
	CHECK(fake_quiet(fabric));
	CHECK_EQUAL(dp_lane_replace(lane), 0);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_RECEIVED);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_DRAINED);
	works_again();
	teardown();
}

static void a_lane_without_a_queue_pair_is_only_good_for_closing(void)
{
	setup();
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_DRAINED);
	fake.create_qp_errno = ENOMEM;
	CHECK_EQUAL(dp_lane_replace(lane), -ENOMEM);
	CHECK_EQUAL(dp_lane_recycle(lane), -ENODEV);
	CHECK_EQUAL(dp_lane_qp_state(lane), 0xff);
	CHECK_EQUAL(dp_lane_close(&lane), 0);
	teardown();
}

static void an_abort_during_pread_posts_nothing_more(void)
{
	setup();
	fake_hold_pread(true);
	send();
	fake_pread_waiting();
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	CHECK_EQUAL(dp_lane_close(&lane), -EBUSY);
	CHECK(lane && fake_quiet(fabric)); /* memory is still being written: not drained */
	CHECK_EQUAL(dp_lane_replace(lane), 0);
	CHECK(fake_quiet(fabric));
	fake_hold_pread(false);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_SENT);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_DRAINED);
	CHECK_EQUAL(fake.send_count, 0);
	works_again();
	teardown();
}

static void a_failed_receive_tells_its_status(void)
{
	struct dp_event event;

	setup();
	CHECK_EQUAL(dp_lane_receive(lane), 0);
	fake_fail_receive(0, IBV_WC_LOC_LEN_ERR);
	event = fake_event(fabric);
	CHECK_EQUAL(event.status, -EREMOTEIO);
	CHECK_EQUAL(event.wc_status, IBV_WC_LOC_LEN_ERR);
	CHECK_EQUAL(event.imm, 0); /* undefined on failure, so not passed on */
	teardown();
}

static void strays_are_ignored(void)
{
	setup();
	CHECK_EQUAL(dp_lane_receive(lane), 0);
	send();
	fake_wait_sends(4);
	fake_stray(UINT64_MAX);
	fake_stray(UINT64_C(3) << 48);                            /* a lane that is not open */
	fake_stray(fake.sends[0].wr.wr_id | 15);                  /* a slot that holds nothing */
	fake_stray(fake.sends[0].wr.wr_id | 0x4000);              /* no slot at all */
	fake_stray(fake.sends[0].wr.wr_id + (UINT64_C(1) << 16)); /* a generation to come */
	CHECK(fake_quiet(fabric));
	CHECK_EQUAL(dp_lane_abort(lane), 0);
	expect_cancelled();
	teardown();
}

static void closing_the_fabric_with_work_under_way_frees_everything(void)
{
	setup();
	fake.swallow_flush = true;
	CHECK_EQUAL(dp_lane_receive(lane), 0);
	send();
	fake_wait_sends(4);
	teardown();
}

int main(void)
{
	RUN(abort_flushes_all_then_drains);
	RUN(abort_of_an_idle_lane_drains_at_once);
	RUN(a_queue_pair_that_does_not_drain_is_replaced);
	RUN(a_device_that_refuses_err_is_told_by_errno);
	RUN(a_lane_without_a_queue_pair_is_only_good_for_closing);
	RUN(an_abort_during_pread_posts_nothing_more);
	RUN(a_failed_receive_tells_its_status);
	RUN(strays_are_ignored);
	RUN(closing_the_fabric_with_work_under_way_frees_everything);
	return 0;
}
