/* The event ring: order, bounds, and the eventfd that tells of it. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "check.h"
#include "ring.h"

static bool readable(const struct dp_ring *ring)
{
	struct pollfd fd = { .fd = ring->fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

static void keeps_order_across_the_wrap(void)
{
	struct dp_event events[3];
	struct dp_ring ring;
	uint64_t next_in = 0, next_out = 0;

	CHECK_EQUAL(dp_ring_init(&ring, 3), 0);
	CHECK_EQUAL(ring.capacity, 4);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 3; i++) {
			const struct dp_event event = { .tag = next_in++ };

			CHECK_EQUAL(dp_ring_push(&ring, &event), 0);
		}
		CHECK_EQUAL(dp_ring_drain(&ring, events, 2), 2);
		CHECK_EQUAL(events[0].tag, next_out++);
		CHECK_EQUAL(events[1].tag, next_out++);
		CHECK(readable(&ring));
		CHECK_EQUAL(dp_ring_drain(&ring, events, 3), 1);
		CHECK_EQUAL(events[0].tag, next_out++);
		CHECK(!readable(&ring));
	}
	CHECK_EQUAL(dp_ring_drain(&ring, events, 3), 0);
	dp_ring_destroy(&ring);
}

static void survives_the_counters_overflow(void)
{
	const struct dp_event event = { .tag = 5 };
	struct dp_event events[4];
	struct dp_ring ring;

	CHECK_EQUAL(dp_ring_init(&ring, 4), 0);
	ring.head = ring.tail = UINT32_MAX - 1;
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(dp_ring_push(&ring, &event), 0);
	CHECK_EQUAL(dp_ring_push(&ring, &event), -ENOSPC);
	CHECK_EQUAL(dp_ring_drain(&ring, events, 4), 4);
	CHECK_EQUAL(events[3].tag, 5);
	dp_ring_destroy(&ring);
}

static void refuses_when_full_and_keeps_what_it_has(void)
{
	const struct dp_event first = { .tag = 1 }, second = { .tag = 2 };
	struct dp_event out;
	struct dp_ring ring;

	CHECK_EQUAL(dp_ring_init(&ring, 1), 0);
	CHECK_EQUAL(dp_ring_push(&ring, &first), 0);
	CHECK_EQUAL(dp_ring_push(&ring, &second), -ENOSPC);
	CHECK_EQUAL(dp_ring_drain(&ring, &out, 1), 1);
	CHECK_EQUAL(out.tag, 1);
	dp_ring_destroy(&ring);
}

static void refuses_a_length_it_cannot_have(void)
{
	struct dp_ring ring;

	CHECK_EQUAL(dp_ring_init(&ring, 0), -EINVAL);
	CHECK_EQUAL(dp_ring_init(&ring, (UINT32_C(1) << 31) + 1), -EINVAL);
}

int main(void)
{
	RUN(keeps_order_across_the_wrap);
	RUN(survives_the_counters_overflow);
	RUN(refuses_when_full_and_keeps_what_it_has);
	RUN(refuses_a_length_it_cannot_have);
	return 0;
}
