/* soft_lane.c - a soft lane's states, queues and completions; all under the lane's lock. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "soft.h"

#define QPN_FIRST 2u /* 0 and 1 belong to management */

/* Bits that nobody can foresee; 0 or -errno. */
static int draw(uint32_t *out)
{
	return getrandom(out, sizeof(*out), 0) == (ssize_t)sizeof(*out) ? 0 : -errno;
}

/* A new QPN: the lane's index in its low bits, where the NIC finds it, and chance above. */
static int draw_qpn(struct dp_lane *lane)
{
	uint32_t bits = soft_nic_of(lane)->index_bits;
	uint32_t qpn, old = lane->qpn;
	int error;

	do {
		error = draw(&qpn);
		qpn = (qpn << bits | lane->index) & DP_QPN_MAX;
	} while (!error && (qpn < QPN_FIRST || qpn == old));
	if (!error)
		lane->qpn = qpn;
	return error;
}

int soft_lane_open(struct dp_lane *lane)
{
	struct soft_qp *self = dp_fabric_alloc(lane->fabric, sizeof(*self));
	int error = -ENOMEM;

	if (!self)
		return error;
	error = draw_qpn(lane);
	if (error) {
		free(self);
		return error;
	}
	self->state = IBV_QPS_RESET;
	soft_link_init(&self->link);
	pthread_cond_init(&self->copied, NULL);
	lane->impl = self;
	return 0;
}

void soft_lane_close(struct dp_lane *lane)
{
	soft_link_close(lane);
	pthread_cond_destroy(&soft_qp_of(lane)->copied);
	free(soft_qp_of(lane));
	lane->impl = NULL;
	lane->qpn = 0;
}

/* RESET: nothing is posted, nobody is connected. */
static void clear(struct dp_lane *lane)
{
	struct soft_qp *self = soft_qp_of(lane);

	self->state = IBV_QPS_RESET;
	soft_link_close(lane);
	self->access = DP_ACCESS_NONE;
	self->carrier = SOFT_CARRIER_OPEN;
	self->requester = (struct soft_requester){ .retry_at_ns = SOFT_NEVER };
	self->responder = (struct soft_responder){ 0 };
}

int soft_lane_prepare(struct dp_lane *lane, uint32_t access)
{
	struct soft_qp *self = soft_qp_of(lane);

	clear(lane);
	self->access = access;
	self->state = IBV_QPS_INIT;
	return 0;
}

/*
 * soft_lane_connect - to RTS. -EAFNOSUPPORT: the peer's address is of another family than ours;
 * -ENETUNREACH: one of them is on loopback, which the other can't reach; -EACCES: it is in none
 * of the allowed networks; or as soft_link_dial.
 */
int soft_lane_connect(struct dp_lane *lane, const struct dp_peer *peer)
{
	struct soft_nic *nic = soft_nic_of(lane);
	struct soft_qp *self = soft_qp_of(lane);
	int error;

	if (soft_address_is_ipv4(peer->gid) != soft_address_is_ipv4(nic->gid))
		return -EAFNOSUPPORT;
	if (soft_address_is_loopback(peer->gid) != soft_address_is_loopback(nic->gid))
		return -ENETUNREACH;
	if (!soft_allowed(&nic->options, peer->gid))
		return -EACCES;
	self->peer_qpn = peer->qpn;
	memcpy(self->peer_gid, peer->gid, sizeof(self->peer_gid));
	memcpy(self->out.source, nic->gid, sizeof(self->out.source));
	memcpy(self->out.target, peer->gid, sizeof(self->out.target));
	self->out.source_port = self->out.target_port = SOFT_PORT;
	soft_responder_start(&self->responder, peer->psn);
	soft_requester_start(&self->requester, lane->psn, nic->window_bytes / nic->mtu);
	self->link.peer_psn = peer->psn;
	error = soft_link_dial(lane);
	if (!error)
		self->state = IBV_QPS_RTS;
	return error;
}

/*
 * soft_lane_fail - QP to ERR: the oldest work request ends with @status, all others are flushed.
 *
 * From here on no packet reaches the lane's memory; the NIC reports when it comes by.
 */
void soft_lane_fail(struct dp_lane *lane, uint32_t status)
{
	struct soft_qp *self = soft_qp_of(lane);
	struct soft_requester *requester = &self->requester;

	if (self->state == IBV_QPS_ERR)
		return;
	self->state = IBV_QPS_ERR;
	for (; requester->done != requester->posted; requester->done++) {
		soft_wqe_at(requester, requester->done)->status = status;
		status = IBV_WC_WR_FLUSH_ERR;
	}
	requester->una = requester->nxt = requester->sent = requester->end;
	requester->retry_at_ns = SOFT_NEVER;
	self->responder.reading = false;
	self->responder.ack_due = false;
	if (self->responder.receive == SOFT_RECEIVE_POSTED) {
		self->responder.receive = SOFT_RECEIVE_DONE;
		self->responder.received.status = IBV_WC_WR_FLUSH_ERR;
	}
	soft_link_close(lane);
	soft_nic_wake(lane);
}

int soft_lane_error(struct dp_lane *lane)
{
	soft_lane_fail(lane, IBV_WC_WR_FLUSH_ERR);
	return 0;
}

int soft_lane_reset(struct dp_lane *lane)
{
	clear(lane);
	return 0;
}

int soft_lane_replace(struct dp_lane *lane)
{
	clear(lane);
	return draw_qpn(lane);
}

uint32_t soft_lane_state(struct dp_lane *lane)
{
	return soft_qp_of(lane)->state;
}

const char *soft_lane_carrier(struct dp_lane *lane)
{
	switch (soft_qp_of(lane)->carrier) {
	case SOFT_CARRIER_UDP:
		return "udp";
	case SOFT_CARRIER_LOCAL:
		return "local";
	default:
		return "";
	}
}

/*
 * soft_lane_admits - whether the queue pair takes a request that needs @access, @length long.
 *
 * Where it does not, the request is invalid, whatever memory it names (IBTA 9.7.4.1.5). It is
 * asked by every carrier, for every request, before soft_lane_grant.
 */
bool soft_lane_admits(const struct dp_lane *lane, uint32_t access, uint64_t length)
{
	return soft_qp_of(lane)->access & access && length <= DP_MESSAGE_MAX;
}

/* soft_lane_consume - a message of @length bytes ended well and takes the posted receive. */
void soft_lane_consume(struct dp_lane *lane, uint32_t length, uint32_t imm, bool write_imm)
{
	struct soft_responder *responder = &soft_qp_of(lane)->responder;

	responder->receive = SOFT_RECEIVE_DONE;
	responder->received.status = IBV_WC_SUCCESS;
	responder->received.byte_len = length;
	responder->received.imm = imm;
	responder->received.write_imm = write_imm;
}

/* Work posted to a QP in ERR is flushed, as ibv_post_send(3) has it. */
int soft_lane_post(struct dp_lane *lane, const struct dp_segment *segment)
{
	struct soft_qp *self = soft_qp_of(lane);
	struct soft_requester *requester = &self->requester;

	assert(segment->offset <= lane->length &&
	       segment->length <= lane->length - segment->offset);
	if (self->state != IBV_QPS_RTS && self->state != IBV_QPS_ERR)
		return -EINVAL;
	if (requester->posted - requester->reaped == DP_WRS_MAX)
		return -ENOMEM;
	soft_requester_post(requester, segment, soft_nic_of(lane)->mtu);
	if (self->state == IBV_QPS_ERR) {
		soft_wqe_at(requester, requester->done++)->status = IBV_WC_WR_FLUSH_ERR;
		requester->una = requester->nxt = requester->sent = requester->end;
	}
	soft_nic_wake(lane);
	return 0;
}

int soft_lane_post_receive(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length)
{
	struct soft_responder *responder = &soft_qp_of(lane)->responder;

	if (soft_qp_of(lane)->state == IBV_QPS_RESET)
		return -EINVAL;
	if (responder->receive != SOFT_RECEIVE_NONE)
		return -ENOMEM;
	responder->receive = SOFT_RECEIVE_POSTED;
	responder->received = (struct dp_completion){ .wr_id = wr_id };
	responder->receive_length = sge_length;
	if (soft_qp_of(lane)->state == IBV_QPS_ERR) {
		responder->receive = SOFT_RECEIVE_DONE;
		responder->received.status = IBV_WC_WR_FLUSH_ERR;
		soft_nic_wake(lane);
	} else if (soft_qp_of(lane)->link.state == SOFT_LINK_UP) {
		soft_nic_wake(lane); /* a message may wait for it; over UDP its sender asks again */
	}
	return 0;
}

/* soft_lane_reap - what has finished into @out, in order; how many, at most @max. */
int soft_lane_reap(struct dp_lane *lane, struct dp_completion *out, int max)
{
	struct soft_requester *requester = &soft_qp_of(lane)->requester;
	struct soft_responder *responder = &soft_qp_of(lane)->responder;
	int count = 0;

	while (count < max && requester->reaped != requester->done) {
		const struct soft_wqe *wqe = soft_wqe_at(requester, requester->reaped++);

		out[count++] = (struct dp_completion){
			.wr_id = wqe->segment.wr_id,
			.status = wqe->status,
			.byte_len = wqe->segment.length,
		};
	}
	if (count < max && responder->receive == SOFT_RECEIVE_DONE) {
		responder->receive = SOFT_RECEIVE_NONE;
		out[count++] = responder->received;
	}
	return count;
}
