/*
 * soft_local_serve.c - requests of a peer on this host, in order: the rules of soft_responder.c,
 * with the message whole instead of in packets.
 *
 * A WRITE's bytes are fetched as they can be; its immediate then waits for a receive, as the last
 * packet of a WRITE would (RNR). A READ is granted; its bytes are fetched by the requester.
 */
#include <errno.h>

#include "soft.h"

/* Tell the peer how its oldest request ended; false where it can't be told any more. */
static bool send_answer(struct dp_lane *lane, uint32_t wc_status)
{
	const struct soft_order answer = { .kind = SOFT_ANSWER, .what = wc_status };

	if (soft_message_send(soft_qp_of(lane)->link.fd, &answer, sizeof(answer), -1) == 0)
		return true;
	soft_link_lose(lane);
	return false;
}

static enum soft_step finish(struct dp_lane *lane)
{
	struct soft_link *link = &soft_qp_of(lane)->link;

	link->served = 0;
	link->granted = false;
	link->answered++;
	return SOFT_STEP_DONE;
}

/* A request that breaks the rules ends the connection (IBTA 9.9.3, class C). */
static enum soft_step reject(struct dp_lane *lane, uint32_t wc_status)
{
	(void)send_answer(lane, wc_status);
	soft_lane_fail(lane, IBV_WC_WR_FLUSH_ERR);
	return SOFT_STEP_WAIT;
}

/* What @request is refused with, or IBV_WC_SUCCESS and where in the lane's memory it goes. */
static enum ibv_wc_status check(const struct dp_lane *lane, const struct soft_order *request,
				uint8_t **out)
{
	uint32_t access = request->what == DP_OP_READ ? DP_ACCESS_REMOTE_READ
						      : DP_ACCESS_REMOTE_WRITE;

	*out = soft_lane_grant(lane, access, request->rkey, request->remote, request->length);
	if (!soft_lane_admits(lane, access, request->length))
		return IBV_WC_REM_INV_REQ_ERR;
	return *out || request->length == 0 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
}

/* A piece of a WRITE could not be had. */
static enum soft_step fail_fetch(struct dp_lane *lane, ssize_t error)
{
	if (error != -EPROTO && error != -ESRCH)
		return reject(lane, IBV_WC_REM_OP_ERR);
	soft_link_lose(lane);
	return SOFT_STEP_WAIT;
}

static enum soft_step serve_write(struct dp_lane *lane, const struct soft_order *request,
				  uint8_t *target)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_link *link = &qp->link;
	bool consumes = request->what == DP_OP_WRITE_IMM;

	if (link->served < request->length) {
		ssize_t got = soft_copy_fetch(lane, SOFT_STREAM_REQUEST, target + link->served,
					      request->source + link->served,
					      request->length - link->served);

		if (!soft_link_works(lane))
			return SOFT_STEP_WAIT;
		if (got < 0)
			return fail_fetch(lane, got);
		link->served += (uint64_t)got;
		if (link->served < request->length)
			return got ? SOFT_STEP_MORE : SOFT_STEP_WAIT;
	}
	if (consumes && qp->responder.receive != SOFT_RECEIVE_POSTED)
		return SOFT_STEP_WAIT;
	if (soft_link_gone(link->fd)) {
		soft_link_lose(lane);
		return SOFT_STEP_WAIT;
	}
	if (consumes)
		soft_lane_consume(lane, request->length, request->imm, true);
	return send_answer(lane, IBV_WC_SUCCESS) ? finish(lane) : SOFT_STEP_WAIT;
}

static enum soft_step serve_read(struct dp_lane *lane, const struct soft_order *request,
				 const uint8_t *source)
{
	struct soft_qp *qp = soft_qp_of(lane);
	enum soft_step step = SOFT_STEP_DONE;

	if (!qp->link.granted && !send_answer(lane, IBV_WC_SUCCESS))
		return SOFT_STEP_WAIT;
	qp->link.granted = true;
	if (!qp->link.direct)
		step = soft_copy_push(lane, SOFT_STREAM_ANSWER, source, request->length,
				      &qp->link.served);
	return step == SOFT_STEP_DONE ? finish(lane) : step;
}

/* soft_local_serve - the peer's requests; of what is long a piece. As soft_local_ask. */
bool soft_local_serve(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_link *link = &qp->link;
	enum soft_step step = SOFT_STEP_DONE;

	while (step == SOFT_STEP_DONE && soft_link_works(lane) && link->asked != link->answered) {
		const struct soft_order request = link->requests[link->answered % DP_WRS_MAX];
		uint8_t *at;
		enum ibv_wc_status status = check(lane, &request, &at);

		if (status != IBV_WC_SUCCESS)
			step = reject(lane, status);
		else if (request.what == DP_OP_READ)
			step = serve_read(lane, &request, at);
		else
			step = serve_write(lane, &request, at);
	}
	return step == SOFT_STEP_MORE;
}
