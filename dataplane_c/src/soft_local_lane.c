/* soft_local_lane.c - a lane's turn where no packets go: messages in, then both of its roles. */
#include <errno.h>
#include <unistd.h>

#include "soft.h"

#define MESSAGES_PER_TURN 32
/* For the peer to come and pair, once there is work. An honest one needs a thousandth of it. */
#define PAIRING_NS (UINT64_C(500) * 1000000)

/* A slot of the peer's ring is full. False where it can't be. */
static bool take_piece(struct soft_link *link, const struct soft_order *piece)
{
	struct soft_stream *stream;

	if (link->direct || piece->what >= SOFT_STREAMS || piece->length == 0 ||
	    piece->length > SOFT_SLOT_BYTES)
		return false;
	stream = &link->in[piece->what];
	if (stream->sent - stream->taken == SOFT_RING_SLOTS)
		return false;
	stream->lengths[stream->sent++ % SOFT_RING_SLOTS] = piece->length;
	return true;
}

/* A slot of our ring is free again. False where none was full. */
static bool take_slot(struct soft_link *link, const struct soft_order *taken)
{
	struct soft_stream *stream;

	if (taken->what >= SOFT_STREAMS)
		return false;
	stream = &link->out[taken->what];
	if (stream->taken == stream->sent)
		return false;
	stream->taken++;
	return true;
}

static bool take_request(struct soft_link *link, const struct soft_order *request)
{
	if (request->what > DP_OP_READ || link->asked - link->answered == DP_WRS_MAX)
		return false;
	link->requests[link->asked++ % DP_WRS_MAX] = *request;
	return true;
}

/* One message of a peer that may be anything; false where it breaks the rules. */
static bool take_order(struct dp_lane *lane, const struct soft_order *order)
{
	struct soft_link *link = &soft_qp_of(lane)->link;

	switch (order->kind) {
	case SOFT_REQUEST:
		return take_request(link, order);
	case SOFT_ANSWER:
		return soft_local_answer(lane, order);
	case SOFT_PIECE:
		return take_piece(link, order);
	case SOFT_TAKEN:
		return take_slot(link, order);
	default:
		return false;
	}
}

union message {
	struct soft_greeting greeting;
	struct soft_order order;
};

static void take_message(struct dp_lane *lane, const union message *message, ssize_t length,
			 int passed)
{
	bool up = soft_qp_of(lane)->link.state == SOFT_LINK_UP;

	if (!up && length == (ssize_t)sizeof(message->greeting)) {
		soft_link_greet(lane, &message->greeting, passed);
		return;
	}
	if (passed >= 0)
		close(passed);
	if (!up)
		soft_link_give_up(lane);
	else if (length != (ssize_t)sizeof(message->order) || !take_order(lane, &message->order))
		soft_link_lose(lane);
}

/* soft_link_receive - what the peer said since; whether there may be more. */
bool soft_link_receive(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);

	for (int i = 0; i < MESSAGES_PER_TURN; i++) {
		union message message;
		ssize_t length;
		int passed;

		if (qp->state != IBV_QPS_RTS || qp->link.fd < 0)
			return false;
		length = soft_message_receive(qp->link.fd, &message, sizeof(message), &passed);
		if (length == -EAGAIN)
			return false;
		take_message(lane, &message, length, passed);
	}
	return true;
}

/* There is work and no carrier yet: wait, but not for ever. */
static void wait_for_peer(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_qp *qp = soft_qp_of(lane);

	if (qp->requester.done == qp->requester.posted)
		return;
	if (qp->link.deadline_ns == SOFT_NEVER)
		qp->link.deadline_ns = now_ns + PAIRING_NS;
	else if (now_ns >= qp->link.deadline_ns)
		soft_link_give_up(lane);
}

/* soft_local_turn - messages, a piece each way, new requests; whether more could go at once. */
bool soft_local_turn(struct dp_lane *lane, uint64_t now_ns)
{
	struct soft_qp *qp = soft_qp_of(lane);
	bool more = soft_link_receive(lane);

	if (qp->state != IBV_QPS_RTS)
		return false;
	switch (qp->link.state) {
	case SOFT_LINK_UP:
		more |= soft_local_serve(lane);
		more |= soft_local_ask(lane);
		break;
	case SOFT_LINK_DOWN:
		if (qp->requester.done != qp->requester.posted)
			soft_lane_fail(lane, IBV_WC_RETRY_EXC_ERR);
		break;
	default:
		wait_for_peer(lane, now_ns);
		more |= qp->carrier == SOFT_CARRIER_UDP;
	}
	return more;
}
