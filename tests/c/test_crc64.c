/* CRC-64/NVME: a bit at a time is the oracle of the tables and of carry-less multiplication. */
#include <string.h>

#include "check.h"
#include "crc64.h"
#include "dataplane.h"

#define POLYNOMIAL 0xad93d23594c93659u /* as the specification has it: the highest bit is x^63 */
#define LENGTHS 300u
#define ALIGNMENTS 16u
#define LONG_BYTES 100000u

static uint8_t memory[LONG_BYTES + ALIGNMENTS];

/* By the definition: the bytes' bits from the lowest on, into a register that shifts up. */
static uint64_t bitwise(const uint8_t *bytes, size_t length)
{
	uint64_t up = UINT64_MAX, reflected = 0;

	for (size_t i = 0; i < 8 * length; i++) {
		const uint64_t bit = bytes[i / 8] >> i % 8 & 1;

		up = up << 1 ^ (up >> 63 ^ bit ? POLYNOMIAL : 0);
	}
	for (uint32_t i = 0; i < 64; i++)
		reflected |= (up >> i & 1) << (63 - i);
	return ~reflected;
}

static void fill(void)
{
	uint64_t state = 1;

	for (size_t i = 0; i < sizeof(memory); i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		memory[i] = (uint8_t)(state >> 56);
	}
}

static void has_the_check_value(void)
{
	const uint8_t digits[] = "123456789";

	CHECK_EQUAL(dp_crc64nvme(0, digits, 9), 0xae8b14860a799888);
	CHECK_EQUAL(dp_crc64nvme(0, digits, 9), 0xae8b14860a799888);
	CHECK_EQUAL(bitwise(digits, 9), 0xae8b14860a799888);
	CHECK_EQUAL(dp_crc64nvme(0, digits, 0), 0);
}

static uint64_t by(enum dp_crc64_way way, const uint8_t *bytes, size_t length)
{
	return ~dp_crc64_fold(way, UINT64_MAX, bytes, length);
}

/* Each length is its own allocation, of which AddressSanitizer knows the end. */
static void agrees_with_the_bitwise_one_at_every_length_and_alignment(void)
{
	for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++)
		for (size_t length = 0; length <= LENGTHS; length++) {
			uint8_t *block = malloc(alignment + length);
			uint8_t *bytes = block + alignment;

			memcpy(bytes, memory + alignment + length, length);
			const uint64_t expected = bitwise(bytes, length);

			CHECK_EQUAL(dp_crc64nvme(0, bytes, length), expected);
			for (uint32_t way = DP_CRC64_TABLES; way <= dp_crc64_best(); way++)
				CHECK_EQUAL(by(way, bytes, length), expected);
			free(block);
		}
}

static void continues_from_any_split(void)
{
	const uint64_t whole = bitwise(memory, LENGTHS);

	for (size_t split = 0; split <= LENGTHS; split++) {
		const uint64_t first = dp_crc64nvme(0, memory, split);

		CHECK_EQUAL(first, bitwise(memory, split));
		CHECK_EQUAL(dp_crc64nvme(first, memory + split, LENGTHS - split), whole);
	}
}

static void is_the_same_by_every_way_over_many_bytes(void)
{
	for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
		const uint8_t *bytes = memory + alignment;
		const size_t length = LONG_BYTES - 7 * alignment;
		const uint64_t crc = 0x0123456789abcdefu << alignment;
		const uint64_t expected = dp_crc64_slice(crc, bytes, length);

		for (uint32_t way = DP_CRC64_TABLES; way <= dp_crc64_best(); way++)
			CHECK_EQUAL(dp_crc64_fold(way, crc, bytes, length), expected);
	}
	CHECK_EQUAL(dp_crc64nvme(0, memory, LONG_BYTES), bitwise(memory, LONG_BYTES));
}

/* x^64 is what the polynomial is without it. */
static void reduces_powers_of_x(void)
{
	CHECK_EQUAL(dp_crc64_power(0), 1ull << 63);
	CHECK_EQUAL(dp_crc64_power(63), 1);
	CHECK_EQUAL(dp_crc64_power(64), 0x9a6c9329ac4bc9b5);
}

int main(void)
{
	fill();
	RUN(has_the_check_value);
	RUN(agrees_with_the_bitwise_one_at_every_length_and_alignment);
	RUN(continues_from_any_split);
	RUN(is_the_same_by_every_way_over_many_bytes);
	RUN(reduces_powers_of_x);
	return 0;
}
