/*
 * crc64.c - CRC-64/NVME (NVM Express NVM Command Set Specification, 64b CRC), and its tables.
 *
 * In a register bit 63 is x^0, as in the bytes: the lowest bit of the first is the highest power.
 */
#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "crc64.h"
#include "dataplane.h"

#define POLYNOMIAL 0x9a6c9329ac4bc9b5u /* 0xad93d23594c93659 reflected; without its x^64 */
#define ONE (1ull << 63)
#define SLICES 16 /* bytes of a step, each with its table */

static uint64_t tables[SLICES][256]; /* [i][b]: what byte b and i zero bytes after it leave */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t times_x(uint64_t a)
{
	return a & 1 ? a >> 1 ^ POLYNOMIAL : a >> 1;
}

/* dp_crc64_power - x^@exponent modulo the polynomial, in as many steps. */
uint64_t dp_crc64_power(uint32_t exponent)
{
	uint64_t power = ONE;

	while (exponent--)
		power = times_x(power);
	return power;
}

static void make_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint64_t rest = byte;

		for (uint32_t bit = 0; bit < 8; bit++)
			rest = times_x(rest);
		tables[0][byte] = rest;
	}
	for (uint32_t i = 1; i < SLICES; i++)
		for (uint32_t byte = 0; byte < 256; byte++) {
			const uint64_t rest = tables[i - 1][byte];

			tables[i][byte] = rest >> 8 ^ tables[0][rest & 0xff];
		}
}

/* What 8 bytes leave that @zeros others come after, from @word as they are in memory. */
static inline uint64_t slice_word(uint64_t word, uint32_t zeros)
{
	uint64_t rest = 0;

#pragma GCC unroll 8
	for (uint32_t i = 0; i < 8; i++)
		rest ^= tables[zeros + 7 - i][word >> 8 * i & 0xff];
	return rest;
}

/* dp_crc64_slice - by a table for each byte of a step: what a CPU without multiplication has. */
uint64_t dp_crc64_slice(uint64_t crc, const uint8_t *bytes, size_t length)
{
	pthread_once(&once, make_tables);
	for (; length >= SLICES; bytes += SLICES, length -= SLICES) {
		uint64_t words[2];

		memcpy(words, bytes, sizeof(words));
		crc = slice_word(crc ^ le64toh(words[0]), 8) ^ slice_word(le64toh(words[1]), 0);
	}
	while (length--)
		crc = crc >> 8 ^ tables[0][(crc ^ *bytes++) & 0xff];
	return crc;
}

uint64_t dp_crc64nvme(uint64_t crc, const void *data, uint64_t length_bytes)
{
	return ~dp_crc64_fold(dp_crc64_best(), ~crc, data, length_bytes);
}
