/*
 * fuzz_lanes.c - lanes under a random schedule: whatever comes in whatever order, each accepted
 * transfer and receive ends in exactly one event, an abort in exactly one DRAINED, and then
 * nothing is in flight.
 *
 * usage: fuzz_lanes SECONDS [SEED]; a failure prints its seed.
 */
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "fake_verbs.h"

#define LANES 4
#define LANE_BYTES (1u << 15)
#define STEPS 150

static const struct dp_peer PEER = { .qpn = 5, .psn = 6 };

/* What the event ring owes us for a lane. */
struct owed {
	struct dp_lane *lane;
	int transfers, receives, drains;
	struct dp_extent extents[2];
	bool aborted, drained;
};

static uint8_t memory[LANES][LANE_BYTES], remote[4 * LANE_BYTES];
static struct owed owed[LANES];
static struct dp_fabric *fabric;
static int file;

static void take_events(void)
{
	struct dp_event event;

	while (dp_fabric_drain(fabric, &event, 1)) {
		struct owed *self = &owed[event.tag];

		switch (event.kind) {
		case DP_EVENT_RECEIVED:
			CHECK(self->receives-- > 0);
			break;
		case DP_EVENT_DRAINED:
			CHECK(self->drains-- == 1);
			CHECK(self->transfers == 0 && self->receives == 0);
			self->drained = true;
			break;
		default:
			CHECK(self->transfers-- > 0);
			CHECK(event.status || event.bytes > 0);
		}
	}
}

static void start_transfer(struct owed *self, int kind)
{
	uint64_t length = 1 + (uint64_t)rand() % LANE_BYTES;
	const struct dp_remote peer = { .addr = (uintptr_t)remote, .length_bytes = sizeof(remote) };
	int result;

	if (self->transfers == 0) /* C borrows them until the event */
		self->extents[0] = self->extents[1] =
			(struct dp_extent){ .fd = file, .length_bytes = length };
	if (kind == 0)
		result = dp_lane_send(self->lane, self->extents, 2, &peer, DP_IMM_PRESENT, 1);
	else if (kind == 1)
		result = dp_lane_write(self->lane, length, &peer, 1);
	else
		result = dp_lane_read(self->lane, length, &peer);
	self->transfers += result == 0;
}

/* One of the fake's open sends or receives ends, well or badly. */
static void complete_something(void)
{
	enum ibv_wc_status status = rand() % 8 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
	int send = -1, receive = -1;

	fake_lock();
	for (int i = 0; i < fake.send_count; i++) {
		if (!fake.sends[i].completed && (send < 0 || rand() % 3 == 0))
			send = i;
	}
	for (int i = 0; i < fake.receive_count; i++) {
		if (!fake.receives[i].completed)
			receive = i;
	}
	fake_unlock();
	if (send >= 0 && rand() % 4)
		fake_complete(send, status);
	else if (receive >= 0)
		fake_arrive(receive, 1, 1, IBV_WC_RECV_RDMA_WITH_IMM);
}

static void recycle(struct owed *self)
{
	if (!self->drained)
		return;
	CHECK_EQUAL(dp_lane_recycle(self->lane), 0);
	self->aborted = self->drained = false;
	CHECK_EQUAL(dp_lane_prepare(self->lane, 1, DP_ACCESS_NONE), 0);
	if (rand() % 8)
		CHECK_EQUAL(dp_lane_connect(self->lane, &PEER), 0);
}

static void abort_lane(struct owed *self)
{
	self->drains += !self->aborted;
	self->aborted = true;
	CHECK_EQUAL(dp_lane_abort(self->lane), 0);
}

static void step(void)
{
	struct owed *self = &owed[rand() % LANES];

	switch (rand() % 12) {
	case 0:
	case 1:
	case 2:
		start_transfer(self, rand() % 3);
		break;
	case 3:
		self->receives += dp_lane_receive(self->lane) >= 0;
		break;
	case 4:
		abort_lane(self);
		break;
	case 5:
		fake_lock();
		fake.swallow_flush = rand() % 2;
		fake_unlock();
		break;
	case 6:
		CHECK_EQUAL(dp_lane_replace(self->lane) == 0, self->aborted);
		break;
	case 7:
		recycle(self);
		break;
	default:
		complete_something();
	}
	take_events();
}

/* Abort and replace all; every debt must be paid, within seconds. */
static void settle(void)
{
	struct pollfd fd = { .fd = dp_fabric_fd(fabric), .events = POLLIN };

	for (int i = 0; i < LANES; i++) {
		abort_lane(&owed[i]);
		CHECK_EQUAL(dp_lane_replace(owed[i].lane), 0);
	}
	for (int i = 0; i < LANES; i++) {
		while (!owed[i].drained) {
			CHECK_EQUAL(poll(&fd, 1, 10000), 1);
			take_events();
		}
	}
	CHECK_EQUAL(atomic_load(&fabric->in_flight), 0);
}

static void run_round(unsigned int seed)
{
	struct dp_fabric_options options = fake_options();

	srand(seed);
	fake_reset();
	fake.manual = true;
	options.slot_bytes = 4096;
	options.segment_bytes = 4096;
	memset(owed, 0, sizeof(owed));
	CHECK_EQUAL(dp_verbs_fabric_open(fake_verbs(), &options, &fabric), 0);
	for (uint32_t i = 0; i < LANES; i++) {
		CHECK_EQUAL(dp_lane_open(fabric, memory[i], LANE_BYTES, DP_ACCESS_REMOTE_WRITE, i,
					 &owed[i].lane),
			    0);
		CHECK_EQUAL(dp_lane_prepare(owed[i].lane, 1, DP_ACCESS_NONE), 0);
		CHECK_EQUAL(dp_lane_connect(owed[i].lane, &PEER), 0);
	}
	for (int i = 0; i < STEPS; i++)
		step();
	settle();
	dp_fabric_close(&fabric);
	CHECK_EQUAL(fake.live, 0);
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	unsigned int seed = argc > 2 ? (unsigned int)atoi(argv[2]) : (unsigned int)time(NULL);
	unsigned int rounds = 0;

	file = memfd_create("object", 0);
	CHECK_EQUAL(ftruncate(file, LANE_BYTES), 0);
	fprintf(stderr, "fuzz_lanes: seed %u\n", seed);
	do {
		run_round(seed + rounds++);
	} while (time(NULL) < end);
	printf("ok %u random schedules from seed %u\n", rounds, seed);
	close(file);
	return 0;
}
