/* A bad network, by seed: every transfer arrives as it was, or ends in a clean error in time. */
#include <errno.h>

#include "soft_pair.h"

#define LENGTH (128u * 1024)
#define SEEDS 10

struct result {
	int arrived;
	int failed;
};

static struct dp_fabric_options with_faults(const struct dp_faults *faults, uint64_t seed)
{
	struct dp_fabric_options options = pair_options(1024);

	options.segment_bytes = LENGTH / 4;
	options.faults = *faults;
	options.faults.seed = seed;
	return options;
}

static void judge(const struct pair *pair, const struct dp_event *event, struct result *result)
{
	if (event->status) {
		CHECK_EQUAL(event->status, -EREMOTEIO);
		CHECK_EQUAL(event->wc_status, IBV_WC_RETRY_EXC_ERR);
		result->failed++;
		return;
	}
	CHECK_EQUAL(event->bytes, LENGTH);
	CHECK_EQUAL(memcmp(pair->ours.memory, pair->peer.memory, LENGTH), 0);
	result->arrived++;
}

static void write_once(const struct dp_faults *faults, uint64_t seed, struct result *result)
{
	const struct dp_fabric_options options = with_faults(faults, seed);
	struct pair pair = pair_open(&options, LENGTH, DP_ACCESS_REMOTE_WRITE);
	const struct dp_remote to = end_as_remote(&pair.peer);
	struct dp_event event, received;

	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, LENGTH, &to, PAIR_COOKIE), 0);
	event = next_event(&pair.ours);
	judge(&pair, &event, result);
	if (!event.status) {
		received = next_event(&pair.peer);
		CHECK_EQUAL(received.imm, PAIR_COOKIE);
		CHECK_EQUAL(received.bytes, LENGTH);
		CHECK(!event_within(pair.peer.fabric, 0, &received)); /* once */
	}
	pair_close(&pair);
}

static void read_once(const struct dp_faults *faults, uint64_t seed, struct result *result)
{
	const struct dp_fabric_options options = with_faults(faults, seed);
	struct pair pair = pair_open(&options, LENGTH, DP_ACCESS_REMOTE_READ);
	const struct dp_remote from = end_as_remote(&pair.peer);
	struct dp_event event;

	for (uint32_t i = 0; i < LENGTH; i++)
		pair.peer.memory[i] = (uint8_t)(i * 17 + i / 253);
	CHECK_EQUAL(dp_lane_read(pair.ours.lane, LENGTH, &from), 0);
	event = next_event(&pair.ours);
	judge(&pair, &event, result);
	pair_close(&pair);
}

/* Ten seeds of each; at least @least of the twenty transfers arrive. */
static void run(const char *name, const struct dp_faults *faults, int least)
{
	struct result result = { 0 };

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		write_once(faults, seed, &result);
		read_once(faults, seed, &result);
	}
	printf("   %s: %d arrived, %d failed cleanly\n", name, result.arrived, result.failed);
	CHECK_EQUAL(result.arrived + result.failed, 2 * SEEDS);
	CHECK(result.arrived >= least);
}

static void loss_is_mended(void)
{
	run("loss 0.1 %", &(struct dp_faults){ .loss_ppm = 1000 }, 2 * SEEDS);
	run("loss 1 %", &(struct dp_faults){ .loss_ppm = 10000 }, 2 * SEEDS);
	run("loss 5 %", &(struct dp_faults){ .loss_ppm = 50000 }, 2 * SEEDS - 2);
}

static void duplicates_are_executed_once(void)
{
	run("duplication 5 %", &(struct dp_faults){ .duplicate_ppm = 50000 }, 2 * SEEDS);
}

static void order_is_restored(void)
{
	run("reordering 5 %", &(struct dp_faults){ .reorder_ppm = 50000 }, 2 * SEEDS - 2);
}

static void corruption_is_noticed(void)
{
	run("corruption 5 %", &(struct dp_faults){ .corrupt_ppm = 50000 }, 2 * SEEDS - 2);
}

static void delay_is_waited_for(void)
{
	run("delay 2 ms", &(struct dp_faults){ .delay_us = 2000 }, 2 * SEEDS);
}

static void all_at_once_is_survived(void)
{
	run("all of it",
	    &(struct dp_faults){ .loss_ppm = 10000,
				 .duplicate_ppm = 10000,
				 .reorder_ppm = 10000,
				 .corrupt_ppm = 10000,
				 .delay_us = 100 },
	    2 * SEEDS - 2);
}

int main(void)
{
	RUN(loss_is_mended);
	RUN(duplicates_are_executed_once);
	RUN(order_is_restored);
	RUN(corruption_is_noticed);
	RUN(delay_is_waited_for);
	RUN(all_at_once_is_survived);
	return 0;
}
