/* soft_packet.c - the codec of RoCE v2 packets, and their invariant CRC. */
#include <errno.h>
#include <string.h>

#include "soft_crc.h"
#include "soft_packet.h"

#define RETH_BYTES 16u
#define IMM_BYTES 4u
#define AETH_BYTES 4u
#define UDP_BYTES 8u
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define IPV4_AFTER_ID 14u /* bytes of the IPv4 header behind its identification */
#define MASKED_LRH_BYTES 8u
#define PKEY_DEFAULT 0xffffu
#define PROTOCOL_UDP 17
#define IPV4_DF 0x40 /* first byte of the fragment field */

#define WRITE (SOFT_IS_WRITE | SOFT_HAS_PAYLOAD)
#define SEND (SOFT_IS_SEND | SOFT_HAS_PAYLOAD)
#define RESPONSE (SOFT_IS_RESPONSE | SOFT_HAS_PAYLOAD)

static const uint32_t TRAITS[SOFT_OPCODES] = {
	[SOFT_SEND_FIRST] = SEND | SOFT_BEGINS,
	[SOFT_SEND_MIDDLE] = SEND,
	[SOFT_SEND_LAST] = SEND | SOFT_ENDS,
	[SOFT_SEND_LAST_IMM] = SEND | SOFT_ENDS | SOFT_HAS_IMM,
	[SOFT_SEND_ONLY] = SEND | SOFT_BEGINS | SOFT_ENDS,
	[SOFT_SEND_ONLY_IMM] = SEND | SOFT_BEGINS | SOFT_ENDS | SOFT_HAS_IMM,
	[SOFT_WRITE_FIRST] = WRITE | SOFT_BEGINS | SOFT_HAS_RETH,
	[SOFT_WRITE_MIDDLE] = WRITE,
	[SOFT_WRITE_LAST] = WRITE | SOFT_ENDS,
	[SOFT_WRITE_LAST_IMM] = WRITE | SOFT_ENDS | SOFT_HAS_IMM,
	[SOFT_WRITE_ONLY] = WRITE | SOFT_BEGINS | SOFT_ENDS | SOFT_HAS_RETH,
	[SOFT_WRITE_ONLY_IMM] = WRITE | SOFT_BEGINS | SOFT_ENDS | SOFT_HAS_RETH | SOFT_HAS_IMM,
	[SOFT_READ_REQUEST] = SOFT_BEGINS | SOFT_ENDS | SOFT_HAS_RETH,
	[SOFT_READ_FIRST] = RESPONSE | SOFT_BEGINS | SOFT_HAS_AETH,
	[SOFT_READ_MIDDLE] = RESPONSE,
	[SOFT_READ_LAST] = RESPONSE | SOFT_ENDS | SOFT_HAS_AETH,
	[SOFT_READ_ONLY] = RESPONSE | SOFT_BEGINS | SOFT_ENDS | SOFT_HAS_AETH,
	[SOFT_ACK] = SOFT_IS_RESPONSE | SOFT_HAS_AETH,
};

/* soft_traits - what @opcode carries; 0 for one that we do not speak. */
uint32_t soft_traits(uint8_t opcode)
{
	return opcode < SOFT_OPCODES ? TRAITS[opcode] : 0;
}

static void put(uint8_t *at, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint64_t get(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static uint32_t head_length(uint32_t traits)
{
	return SOFT_BTH_BYTES + (traits & SOFT_HAS_RETH ? RETH_BYTES : 0) +
	       (traits & SOFT_HAS_AETH ? AETH_BYTES : 0) + (traits & SOFT_HAS_IMM ? IMM_BYTES : 0);
}

/*
 * soft_packet_parse - @bytes, a UDP payload with its ICRC, as a packet; the payload stays there.
 *
 * Returns 0, or -EBADMSG: too short, another transport version, an opcode that we do not speak,
 * bytes behind a header that carries none, or a pad longer than what it pads.
 */
int soft_packet_parse(const uint8_t *bytes, size_t length, struct soft_packet *out)
{
	const uint8_t *at = bytes + SOFT_BTH_BYTES;
	uint32_t traits, pad, rest;

	if (length < SOFT_BTH_BYTES + SOFT_ICRC_BYTES || length > UINT16_MAX)
		return -EBADMSG;
	traits = soft_traits(bytes[0]);
	pad = bytes[1] >> 4 & 3;
	if (!traits || bytes[1] & 0x0f || length < head_length(traits) + SOFT_ICRC_BYTES + pad)
		return -EBADMSG;
	rest = (uint32_t)length - head_length(traits) - SOFT_ICRC_BYTES - pad;
	if ((rest + pad) % 4 || (!(traits & SOFT_HAS_PAYLOAD) && rest + pad))
		return -EBADMSG;
	*out = (struct soft_packet){
		.opcode = bytes[0],
		.qpn = (uint32_t)get(bytes + 5, 3),
		.ack_request = bytes[8] >> 7,
		.psn = (uint32_t)get(bytes + 9, 3),
	};
	if (traits & SOFT_HAS_RETH) {
		out->va = get(at, 8);
		out->rkey = (uint32_t)get(at + 8, 4);
		out->dma_length = (uint32_t)get(at + 12, 4);
		at += RETH_BYTES;
	}
	if (traits & SOFT_HAS_AETH) {
		out->syndrome = at[0];
		out->msn = (uint32_t)get(at + 1, 3);
		at += AETH_BYTES;
	}
	if (traits & SOFT_HAS_IMM) {
		out->imm = (uint32_t)get(at, 4);
		at += IMM_BYTES;
	}
	out->payload = at;
	out->length = rest;
	return 0;
}

/* soft_packet_pad - bytes that make the payload a multiple of four. */
uint32_t soft_packet_pad(const struct soft_packet *packet)
{
	return -packet->length & 3;
}

/* soft_packet_head - the headers into @out, SOFT_HEAD_BYTES of room; returns their length. */
uint32_t soft_packet_head(const struct soft_packet *packet, uint8_t *out)
{
	uint32_t traits = soft_traits(packet->opcode);
	uint8_t *at = out + SOFT_BTH_BYTES;

	out[0] = packet->opcode;
	out[1] = (uint8_t)(0x40 | soft_packet_pad(packet) << 4); /* MigReq as hardware sets it */
	put(out + 2, PKEY_DEFAULT, 2);
	put(out + 4, packet->qpn & SOFT_PSN_MASK, 4);
	put(out + 8, packet->psn & SOFT_PSN_MASK, 4);
	out[8] = packet->ack_request ? 0x80 : 0;
	if (traits & SOFT_HAS_RETH) {
		put(at, packet->va, 8);
		put(at + 8, packet->rkey, 4);
		put(at + 12, packet->dma_length, 4);
		at += RETH_BYTES;
	}
	if (traits & SOFT_HAS_AETH) {
		put(at, packet->msn & SOFT_PSN_MASK, 4);
		at[0] = packet->syndrome;
		at += AETH_BYTES;
	}
	if (traits & SOFT_HAS_IMM) {
		put(at, packet->imm, 4);
		at += IMM_BYTES;
	}
	return (uint32_t)(at - out);
}

/* soft_address_is_ipv4 - whether a GID is an IPv4-mapped address. */
bool soft_address_is_ipv4(const uint8_t *gid)
{
	static const uint8_t MAPPED[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, MAPPED, sizeof(MAPPED)) == 0;
}

/* soft_address_is_loopback - 127.0.0.0/8 or ::1. */
bool soft_address_is_loopback(const uint8_t *gid)
{
	static const uint8_t LOOPBACK[16] = { [15] = 1 };

	return soft_address_is_ipv4(gid) ? gid[12] == 127
					 : memcmp(gid, LOOPBACK, sizeof(LOOPBACK)) == 0;
}

/* The IP header with what routers change set to ones; returns its length. */
static uint32_t mask_ip(const struct soft_flow *flow, uint16_t id, uint32_t udp_bytes, uint8_t *out)
{
	if (!soft_address_is_ipv4(flow->source)) {
		put(out, UINT32_C(0x6fffffff), 4);
		put(out + 4, udp_bytes, 2);
		out[6] = PROTOCOL_UDP;
		out[7] = 0xff;
		memcpy(out + 8, flow->source, 16);
		memcpy(out + 24, flow->target, 16);
		return IPV6_BYTES;
	}
	put(out, UINT32_C(0x45ff) << 16 | (IPV4_BYTES + udp_bytes), 4);
	put(out + 4, id, 2);
	put(out + 6, (uint64_t)IPV4_DF << 8, 2);
	put(out + 8, UINT32_C(0xff000000) | PROTOCOL_UDP << 16 | 0xffff, 4);
	memcpy(out + 12, flow->source + 12, 4);
	memcpy(out + 16, flow->target + 12, 4);
	return IPV4_BYTES;
}

/*
 * soft_icrc_begin - the CRC's register behind the headers (annex A17.3, "ICRC for RoCEv2").
 *
 * @udp_bytes: the UDP length field; @head: from the BTH on, at most SOFT_HEAD_BYTES.
 */
uint32_t soft_icrc_begin(const struct soft_flow *flow, uint16_t id, uint32_t udp_bytes,
			 const uint8_t *head, uint32_t length)
{
	uint8_t masked[MASKED_LRH_BYTES + IPV6_BYTES + UDP_BYTES + SOFT_HEAD_BYTES];
	uint8_t *at = masked + MASKED_LRH_BYTES;

	memset(masked, 0xff, MASKED_LRH_BYTES);
	at += mask_ip(flow, id, udp_bytes, at);
	put(at, flow->source_port, 2);
	put(at + 2, flow->target_port, 2);
	put(at + 4, udp_bytes, 2);
	put(at + 6, 0xffff, 2);
	at += UDP_BYTES;
	memcpy(at, head, length);
	at[4] = 0xff; /* FECN, BECN and reserved bits */
	return dp_crc_update(UINT32_MAX, masked, (size_t)(at - masked) + length);
}

/* soft_icrc - of a whole UDP payload, @length bytes with room for the ICRC at its end. */
uint32_t soft_icrc(const struct soft_flow *flow, uint16_t id, const uint8_t *bytes, size_t length)
{
	uint32_t crc =
		soft_icrc_begin(flow, id, (uint32_t)length + UDP_BYTES, bytes, SOFT_BTH_BYTES);

	return ~dp_crc_update(crc, bytes + SOFT_BTH_BYTES,
			      length - SOFT_BTH_BYTES - SOFT_ICRC_BYTES);
}

/*
 * soft_icrc_holds - whether a received UDP payload is intact.
 *
 * The ICRC covers the IPv4 identification, which a socket does not show and some senders set
 * (Linux's Soft-RoCE; segments of one GSO send). @id is what it most likely is, and costs nothing
 * where it is right. Otherwise: CRCs are linear, so the difference to the CRC for @id is that of
 * the two bytes alone, shifted by all that follows. Shifted back it must fit into 16 bits, or
 * something else than the identification differs.
 */
bool soft_icrc_holds(const struct soft_flow *flow, uint16_t id, const uint8_t *bytes, size_t length)
{
	const uint8_t *stored = bytes + length - SOFT_ICRC_BYTES;
	uint32_t after = IPV4_AFTER_ID + UDP_BYTES + (uint32_t)length - SOFT_ICRC_BYTES;
	uint32_t difference = soft_icrc(flow, id, bytes, length) ^
			      ((uint32_t)stored[0] | (uint32_t)stored[1] << 8 |
			       (uint32_t)stored[2] << 16 | (uint32_t)stored[3] << 24);

	if (difference == 0 || !soft_address_is_ipv4(flow->source))
		return difference == 0;
	return dp_crc_multiply(difference, dp_crc_unshift(after + 2)) <= UINT16_MAX;
}
