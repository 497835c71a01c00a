/* The codec against public captures, the CRC against its definition, and packets cut anywhere. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "soft_crc.h"
#include "soft_packet.h"

/* CRC-32 as IEEE 802.3 defines it, a bit at a time. */
static uint32_t by_definition(uint32_t crc, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return crc;
}

static void crc_has_the_published_check_value(void)
{
	CHECK_EQUAL(~dp_crc_update(UINT32_MAX, (const uint8_t *)"123456789", 9), 0xcbf43926u);
}

static void crc_is_its_definition_at_every_length(void)
{
	uint8_t bytes[600];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * i + 7 * i + 3);
	for (size_t from = 0; from < 17; from++) {
		for (size_t length = 0; from + length <= sizeof(bytes); length++) {
			uint32_t expected = by_definition(0x12345678, bytes + from, length);

			CHECK_EQUAL(dp_crc_update(0x12345678, bytes + from, length), expected);
		}
	}
}

static void unshift_undoes_zero_bytes(void)
{
	static const uint8_t zeros[5000];

	for (uint32_t count = 0; count < sizeof(zeros); count += 333) {
		uint32_t shifted = dp_crc_update(0xcafe, zeros, count);

		CHECK_EQUAL(dp_crc_multiply(shifted, dp_crc_unshift(count)), 0xcafe);
	}
}

/* scapy's test/contrib/roce.uts, "RoCE layer": the UDP payload of a UC SEND, and its addresses. */
static const uint8_t SCAPY_SEND[] = {
	0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10,
	'F',  '0',  0x81, 0x8b, 0xe2, 0x89, '5',  0xd9, 0x0e, 0x9a, 0x95, 'P',
	'T',  0x01, 0xbe, 0x88, '^',  'P',  0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3,
};
static const struct soft_flow SCAPY_SEND_FLOW = {
	.source = { [10] = 0xff, 0xff, 192, 168, 0, 7 },
	.target = { [10] = 0xff, 0xff, 192, 168, 0, 7 },
	.source_port = 49152,
	.target_port = 4791,
};
#define SCAPY_SEND_ID 1144

/* The same file, "RoCE CNP captured on ConnectX-4 Lx". */
static const uint8_t SCAPY_CNP[32] = {
	0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, [28] = 0x82, 0xfd, 0x00, 0x2a,
};
static const struct soft_flow SCAPY_CNP_FLOW = {
	.source = { [10] = 0xff, 0xff, 10, 0, 17, 1 },
	.target = { [10] = 0xff, 0xff, 10, 0, 18, 1 },
	.source_port = 0,
	.target_port = 4791,
};
#define SCAPY_CNP_ID 0x718c

static uint32_t stored_icrc(const uint8_t *bytes, size_t length)
{
	uint32_t icrc = 0;

	for (int i = 0; i < 4; i++)
		icrc |= (uint32_t)bytes[length - 4 + (size_t)i] << 8 * i;
	return icrc;
}

static void icrc_reproduces_public_captures(void)
{
	CHECK_EQUAL(soft_icrc(&SCAPY_SEND_FLOW, SCAPY_SEND_ID, SCAPY_SEND, sizeof(SCAPY_SEND)),
		    stored_icrc(SCAPY_SEND, sizeof(SCAPY_SEND)));
	CHECK_EQUAL(soft_icrc(&SCAPY_CNP_FLOW, SCAPY_CNP_ID, SCAPY_CNP, sizeof(SCAPY_CNP)),
		    stored_icrc(SCAPY_CNP, sizeof(SCAPY_CNP)));
}

static void icrc_holds_without_knowing_the_identification(void)
{
	CHECK(soft_icrc_holds(&SCAPY_SEND_FLOW, 0, SCAPY_SEND, sizeof(SCAPY_SEND)));
	CHECK(soft_icrc_holds(&SCAPY_CNP_FLOW, 0, SCAPY_CNP, sizeof(SCAPY_CNP)));
}

static void icrc_finds_every_flipped_bit(void)
{
	for (size_t bit = 0; bit < sizeof(SCAPY_SEND) * 8; bit++) {
		uint8_t bytes[sizeof(SCAPY_SEND)];

		if (bit / 8 == 4)
			continue; /* masked: FECN, BECN */
		memcpy(bytes, SCAPY_SEND, sizeof(bytes));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK(!soft_icrc_holds(&SCAPY_SEND_FLOW, 0, bytes, sizeof(bytes)));
	}
}

/* Every opcode that we speak, with a payload where it has one, as bytes; returns their length. */
static size_t build(uint8_t opcode, uint32_t payload, uint8_t *out)
{
	const struct soft_packet packet = {
		.opcode = opcode,
		.ack_request = true,
		.qpn = 0xabcdef,
		.psn = 0x123456,
		.va = UINT64_C(0x0102030405060708),
		.rkey = 0xdeadbeef,
		.dma_length = 77,
		.imm = 0xc0ffee,
		.syndrome = SOFT_SYNDROME_ACCESS,
		.msn = 0x654321,
		.length = soft_traits(opcode) & SOFT_HAS_PAYLOAD ? payload : 0,
	};
	uint32_t head = soft_packet_head(&packet, out);
	uint32_t rest = packet.length + soft_packet_pad(&packet) + SOFT_ICRC_BYTES;

	memset(out + head, 0x5a, rest);
	return head + rest;
}

static void what_is_built_is_parsed(void)
{
	for (uint8_t opcode = 0; opcode < SOFT_OPCODES; opcode++) {
		for (uint32_t payload = 0; payload < 9; payload++) {
			uint32_t traits = soft_traits(opcode);
			uint8_t bytes[64];
			size_t length = build(opcode, payload, bytes);
			struct soft_packet got;

			CHECK_EQUAL(soft_packet_parse(bytes, length, &got), 0);
			CHECK_EQUAL(got.opcode, opcode);
			CHECK_EQUAL(got.ack_request, true);
			CHECK_EQUAL(got.qpn, 0xabcdef);
			CHECK_EQUAL(got.psn, 0x123456);
			CHECK_EQUAL(got.va, traits & SOFT_HAS_RETH ? 0x0102030405060708 : 0);
			CHECK_EQUAL(got.rkey, traits & SOFT_HAS_RETH ? 0xdeadbeef : 0);
			CHECK_EQUAL(got.dma_length, traits & SOFT_HAS_RETH ? 77 : 0);
			CHECK_EQUAL(got.imm, traits & SOFT_HAS_IMM ? 0xc0ffee : 0);
			CHECK_EQUAL(got.msn, traits & SOFT_HAS_AETH ? 0x654321 : 0);
			CHECK_EQUAL(got.length, traits & SOFT_HAS_PAYLOAD ? payload : 0);
		}
	}
}

/* A WRITE ONLY WITH IMM byte by byte, from IBTA volume 1, 9.2 and 9.3. */
static void headers_stand_where_the_specification_puts_them(void)
{
	static const uint8_t EXPECTED[] = {
		0x0b, 0x70, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, 0x80, 0x12, 0x34,
		0x56, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xde, 0xad,
		0xbe, 0xef, 0x00, 0x00, 0x00, 0x4d, 0x00, 0xc0, 0xff, 0xee,
	};
	uint8_t bytes[64];

	CHECK_EQUAL(build(SOFT_WRITE_ONLY_IMM, 1, bytes), sizeof(EXPECTED) + 8);
	CHECK_EQUAL(memcmp(bytes, EXPECTED, sizeof(EXPECTED)), 0);
}

static void a_cut_packet_is_refused(void)
{
	for (uint8_t opcode = 0; opcode < SOFT_OPCODES; opcode++) {
		uint8_t bytes[64];
		size_t whole = build(opcode, 0, bytes);

		for (size_t length = 0; length < whole; length++) {
			uint8_t *exact = malloc(length + 1); /* so that ASan sees a read beyond */
			struct soft_packet got;

			memcpy(exact, bytes, length);
			CHECK_EQUAL(soft_packet_parse(exact, length, &got), -EBADMSG);
			free(exact);
		}
	}
}

static void what_no_packet_has_is_refused(void)
{
	uint8_t bytes[64];
	size_t length = build(SOFT_WRITE_MIDDLE, 4, bytes);
	struct soft_packet got;

	bytes[0] = 0x12;
	CHECK_EQUAL(soft_packet_parse(bytes, length, &got), -EBADMSG); /* ATOMIC ACK */
	bytes[0] = SOFT_WRITE_MIDDLE;
	bytes[1] = 0x41;
	CHECK_EQUAL(soft_packet_parse(bytes, length, &got), -EBADMSG); /* transport version 1 */
	bytes[1] = 0x40;
	CHECK_EQUAL(soft_packet_parse(bytes, length + 1, &got), -EBADMSG); /* no multiple of 4 */
	length = build(SOFT_ACK, 0, bytes);
	CHECK_EQUAL(soft_packet_parse(bytes, length + 4, &got), -EBADMSG); /* bytes behind an ACK */
}

int main(void)
{
	RUN(crc_has_the_published_check_value);
	RUN(crc_is_its_definition_at_every_length);
	RUN(unshift_undoes_zero_bytes);
	RUN(icrc_reproduces_public_captures);
	RUN(icrc_holds_without_knowing_the_identification);
	RUN(icrc_finds_every_flipped_bit);
	RUN(what_is_built_is_parsed);
	RUN(headers_stand_where_the_specification_puts_them);
	RUN(a_cut_packet_is_refused);
	RUN(what_no_packet_has_is_refused);
	return 0;
}
