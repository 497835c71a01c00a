/*
 * soft_requester.c - the send queue of a soft lane: IBTA volume 1, 9.7.5.1 and 9.7.8.
 *
 * Go-back-N over one line of sequence numbers. WRITEs stream within the window; a READ is a
 * barrier (max_rd_atomic = 1) and is asked for in pieces of a window, so that the answers, which
 * nobody can hold up, do not overrun the socket.
 */
#include <string.h>

#include "soft.h"

#define SEQUENCE_BASE (UINT64_C(1) << 32) /* so that duplicates lie above zero */
#define ACK_EVERY 16 /* packets; also when the window is full and at a message's end */
#define WINDOW_START 16u

/* 9.7.5.2.8, "Encoding for RNR NAK timer field", in units of 10 us. */
static const uint32_t RNR_10US[32] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/*
 * soft_requester_start - nothing is posted yet.
 *
 * @window_max: packets, the most in flight; @psn: of the first.
 */
void soft_requester_start(struct soft_requester *requester, uint32_t psn, uint32_t window_max)
{
	uint64_t first = SEQUENCE_BASE + psn;

	memset(requester, 0, sizeof(*requester));
	requester->una = requester->nxt = requester->sent = requester->end = first;
	requester->window = WINDOW_START;
	requester->window_max = requester->threshold = window_max;
	requester->retry_at_ns = requester->probe_at_ns = SOFT_NEVER;
}

/* soft_requester_post - take @segment and give it its PSNs. The caller saw that there is room. */
void soft_requester_post(struct soft_requester *requester, const struct dp_segment *segment,
			 uint32_t mtu)
{
	struct soft_wqe *wqe = soft_wqe_at(requester, requester->posted++);
	uint32_t packets = (uint32_t)(((uint64_t)segment->length + mtu - 1) / mtu);

	*wqe = (struct soft_wqe){
		.segment = *segment,
		.first = requester->end,
		.packets = packets ? packets : 1,
	};
	requester->end += wqe->packets;
}

/* The entry that owns @sequence, which is below end. */
static struct soft_wqe *wqe_of(struct soft_requester *requester, uint64_t sequence)
{
	uint32_t counter = requester->done;

	while (sequence >=
	       soft_wqe_at(requester, counter)->first + soft_wqe_at(requester, counter)->packets)
		counter++;
	return soft_wqe_at(requester, counter);
}

static bool is_read(const struct soft_wqe *wqe)
{
	return wqe->segment.opcode == DP_OP_READ;
}

/* Everything below @sequence is acknowledged. */
static void advance(struct dp_lane *lane, uint64_t sequence, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (sequence <= self->una)
		return;
	soft_recovery_progress(self, sequence, now_ns);
	while (self->done != self->posted) {
		const struct soft_wqe *wqe = soft_wqe_at(self, self->done);

		if (wqe->first + wqe->packets > sequence)
			break;
		self->done++;
	}
}

static void take_nak(struct dp_lane *lane, uint8_t syndrome, uint64_t now_ns)
{
	switch (syndrome) {
	case SOFT_SYNDROME_SEQUENCE:
		soft_recovery_gap(lane, now_ns);
		break;
	case SOFT_SYNDROME_INVALID:
		soft_lane_fail(lane, IBV_WC_REM_INV_REQ_ERR);
		break;
	case SOFT_SYNDROME_ACCESS:
		soft_lane_fail(lane, IBV_WC_REM_ACCESS_ERR);
		break;
	case SOFT_SYNDROME_OPERATION:
		soft_lane_fail(lane, IBV_WC_REM_OP_ERR);
		break;
	default:
		if ((syndrome & 0xe0) != SOFT_SYNDROME_RNR)
			return; /* reserved: 9.7.5.2.1 says to drop it */
		/* rnr_retry 7: for ever. Deadlines above end it. */
		soft_recovery_wait(&soft_qp_of(lane)->requester,
				   now_ns + RNR_10US[syndrome & 0x1f] * UINT64_C(10000));
	}
}

static void take_ack(struct dp_lane *lane, const struct soft_packet *packet, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;
	uint64_t sequence = soft_sequence(self->una, packet->psn);
	bool ack = (packet->syndrome & 0xe0) == 0;

	/* Older than what is known, or of something that was never sent: neither says anything. */
	if (self->una == self->sent || sequence >= self->sent || sequence + ack < self->una)
		return;
	/* Only its data completes a READ, and nothing is outstanding behind one. */
	if (!is_read(wqe_of(self, self->una)))
		advance(lane, sequence + ack, now_ns);
	if (!ack && self->una == sequence)
		take_nak(lane, packet->syndrome, now_ns);
}

/* One packet of a READ's answer: the expected one into the lane's memory. */
static void take_data(struct dp_lane *lane, const struct soft_packet *packet, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;
	uint32_t mtu = soft_nic_of(lane)->mtu;
	uint64_t sequence = soft_sequence(self->una, packet->psn);
	const struct soft_wqe *wqe;
	uint64_t offset;
	uint32_t length;

	if (sequence < self->una || sequence >= self->sent)
		return;
	wqe = wqe_of(self, self->una);
	if (!is_read(wqe))
		return;
	if (sequence > self->una) {
		soft_recovery_reread(lane, now_ns);
		return;
	}
	offset = (sequence - wqe->first) * mtu;
	length = wqe->segment.length - offset < mtu ? (uint32_t)(wqe->segment.length - offset)
						    : mtu;
	if (packet->length != length) {
		soft_lane_fail(lane, IBV_WC_BAD_RESP_ERR);
		return;
	}
	memcpy(lane->memory + wqe->segment.offset + offset, packet->payload, length);
	advance(lane, sequence + 1, now_ns);
}

/* soft_requester_answer - an ACK, a NAK or a READ response came from the peer. */
void soft_requester_answer(struct dp_lane *lane, const struct soft_packet *packet, uint64_t now_ns)
{
	if (soft_qp_of(lane)->state != IBV_QPS_RTS)
		return;
	if (packet->opcode == SOFT_ACK)
		take_ack(lane, packet, now_ns);
	else
		take_data(lane, packet, now_ns);
}

static uint8_t write_opcode(bool first, bool last, bool immediate)
{
	if (first && last)
		return immediate ? SOFT_WRITE_ONLY_IMM : SOFT_WRITE_ONLY;
	if (last)
		return immediate ? SOFT_WRITE_LAST_IMM : SOFT_WRITE_LAST;
	return first ? SOFT_WRITE_FIRST : SOFT_WRITE_MIDDLE;
}

static void send_write(struct dp_lane *lane, const struct soft_wqe *wqe)
{
	struct soft_nic *nic = soft_nic_of(lane);
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_requester *self = &qp->requester;
	uint64_t index = self->nxt - wqe->first;
	uint64_t offset = index * nic->mtu;
	uint32_t left = wqe->segment.length - (uint32_t)offset;
	bool last = index + 1 == wqe->packets;
	const struct soft_packet packet = {
		.opcode = write_opcode(index == 0, last, wqe->segment.opcode == DP_OP_WRITE_IMM),
		.ack_request = last || (index + 1) % ACK_EVERY == 0 ||
			       self->nxt + 1 - self->una >= self->window,
		.qpn = qp->peer_qpn,
		.psn = (uint32_t)self->nxt & SOFT_PSN_MASK,
		.va = wqe->segment.remote_addr,
		.rkey = wqe->segment.rkey,
		.dma_length = wqe->segment.length,
		.imm = wqe->segment.imm,
		.payload = lane->memory + wqe->segment.offset + offset,
		.length = left < nic->mtu ? left : nic->mtu,
	};

	soft_socket_add(nic, qp, &packet);
	self->nxt++;
}

static void send_read(struct dp_lane *lane, const struct soft_wqe *wqe)
{
	struct soft_nic *nic = soft_nic_of(lane);
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_requester *self = &qp->requester;
	uint64_t offset = (self->nxt - wqe->first) * nic->mtu;
	/* What was asked for before is asked for again to the same end: to the peer a READ is
	 * either new or a repetition, never half of each. */
	uint64_t packets =
		self->nxt < self->sent
			? self->sent - self->nxt
			: soft_earlier(self->window, wqe->first + wqe->packets - self->nxt);
	uint64_t left = wqe->segment.length - offset;
	const struct soft_packet packet = {
		.opcode = SOFT_READ_REQUEST,
		.ack_request = true,
		.qpn = qp->peer_qpn,
		.psn = (uint32_t)self->nxt & SOFT_PSN_MASK,
		.va = wqe->segment.remote_addr + offset,
		.rkey = wqe->segment.rkey,
		.dma_length = (uint32_t)soft_earlier(left, packets * nic->mtu),
	};

	soft_socket_add(nic, qp, &packet);
	self->nxt += packets;
}

/*
 * soft_requester_turn - send what the window, the peer and @budget allow.
 *
 * Returns whether more could go at once.
 */
bool soft_requester_turn(struct dp_lane *lane, uint32_t *budget, uint64_t now_ns)
{
	struct soft_requester *self = &soft_qp_of(lane)->requester;

	if (!soft_recovery_turn(lane, now_ns))
		return false;
	while (self->nxt < self->end) {
		const struct soft_wqe *wqe = wqe_of(self, self->nxt);
		bool waiting = self->una < self->nxt;

		if (waiting && (is_read(wqe) || is_read(wqe_of(self, self->una)) ||
				self->nxt - self->una >= self->window))
			return false;
		if (*budget == 0)
			return true;
		--*budget;
		if (is_read(wqe))
			send_read(lane, wqe);
		else
			send_write(lane, wqe);
		soft_recovery_sent(self, now_ns);
	}
	return false;
}

/* soft_requester_deadline - when it has to be looked at though nothing came. */
uint64_t soft_requester_deadline(const struct soft_requester *requester)
{
	uint64_t timer_ns = requester->una < requester->sent
				    ? soft_earlier(requester->retry_at_ns, requester->probe_at_ns)
				    : SOFT_NEVER;

	if (requester->nxt < requester->end && requester->wait_until_ns)
		return soft_earlier(requester->wait_until_ns, timer_ns);
	return timer_ns;
}
