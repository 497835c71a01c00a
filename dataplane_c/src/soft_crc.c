/*
 * soft_crc.c - CRC-32 (IEEE 802.3, reflected, as zlib's) fast enough for a link's speed.
 *
 * Two ways to the same number: eight tables (slicing-by-8), and where the CPU has carry-less
 * multiplication, folding 64 bytes a step (V. Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction", Intel 2009; the constants are its section on the
 * reflected domain). Polynomials are reflected: bit 31 is x^0.
 */
#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "soft_crc.h"

#define POLYNOMIAL 0xedb88320u
#define ORDER 0xffffffffu /* x^ORDER = 1: the polynomial is primitive */
#define SLICES 8

static uint32_t tables[SLICES][256];
static uint32_t squares[32]; /* x^(2^i) */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* dp_crc_multiply - a * b modulo the polynomial. */
uint32_t dp_crc_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
	}
	return product;
}

static void make_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		tables[0][byte] = crc;
	}
	for (uint32_t slice = 1; slice < SLICES; slice++) {
		for (uint32_t byte = 0; byte < 256; byte++) {
			uint32_t crc = tables[slice - 1][byte];

			tables[slice][byte] = crc >> 8 ^ tables[0][crc & 0xff];
		}
	}
	squares[0] = 1u << 30;
	for (uint32_t i = 1; i < 32; i++)
		squares[i] = dp_crc_multiply(squares[i - 1], squares[i - 1]);
}

/* dp_crc_unshift - x^(-8 * @bytes): undoes what that many zero bytes did to a CRC. */
uint32_t dp_crc_unshift(uint32_t bytes)
{
	uint32_t exponent = ORDER - (uint32_t)((uint64_t)bytes * 8 % ORDER);
	uint32_t power = 1u << 31;

	pthread_once(&once, make_tables);
	for (uint32_t i = 0; exponent >> i; i++) {
		if (exponent >> i & 1)
			power = dp_crc_multiply(power, squares[i]);
		if (i == 31)
			break;
	}
	return power;
}

/* dp_crc_update_tables - without the CPU's help; @crc is the bare register, not complemented. */
uint32_t dp_crc_update_tables(uint32_t crc, const uint8_t *bytes, size_t length)
{
	pthread_once(&once, make_tables);
	for (; length >= SLICES; bytes += SLICES, length -= SLICES) {
		uint64_t word;

		memcpy(&word, bytes, sizeof(word));
		word = le64toh(word) ^ crc;
		crc = 0;
		for (uint32_t i = 0; i < SLICES; i++)
			crc ^= tables[SLICES - 1 - i][word >> 8 * i & 0xff];
	}
	for (; length; bytes++, length--)
		crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 0xff];
	return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOLD_BYTES 64

/* @value moved on by the distance that @keys stand for, and @next put over it. */
__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i value, __m128i keys,
								    __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(value, keys, 0x00);
	__m128i high = _mm_clmulepi64_si128(value, keys, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* 128 bits to the CRC's 32: two foldings, then Barrett's reduction. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t reduce(__m128i value, __m128i by128)
{
	const __m128i by64 = _mm_set_epi64x(0, 0x163cd6124);
	const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
	const __m128i mask = _mm_setr_epi32(-1, 0, -1, 0);
	__m128i part = _mm_clmulepi64_si128(value, by128, 0x10);

	value = _mm_xor_si128(_mm_srli_si128(value, 8), part);
	part = _mm_srli_si128(value, 4);
	value = _mm_clmulepi64_si128(_mm_and_si128(value, mask), by64, 0x00);
	value = _mm_xor_si128(value, part);
	part = _mm_clmulepi64_si128(_mm_and_si128(value, mask), barrett, 0x10);
	part = _mm_clmulepi64_si128(_mm_and_si128(part, mask), barrett, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(value, part), 1);
}

/* A multiple of 16 bytes, at least FOLD_BYTES. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t update_folding(uint32_t crc,
									const uint8_t *bytes,
									size_t length)
{
	const __m128i by512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	const __m128i *at = (const __m128i *)bytes;
	__m128i lanes[4];

	for (int i = 0; i < 4; i++)
		lanes[i] = _mm_loadu_si128(at + i);
	lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
	for (at += 4, length -= FOLD_BYTES; length >= FOLD_BYTES; at += 4, length -= FOLD_BYTES) {
		for (int i = 0; i < 4; i++)
			lanes[i] = fold(lanes[i], by512, _mm_loadu_si128(at + i));
	}
	for (int i = 1; i < 4; i++)
		lanes[0] = fold(lanes[0], by128, lanes[i]);
	for (; length >= 16; at++, length -= 16)
		lanes[0] = fold(lanes[0], by128, _mm_loadu_si128(at));
	return reduce(lanes[0], by128);
}

uint32_t dp_crc_update(uint32_t crc, const uint8_t *bytes, size_t length)
{
	if (length >= FOLD_BYTES && __builtin_cpu_supports("pclmul") &&
	    __builtin_cpu_supports("sse4.1")) {
		size_t whole = length & ~(size_t)15;

		crc = update_folding(crc, bytes, whole);
		bytes += whole;
		length -= whole;
	}
	return dp_crc_update_tables(crc, bytes, length);
}
#else
uint32_t dp_crc_update(uint32_t crc, const uint8_t *bytes, size_t length)
{
	return dp_crc_update_tables(crc, bytes, length);
}
#endif
