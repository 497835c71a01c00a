/*
 * soft_local_ask.c - the send queue of a lane whose peer is on this host.
 *
 * Requests follow each other without waiting, but for a WRITE behind a READ: the READ's bytes are
 * still to be fetched, and must not be newer than they seem. `done` of the requester counts
 * what has wholly ended; READs that were granted come next.
 */
#include <errno.h>

#include "soft.h"

static bool is_read(const struct soft_wqe *wqe)
{
	return wqe->segment.opcode == DP_OP_READ;
}

/*
 * soft_local_answer - the oldest request in flight ended as @answer says.
 *
 * False where the peer breaks the rules: nothing is in flight, or not yet wholly.
 */
bool soft_local_answer(struct dp_lane *lane, const struct soft_order *answer)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_requester *requester = &qp->requester;
	uint32_t oldest = requester->done + qp->link.granted_reads;
	bool begun = oldest != qp->link.sent;

	if (!begun && !qp->link.described)
		return false;
	switch (answer->what) {
	case IBV_WC_SUCCESS:
		if (!begun)
			return false;
		if (is_read(soft_wqe_at(requester, oldest)))
			qp->link.granted_reads++;
		else
			requester->done++;
		break;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
		soft_lane_fail(lane, answer->what);
		break;
	default:
		return false;
	}
	return true;
}

/* The next piece of the READ that was granted. */
static enum soft_step fetch(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_link *link = &qp->link;
	const struct dp_segment *segment =
		&soft_wqe_at(&qp->requester, qp->requester.done)->segment;
	ssize_t got = 0;

	if (link->fetched < segment->length)
		got = soft_copy_fetch(lane, SOFT_STREAM_ANSWER,
				      lane->memory + segment->offset + link->fetched,
				      segment->remote_addr + link->fetched,
				      segment->length - link->fetched);
	if (!soft_link_works(lane))
		return SOFT_STEP_WAIT;
	if (got < 0) {
		if (got == -EPROTO || got == -ESRCH)
			soft_link_lose(lane);
		else
			soft_lane_fail(lane, IBV_WC_REM_OP_ERR);
		return SOFT_STEP_WAIT;
	}
	link->fetched += (uint64_t)got;
	if (link->fetched < segment->length)
		return got ? SOFT_STEP_MORE : SOFT_STEP_WAIT;
	if (soft_link_gone(link->fd)) {
		soft_link_lose(lane);
		return SOFT_STEP_WAIT;
	}
	link->granted_reads--;
	link->fetched = 0;
	qp->requester.done++;
	return SOFT_STEP_DONE;
}

static bool describe(struct dp_lane *lane, const struct dp_segment *segment)
{
	struct soft_link *link = &soft_qp_of(lane)->link;
	const struct soft_order request = {
		.kind = SOFT_REQUEST,
		.what = segment->opcode,
		.length = segment->length,
		.rkey = segment->rkey,
		.imm = segment->imm,
		.remote = segment->remote_addr,
		.source = (uintptr_t)lane->memory + segment->offset,
	};

	link->described = soft_message_send(link->fd, &request, sizeof(request), -1) == 0;
	if (!link->described)
		soft_link_lose(lane);
	return link->described;
}

/* The next work request out, and through the ring its bytes. */
static enum soft_step ask(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_link *link = &qp->link;
	struct soft_requester *requester = &qp->requester;
	const struct soft_wqe *wqe = soft_wqe_at(requester, link->sent);
	const struct dp_segment *segment = &wqe->segment;
	enum soft_step step = SOFT_STEP_DONE;

	/* Behind a READ in flight there are only READs. */
	if (requester->done != link->sent && !is_read(wqe) &&
	    is_read(soft_wqe_at(requester, link->sent - 1)))
		return SOFT_STEP_WAIT;
	if (!link->described && !describe(lane, segment))
		return SOFT_STEP_WAIT;
	if (!link->direct && !is_read(wqe))
		step = soft_copy_push(lane, SOFT_STREAM_REQUEST, lane->memory + segment->offset,
				      segment->length, &link->pushed);
	if (step == SOFT_STEP_DONE && soft_link_works(lane)) {
		link->sent++;
		link->pushed = 0;
		link->described = false;
	}
	return step;
}

/*
 * soft_local_ask - READ data in, requests out; of what is long a piece.
 *
 * Returns whether more could go at once.
 */
bool soft_local_ask(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);
	enum soft_step step = SOFT_STEP_DONE;
	bool more;

	while (step == SOFT_STEP_DONE && soft_link_works(lane) && qp->link.granted_reads)
		step = fetch(lane);
	more = step == SOFT_STEP_MORE;
	step = SOFT_STEP_DONE;
	while (step == SOFT_STEP_DONE && soft_link_works(lane) &&
	       qp->link.sent != qp->requester.posted)
		step = ask(lane);
	return more || step == SOFT_STEP_MORE;
}
