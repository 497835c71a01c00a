/* soft_crc.h - CRC-32 on the bare register: begin with 0xffffffff, complement the end. */
#ifndef DP_SOFT_CRC_H
#define DP_SOFT_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t dp_crc_update(uint32_t crc, const uint8_t *bytes, size_t length);
uint32_t dp_crc_multiply(uint32_t a, uint32_t b);
uint32_t dp_crc_unshift(uint32_t bytes);

#endif
