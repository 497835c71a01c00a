/*
 * fuzz_soft.c - packets that nobody would send, to a connected lane: nothing is read or written
 * beyond the named region, nothing at all without its rkey, and the lane can still be used again.
 *
 * usage: fuzz_soft SECONDS [SEED]; a failure prints its seed. With clang's -fsanitize=fuzzer and
 * -DLIBFUZZER the same is driven by coverage.
 */
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
		.rkey = lane->rkey ^ (choice & 8 && choice & 16),
		.dma_length = choice & 32 ? word(step + 10) : word(step + 10) % (LENGTH + 100),
		.imm = choice,
		.syndrome = step[14],
		.payload = PAYLOAD,
		.length = choice & 64 ? 1024
				      : (uint32_t)(step[15] * 16 + step[14] % 4) % PAYLOAD_MAX,
	};
}

/* Build @packet with its true ICRC, spoil a byte where asked, and let the NIC have it. */
static void deliver(struct soft_packet *packet, uint32_t spoil)
{
	const struct soft_flow *reverse = &soft_qp_of(pair.ours.lane)->out;
	uint32_t head_length, length, icrc;
	uint8_t *bytes;

	if (!(soft_traits(packet->opcode) & SOFT_HAS_PAYLOAD))
		packet->length = 0;
	length = SOFT_HEAD_BYTES + packet->length + 8;
	bytes = malloc(length);
	head_length = soft_packet_head(packet, bytes);
	memset(bytes + head_length, 0xee, length - head_length);
	length = head_length + packet->length + soft_packet_pad(packet) + SOFT_ICRC_BYTES;
	bytes = realloc(bytes, length); /* exact, for the sanitizer */
	icrc = soft_icrc(reverse, 0, bytes, length);
	memcpy(bytes + length - SOFT_ICRC_BYTES, &icrc, sizeof(icrc));
	if (spoil % 8 == 0)
		bytes[spoil / 8 % length] ^= 0x10;
	soft_nic_take(pair.peer.fabric->impl, reverse, bytes, length - (spoil % 64 == 1), 0);
	free(bytes);
}

/* One use of the lane: a packet for each STEP_BYTES. */
static void use(const uint8_t *data, size_t size)
{
	open_pair();
	if (size && data[0] & 1)
		CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	for (; size >= STEP_BYTES; data += STEP_BYTES, size -= STEP_BYTES) {
		struct soft_packet packet = plan(data);
		bool begins = soft_traits(packet.opcode) & SOFT_BEGINS;
		bool wrong = begins && packet.rkey != pair.peer.lane->rkey;

		if (wrong)
			memcpy(before, pair.peer.memory, LENGTH);
		deliver(&packet, word(data + 11));
		if (wrong)
			CHECK_EQUAL(memcmp(before, pair.peer.memory, LENGTH), 0);
	}
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
		uint8_t data[PACKETS_PER_USE * STEP_BYTES];

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
