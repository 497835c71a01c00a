/*
 * soft_packet.h - RoCE v2 packets as bytes: IBTA volume 1, chapter 9 (headers) and annex A17.
 *
 * Pure: no socket, no state. Whatever the bytes are, parsing answers and reads nothing beyond.
 */
#ifndef DP_SOFT_PACKET_H
#define DP_SOFT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_BTH_BYTES 12u
#define SOFT_ICRC_BYTES 4u
#define SOFT_HEAD_BYTES (SOFT_BTH_BYTES + 16u + 4u) /* the longest: BTH, RETH, ImmDt */
#define SOFT_PSN_MASK 0xffffffu

/* BTH opcodes of the reliable connection. */
enum soft_opcode {
	SOFT_SEND_FIRST = 0x00,
	SOFT_SEND_MIDDLE = 0x01,
	SOFT_SEND_LAST = 0x02,
	SOFT_SEND_LAST_IMM = 0x03,
	SOFT_SEND_ONLY = 0x04,
	SOFT_SEND_ONLY_IMM = 0x05,
	SOFT_WRITE_FIRST = 0x06,
	SOFT_WRITE_MIDDLE = 0x07,
	SOFT_WRITE_LAST = 0x08,
	SOFT_WRITE_LAST_IMM = 0x09,
	SOFT_WRITE_ONLY = 0x0a,
	SOFT_WRITE_ONLY_IMM = 0x0b,
	SOFT_READ_REQUEST = 0x0c,
	SOFT_READ_FIRST = 0x0d,
	SOFT_READ_MIDDLE = 0x0e,
	SOFT_READ_LAST = 0x0f,
	SOFT_READ_ONLY = 0x10,
	SOFT_ACK = 0x11,
	SOFT_OPCODES = 0x12,
};

/* What an opcode says of its packet. */
enum soft_trait {
	SOFT_HAS_RETH = 1,
	SOFT_HAS_IMM = 2,
	SOFT_HAS_AETH = 4,
	SOFT_HAS_PAYLOAD = 8,
	SOFT_BEGINS = 16, /* FIRST and ONLY */
	SOFT_ENDS = 32,   /* LAST and ONLY */
	SOFT_IS_SEND = 64,
	SOFT_IS_WRITE = 128,
	SOFT_IS_RESPONSE = 256, /* goes from responder to requester */
};

/* AETH syndromes: 9.7.5.2.1. */
enum soft_syndrome {
	SOFT_SYNDROME_ACK = 0x1f, /* no credit limit */
	SOFT_SYNDROME_RNR = 0x20, /* | timer code */
	SOFT_SYNDROME_SEQUENCE = 0x60,
	SOFT_SYNDROME_INVALID = 0x61,
	SOFT_SYNDROME_ACCESS = 0x62,
	SOFT_SYNDROME_OPERATION = 0x63,
};

struct soft_packet {
	uint8_t opcode; /* enum soft_opcode */
	uint8_t syndrome;
	bool ack_request;
	uint32_t qpn;
	uint32_t psn;
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_length;
	uint32_t imm;
	uint32_t msn;
	const uint8_t *payload;
	uint32_t length; /* of the payload, pad excluded */
};

/* The addresses of one direction, as the ICRC covers them: 16 bytes each, IPv4 mapped. */
struct soft_flow {
	uint8_t source[16];
	uint8_t target[16];
	uint16_t source_port;
	uint16_t target_port;
};

uint32_t soft_traits(uint8_t opcode);
int soft_packet_parse(const uint8_t *bytes, size_t length, struct soft_packet *out);
uint32_t soft_packet_head(const struct soft_packet *packet, uint8_t *out);
uint32_t soft_packet_pad(const struct soft_packet *packet);
bool soft_address_is_ipv4(const uint8_t *gid);
bool soft_address_is_loopback(const uint8_t *gid);

uint32_t soft_icrc_begin(const struct soft_flow *flow, uint16_t id, uint32_t udp_bytes,
			 const uint8_t *head, uint32_t head_length);
uint32_t soft_icrc(const struct soft_flow *flow, uint16_t id, const uint8_t *bytes, size_t length);
bool soft_icrc_holds(const struct soft_flow *flow, uint16_t id, const uint8_t *bytes,
		     size_t length);

#endif
