/*
 * fuzz_soft.c - packets that nobody would send, to a connected lane: nothing is read or written
 * beyond the named region, nothing at all without its rkey, and the lane can still be used again.
 *
 * usage: fuzz_soft SECONDS [SEED]; a failure prints its seed. With clang's -fsanitize=fuzzer and
 * -DLIBFUZZER the same is driven by coverage: `make libfuzzer`.
 *
 * An input is a byte of choices (1: a receive is posted; 2: what follows is a packet as it is,
 * but for its QPN and ICRC), then steps of STEP_BYTES, a planned packet each.
 */
#include <sched.h>
#include <time.h>

#include "soft_pair.h"

#define LENGTH 20000u
#define PACKETS_PER_USE 200
#define STEP_BYTES 16
#define PAYLOAD_MAX 4096u

static struct pair pair;
static uint8_t *before;

static void open_pair(void)
{
	const struct dp_fabric_options options = pair_options(1024);

	if (!pair.ours.fabric) {
		pair = pair_open(&options, LENGTH, DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ);
		before = malloc(LENGTH);
		/* Packets are handed to a NIC that knows its fabric: its thread has begun. */
		while (!counted(pair.peer.fabric, DP_COUNT_POLLS))
			sched_yield();
	}
}

/* Both lanes through ERR and RESET to a new connection, whatever state the packets left. */
static void renew(void)
{
	struct end *ends[] = { &pair.ours, &pair.peer };

	for (int i = 0; i < 2; i++) {
		struct dp_event event;

		CHECK_EQUAL(dp_lane_abort(ends[i]->lane), 0);
		do
			event = next_event(ends[i]);
		while (event.kind != DP_EVENT_DRAINED);
		CHECK_EQUAL(dp_lane_recycle(ends[i]->lane), 0);
	}
	pair_connect(&pair, DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ);
}

static uint32_t word(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* A packet for the peer's lane, mostly plausible, as @step's bytes say. */
static struct soft_packet plan(const uint8_t *step)
{
	static const uint8_t PAYLOAD[PAYLOAD_MAX];
	const struct dp_lane *lane = pair.peer.lane;
	uint32_t choice = word(step);

	return (struct soft_packet){
		.opcode = step[4] % SOFT_OPCODES,
		.ack_request = choice & 1,
		.qpn = lane->qpn,
		.psn = (pair.ours.psn + (choice & 2 ? step[5] % 8u : step[5])) & SOFT_PSN_MASK,
		.va = (uintptr_t)pair.peer.memory + (choice & 4 ? word(step + 6) : step[6]),
		.rkey = dp_lane_rkey(lane) ^ (choice & 8 && choice & 16),
		.dma_length = choice & 32 ? word(step + 10) : word(step + 10) % (LENGTH + 100),
		.imm = choice,
		.syndrome = step[14],
		.payload = PAYLOAD,
		.length = choice & 64 ? 1024
				      : (uint32_t)(step[15] * 16 + step[14] % 4) % PAYLOAD_MAX,
	};
}

static void take(const uint8_t *bytes, size_t length)
{
	soft_nic_take(pair.peer.fabric->impl, &soft_qp_of(pair.ours.lane)->out, 0, bytes, length,
		      0);
}

static void seal(uint8_t *bytes, size_t length)
{
	uint32_t icrc = soft_icrc(&soft_qp_of(pair.ours.lane)->out, 0, bytes, length);

	memcpy(bytes + length - SOFT_ICRC_BYTES, &icrc, sizeof(icrc));
}

/* Any bytes, addressed to the peer's lane and with a true ICRC where they have room for both. */
static void deliver_raw(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size + 1);

	memcpy(bytes, data, size);
	if (size >= SOFT_BTH_BYTES + SOFT_ICRC_BYTES) {
		for (int i = 0; i < 3; i++)
			bytes[5 + i] = (uint8_t)(pair.peer.lane->qpn >> (16 - 8 * i));
		seal(bytes, size);
	}
	take(bytes, size);
	free(bytes);
}

/* Build @packet with its true ICRC, spoil a byte where asked, and let the NIC have it. */
static void deliver(struct soft_packet *packet, uint32_t spoil)
{
	uint32_t head_length, length;
	uint8_t *bytes;

	if (!(soft_traits(packet->opcode) & SOFT_HAS_PAYLOAD))
		packet->length = 0;
	length = SOFT_HEAD_BYTES + packet->length + 8;
	bytes = malloc(length);
	head_length = soft_packet_head(packet, bytes);
	memset(bytes + head_length, 0xee, length - head_length);
	length = head_length + packet->length + soft_packet_pad(packet) + SOFT_ICRC_BYTES;
	bytes = realloc(bytes, length); /* exact, for the sanitizer */
	seal(bytes, length);
	if (spoil % 8 == 0)
		bytes[spoil / 8 % length] ^= 0x10;
	take(bytes, length - (spoil % 64 == 1));
	free(bytes);
}

/* A packet for each STEP_BYTES. */
static void deliver_planned(const uint8_t *data, size_t size)
{
	for (; size >= STEP_BYTES; data += STEP_BYTES, size -= STEP_BYTES) {
		struct soft_packet packet = plan(data);
		bool begins = soft_traits(packet.opcode) & SOFT_BEGINS;
		bool wrong = begins && packet.rkey != dp_lane_rkey(pair.peer.lane);

		if (wrong)
			memcpy(before, pair.peer.memory, LENGTH);
		deliver(&packet, word(data + 11));
		if (wrong)
			CHECK_EQUAL(memcmp(before, pair.peer.memory, LENGTH), 0);
	}
}

/* One use of the lane. */
static void use(const uint8_t *data, size_t size)
{
	open_pair();
	if (size == 0)
		return;
	if (data[0] & 1)
		CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	if (data[0] & 2)
		deliver_raw(data + 1, size - 1);
	else
		deliver_planned(data + 1, size - 1);
	renew();
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	use(data, size);
	return 0;
}
#else
int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	unsigned int seed = argc > 2 ? (unsigned int)atoi(argv[2]) : (unsigned int)time(NULL);
	uint64_t uses = 0;

	printf("fuzz_soft: seed %u\n", seed);
	srand(seed);
	for (; time(NULL) < end; uses++) {
		uint8_t data[1 + PACKETS_PER_USE * STEP_BYTES];

		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = (uint8_t)(rand() >> 7);
		use(data, sizeof(data));
	}
	pair_close(&pair);
	free(before);
	printf("fuzz_soft: %llu uses of %d packets\n", (unsigned long long)uses, PACKETS_PER_USE);
	return 0;
}
#endif
