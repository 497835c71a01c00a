/* crc64.h - CRC-64/NVME, S3's CRC64NVME: the ways to it. The whole is dp_crc64nvme. */
#ifndef DP_CRC64_H
#define DP_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* Each way needs what the ones before it need, and more of the CPU. */
enum dp_crc64_way {
	DP_CRC64_TABLES = 0,
	DP_CRC64_PAIRS = 1, /* carry-less multiplication of 128 bits: PCLMULQDQ, PMULL */
	DP_CRC64_QUADS = 2, /* of 256 bits: VPCLMULQDQ */
};

enum dp_crc64_way dp_crc64_best(void);

/* On the bare register, which begins as all ones and is complemented in the end. */
uint64_t dp_crc64_slice(uint64_t crc, const uint8_t *bytes, size_t length);
uint64_t dp_crc64_fold(enum dp_crc64_way way, uint64_t crc, const uint8_t *bytes, size_t length);
uint64_t dp_crc64_power(uint32_t exponent);

#endif
