/*
 * soft_responder.c - requests of the peer: IBTA volume 1, 9.7.4 (order), 9.7.5.2 (answers).
 *
 * A lane has a protection domain of its own with one memory region in it, so the only rkey that
 * a packet to its QP may name is the lane's. What a request asks is checked before the first
 * byte is written, and each later packet against what its first one was granted.
 */
#include <string.h>

#include "soft.h"

#define MIN_RNR_TIMER 12 /* qp.c */
#define SEQUENCE_BASE (UINT64_C(1) << 32)

void soft_responder_start(struct soft_responder *responder, uint32_t psn)
{
	enum soft_receive receive = responder->receive;
	struct dp_completion received = responder->received;
	uint32_t receive_length = responder->receive_length;

	/* A receive may have been posted in INIT. */
	memset(responder, 0, sizeof(*responder));
	responder->expected = SEQUENCE_BASE + psn;
	responder->receive = receive;
	responder->received = received;
	responder->receive_length = receive_length;
}

/* Answer with @syndrome, once, and take nothing more before what was expected comes. */
static void refuse(struct soft_responder *self, uint8_t syndrome)
{
	self->nak = self->refused = syndrome;
}

/* soft_responder_reject - a request that breaks the rules ends the connection (9.9.3, class C). */
void soft_responder_reject(struct dp_lane *lane, uint8_t syndrome)
{
	refuse(&soft_qp_of(lane)->responder, syndrome);
	soft_lane_fail(lane, IBV_WC_WR_FLUSH_ERR);
}

static uint8_t *grant(struct dp_lane *lane, const struct soft_packet *packet, uint32_t access)
{
	return soft_lane_grant(lane, access, packet->rkey, packet->va, packet->dma_length);
}

static uint32_t packets_of(uint32_t length, uint32_t mtu)
{
	return length ? (length - 1) / mtu + 1 : 1;
}

/* A READ request, new or a repeated one; false where it was rejected. */
static bool begin_read(struct dp_lane *lane, const struct soft_packet *packet, uint64_t sequence)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;
	const uint8_t *from = grant(lane, packet, DP_ACCESS_REMOTE_READ);
	uint32_t packets = packets_of(packet->dma_length, soft_nic_of(lane)->mtu);

	if (!soft_lane_admits(lane, DP_ACCESS_REMOTE_READ, packet->dma_length)) {
		soft_responder_reject(lane, SOFT_SYNDROME_INVALID);
		return false;
	}
	if (!from && packet->dma_length) {
		soft_responder_reject(lane, SOFT_SYNDROME_ACCESS);
		return false;
	}
	self->reading = true;
	self->read_first = self->read_next = sequence;
	self->read_end = sequence + packets;
	self->read_from = from;
	self->read_length = packet->dma_length;
	return true;
}

/* What the first packet of a WRITE or SEND asks for; a syndrome, or 0. */
static uint8_t begin_message(struct dp_lane *lane, const struct soft_packet *packet)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;
	uint32_t traits = soft_traits(packet->opcode);

	self->arrived = 0;
	if (traits & SOFT_IS_SEND) {
		self->cursor = lane->memory;
		self->remaining = self->receive_length;
		return 0;
	}
	self->cursor = grant(lane, packet, DP_ACCESS_REMOTE_WRITE);
	self->remaining = packet->dma_length;
	return self->cursor || !packet->dma_length ? 0 : SOFT_SYNDROME_ACCESS;
}

/* Whether the packet's length is what its opcode and its message admit (9.7.4.1.6). */
static bool length_fits(const struct dp_lane *lane, const struct soft_packet *packet)
{
	const struct soft_responder *self = &soft_qp_of(lane)->responder;
	uint32_t traits = soft_traits(packet->opcode);
	uint32_t mtu = soft_nic_of(lane)->mtu;

	if (packet->length > self->remaining || packet->length > mtu)
		return false;
	if (!(traits & SOFT_ENDS))
		return packet->length == mtu;
	if (!(traits & SOFT_BEGINS) && packet->length == 0)
		return false;
	return traits & SOFT_IS_SEND || packet->length == self->remaining;
}

/* Complete the receive that this message consumes. */
static void consume(struct dp_lane *lane, const struct soft_packet *packet)
{
	const struct soft_responder *self = &soft_qp_of(lane)->responder;
	uint32_t traits = soft_traits(packet->opcode);

	soft_lane_consume(lane, (uint32_t)self->arrived, packet->imm,
			  traits & SOFT_IS_WRITE && traits & SOFT_HAS_IMM);
}

/* A SEND that is longer than its receive: both sides hear of it (9.9.3.1). */
static void reject_length(struct dp_lane *lane, uint32_t traits)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;

	if (traits & SOFT_IS_SEND && self->receive == SOFT_RECEIVE_POSTED) {
		self->receive = SOFT_RECEIVE_DONE;
		self->received.status = IBV_WC_LOC_LEN_ERR;
	}
	soft_responder_reject(lane, SOFT_SYNDROME_INVALID);
}

/* Whether the packet goes on with its message, or begins one that the QP takes (9.7.4.1). */
static bool is_valid(const struct dp_lane *lane, const struct soft_packet *packet)
{
	uint32_t traits = soft_traits(packet->opcode);
	uint32_t message = soft_qp_of(lane)->responder.message;

	if (!(traits & SOFT_BEGINS))
		return message == (traits & (SOFT_IS_SEND | SOFT_IS_WRITE));
	return !message && (traits & SOFT_IS_SEND ||
			    soft_lane_admits(lane, DP_ACCESS_REMOTE_WRITE, packet->dma_length));
}

/* The expected packet of a WRITE or SEND; true where it was executed. */
static bool execute(struct dp_lane *lane, const struct soft_packet *packet)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;
	uint32_t traits = soft_traits(packet->opcode);
	uint32_t kind = traits & (SOFT_IS_SEND | SOFT_IS_WRITE);
	bool consumes = kind == SOFT_IS_SEND || traits & SOFT_HAS_IMM;
	uint8_t syndrome;

	if (!is_valid(lane, packet)) {
		soft_responder_reject(lane, SOFT_SYNDROME_INVALID);
		return false;
	}
	if (consumes && self->receive != SOFT_RECEIVE_POSTED) {
		refuse(self, SOFT_SYNDROME_RNR | MIN_RNR_TIMER);
		return false;
	}
	syndrome = traits & SOFT_BEGINS ? begin_message(lane, packet) : 0;
	if (syndrome) {
		soft_responder_reject(lane, syndrome);
		return false;
	}
	if (!length_fits(lane, packet)) {
		reject_length(lane, traits);
		return false;
	}
	if (packet->length) {
		memcpy(self->cursor, packet->payload, packet->length);
		self->cursor += packet->length;
	}
	self->remaining -= packet->length;
	self->arrived += packet->length;
	self->message = traits & SOFT_ENDS ? 0 : kind;
	if (traits & SOFT_ENDS) {
		self->msn++;
		if (consumes)
			consume(lane, packet);
	}
	return true;
}

/* A packet that was executed before: say so again, or answer the READ again. */
static void repeat(struct dp_lane *lane, const struct soft_packet *packet, uint64_t sequence)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;

	if (packet->opcode != SOFT_READ_REQUEST)
		self->ack_due = true;
	else if (sequence + packets_of(packet->dma_length, soft_nic_of(lane)->mtu) <=
		 self->expected)
		(void)begin_read(lane, packet, sequence);
}

/*
 * A packet ahead of the expected one: a NAK, once a gap. Where they run backwards the peer has
 * gone back already and what was missing is lost again: that is a new gap.
 */
static void take_ahead(struct soft_responder *self, uint64_t sequence)
{
	bool again = self->refused == SOFT_SYNDROME_SEQUENCE && sequence < self->newest;

	if (!self->refused || again)
		refuse(self, SOFT_SYNDROME_SEQUENCE);
	self->newest = sequence;
	self->pressed = true;
}

/* soft_responder_request - one request packet came from the peer. */
void soft_responder_request(struct dp_lane *lane, const struct soft_packet *packet)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_responder *self = &qp->responder;
	uint64_t sequence = soft_sequence(self->expected, packet->psn);

	if (qp->state != IBV_QPS_RTS)
		return;
	if (sequence > self->expected) {
		take_ahead(self, sequence);
		return;
	}
	if (sequence < self->expected) {
		repeat(lane, packet, sequence);
		return;
	}
	if (packet->opcode == SOFT_READ_REQUEST) {
		if (self->message) {
			soft_responder_reject(lane, SOFT_SYNDROME_INVALID);
			return;
		}
		if (!begin_read(lane, packet, sequence))
			return;
		self->msn++;
		self->expected = self->read_end;
	} else {
		if (!execute(lane, packet))
			return;
		self->expected++;
		self->ack_due |= packet->ack_request;
	}
	self->refused = self->nak = 0;
}

static uint8_t response_opcode(bool first, bool last)
{
	if (first)
		return last ? SOFT_READ_ONLY : SOFT_READ_FIRST;
	return last ? SOFT_READ_LAST : SOFT_READ_MIDDLE;
}

static void send_response(struct dp_lane *lane)
{
	struct soft_nic *nic = soft_nic_of(lane);
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_responder *self = &qp->responder;
	uint32_t offset = (uint32_t)(self->read_next - self->read_first) * nic->mtu;
	uint32_t left = self->read_length - offset;
	const struct soft_packet packet = {
		.opcode = response_opcode(self->read_next == self->read_first,
					  self->read_next + 1 == self->read_end),
		.syndrome = SOFT_SYNDROME_ACK,
		.msn = self->msn,
		.qpn = qp->peer_qpn,
		.psn = (uint32_t)self->read_next & SOFT_PSN_MASK,
		.payload = self->read_from ? self->read_from + offset : NULL,
		.length = left < nic->mtu ? left : nic->mtu,
	};

	soft_socket_add(nic, qp, &packet);
	self->read_next++;
	self->reading = self->read_next < self->read_end;
}

static void send_ack(struct dp_lane *lane, uint8_t syndrome, uint64_t sequence)
{
	struct soft_qp *qp = soft_qp_of(lane);
	const struct soft_packet packet = {
		.opcode = SOFT_ACK,
		.syndrome = syndrome,
		.msn = qp->responder.msn,
		.qpn = qp->peer_qpn,
		.psn = (uint32_t)sequence & SOFT_PSN_MASK,
	};

	soft_socket_add(soft_nic_of(lane), qp, &packet);
}

/*
 * Whether a NAK had better wait: behind the gap the socket is still full of what will be dropped,
 * and what the peer sends again would find no room. It ends with what the peer has in flight.
 */
static bool is_swamped(struct dp_lane *lane)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;
	bool swamped = self->nak == SOFT_SYNDROME_SEQUENCE && self->pressed &&
		       soft_nic_of(lane)->backlog;

	self->pressed = false;
	return swamped;
}

/*
 * soft_responder_turn - READ data, then the one ACK or NAK for all that came since the last turn.
 *
 * In ERR only the NAK that led there goes out. Returns whether more could go at once.
 */
bool soft_responder_turn(struct dp_lane *lane, uint32_t *budget)
{
	struct soft_responder *self = &soft_qp_of(lane)->responder;

	while (self->reading) {
		if (*budget == 0)
			return true;
		--*budget;
		send_response(lane);
	}
	if (is_swamped(lane))
		return true;
	if (self->nak)
		send_ack(lane, self->nak, self->expected);
	else if (self->ack_due)
		send_ack(lane, SOFT_SYNDROME_ACK, self->expected - 1);
	self->nak = 0;
	self->ack_due = false;
	return false;
}
