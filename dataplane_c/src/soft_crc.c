/*
 * soft_crc.c - CRC-32 (IEEE 802.3, reflected, as zlib's), and its arithmetic.
 *
 * libdeflate does the bytes, with what the CPU has for it. What it does not offer is the algebra:
 * the CRC is a polynomial over GF(2) modulo another, and there bytes can be taken back. In a
 * register bit 31 is x^0.
 */
#include <libdeflate.h>
#include <pthread.h>

#include "soft_crc.h"

#define POLYNOMIAL 0xedb88320u
#define ONE (1u << 31)
#define X_INVERSE (POLYNOMIAL << 1 | 1) /* the polynomial without its 1, divided by x */
#define LENGTH_BITS 17                  /* of a UDP payload's length and the headers' */

static uint32_t unshifts[LENGTH_BITS]; /* x^(-8 * 2^i) */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* dp_crc_update - @crc is the bare register, which libdeflate complements on both ways. */
uint32_t dp_crc_update(uint32_t crc, const uint8_t *bytes, size_t length)
{
	return ~libdeflate_crc32(~crc, bytes, length);
}

/* dp_crc_multiply - a * b modulo the polynomial. */
uint32_t dp_crc_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = ONE; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
	}
	return product;
}

static void make_unshifts(void)
{
	uint32_t power = X_INVERSE;

	for (uint32_t doubling = 0; doubling < 3; doubling++)
		power = dp_crc_multiply(power, power);
	for (uint32_t i = 0; i < LENGTH_BITS; i++) {
		unshifts[i] = power;
		power = dp_crc_multiply(power, power);
	}
}

/*
 * dp_crc_unshift - x^(-8 * @bytes): undoes what that many zero bytes did to a CRC.
 *
 * @bytes: less than 2^LENGTH_BITS.
 */
uint32_t dp_crc_unshift(uint32_t bytes)
{
	uint32_t power = ONE;

	pthread_once(&once, make_unshifts);
	for (; bytes; bytes &= bytes - 1)
		power = dp_crc_multiply(power, unshifts[__builtin_ctz(bytes)]);
	return power;
}
