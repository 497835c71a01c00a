/*
 * crc64_fold.c - CRC-64/NVME by carry-less multiplication, where the CPU has it.
 *
 * 16 bytes are the polynomial F * x^64 + S, of their first and their second half. Moved n bits
 * towards the front they are, modulo P, F * (x^(n+64) mod P) + S * (x^n mod P): less than 128
 * bits, to be added to the 16 bytes that are n bits behind them. So the first bytes, as several
 * such sums side by side, move through the others; in the end each is added to the one behind
 * it, and what the last comes to has the CRC of everything.
 *
 * The product of two reflected registers has 127 bits, and lies one bit too low in 128: it is
 * that of a power of x more. The factors are of one less.
 */
#include <pthread.h>
#include <string.h>

#include "crc64.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define PAIRWISE __attribute__((target("pclmul")))
#define QUADWISE __attribute__((target("vpclmulqdq,avx2")))

#elif defined(__AARCH64EL__)

#include <arm_neon.h>
#include <sys/auxv.h>

#define PAIRWISE __attribute__((target("+crypto")))

#endif

/* dp_crc64_best - the last way that this CPU has. */
enum dp_crc64_way dp_crc64_best(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2"))
		return DP_CRC64_QUADS;
	if (__builtin_cpu_supports("pclmul"))
		return DP_CRC64_PAIRS;
#elif defined(__AARCH64EL__)
	if (getauxval(AT_HWCAP) & HWCAP_PMULL)
		return DP_CRC64_PAIRS;
#endif
	return DP_CRC64_TABLES;
}

#ifdef PAIRWISE

#define SUMS 8 /* side by side: enough for the multiplier never to wait for one */
#define ROUND_BYTES (SUMS * sizeof(pair))

typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias)); /* F, S */

static pair by_round, by_pair;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pair factors(size_t bytes)
{
	const uint32_t bits = 8 * (uint32_t)bytes;

	return (pair){ dp_crc64_power(bits + 64 - 1), dp_crc64_power(bits - 1) };
}

static void make_factors(void)
{
	by_round = factors(ROUND_BYTES);
	by_pair = factors(sizeof(pair));
}

PAIRWISE static inline pair move(pair sum, pair by)
{
#ifdef __x86_64__
	const __m128i a = (__m128i)sum, b = (__m128i)by;

	return (pair)_mm_clmulepi64_si128(a, b, 0x00) ^ (pair)_mm_clmulepi64_si128(a, b, 0x11);
#else
	return (pair)vmull_p64(sum[0], by[0]) ^ (pair)vmull_p64(sum[1], by[1]);
#endif
}

PAIRWISE static void advance_pairs(pair *sums, const pair *at, size_t rounds)
{
	for (; rounds; rounds--, at += SUMS)
#pragma GCC unroll 8
		for (uint32_t i = 0; i < SUMS; i++)
			sums[i] = move(sums[i], by_round) ^ at[i];
}

#ifdef QUADWISE

typedef uint64_t quad __attribute__((vector_size(32), aligned(1), may_alias)); /* two pairs */

QUADWISE static inline quad move_two(quad sums, quad by)
{
	const __m256i a = (__m256i)sums, b = (__m256i)by;

	return (quad)_mm256_clmulepi64_epi128(a, b, 0x00) ^
	       (quad)_mm256_clmulepi64_epi128(a, b, 0x11);
}

QUADWISE static void advance_quads(pair *sums, const pair *at, size_t rounds)
{
	const quad by = { by_round[0], by_round[1], by_round[0], by_round[1] };
	quad *const twos = (quad *)sums;

	for (; rounds; rounds--, at += SUMS)
#pragma GCC unroll 4
		for (uint32_t i = 0; i < SUMS / 2; i++)
			twos[i] = move_two(twos[i], by) ^ ((const quad *)at)[i];
}

#endif

/* Moves the sums through @rounds times as many pairs, from @at on. */
static void (*const ADVANCE[])(pair *sums, const pair *at, size_t rounds) = {
	[DP_CRC64_PAIRS] = advance_pairs,
#ifdef QUADWISE
	[DP_CRC64_QUADS] = advance_quads,
#endif
};

/* @length: at least ROUND_BYTES. */
PAIRWISE static uint64_t fold(enum dp_crc64_way way, uint64_t crc, const uint8_t *bytes,
			      size_t length)
{
	const size_t rounds = length / ROUND_BYTES;
	const pair *at = (const pair *)bytes, *const end = at + length / sizeof(pair);
	pair sums[SUMS], sum;

	memcpy(sums, bytes, sizeof(sums));
	sums[0][0] ^= crc;
	ADVANCE[way](sums, at + SUMS, rounds - 1);
	sum = sums[0];
	for (uint32_t i = 1; i < SUMS; i++)
		sum = move(sum, by_pair) ^ sums[i];
	for (at += rounds * SUMS; at < end; at++)
		sum = move(sum, by_pair) ^ *at;
	crc = dp_crc64_slice(0, (const uint8_t *)&sum, sizeof(sum));
	return dp_crc64_slice(crc, (const uint8_t *)end, length % sizeof(pair));
}

#endif

/* dp_crc64_fold - as dp_crc64_slice, by @way: one that this CPU has. */
uint64_t dp_crc64_fold(enum dp_crc64_way way, uint64_t crc, const uint8_t *bytes, size_t length)
{
#ifdef PAIRWISE
	if (way != DP_CRC64_TABLES && length >= ROUND_BYTES) {
		pthread_once(&once, make_factors);
		return fold(way, crc, bytes, length);
	}
#else
	(void)way; /* there is but one */
#endif
	return dp_crc64_slice(crc, bytes, length);
}
