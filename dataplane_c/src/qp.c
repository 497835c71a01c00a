/*
 * qp.c - the verbs side of a lane: a PD of its own, one MR, one RC queue pair.
 *
 * The attributes are PROTOCOL.md section 2's; both peers use the same.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

#define MIN_RNR_TIMER 12 /* 0.64 ms: how long a peer waits for a receive before it retries */
#define ACK_TIMEOUT 14   /* 4.096 us * 2^14 = 67 ms */
#define RETRY_COUNT 7
#define RNR_RETRY 7 /* for ever; our own deadlines end it */
#define RD_ATOMIC 1
#define HOP_LIMIT 64
#define RECEIVES 1
#define STATE_UNKNOWN 0xffu

struct dp_qp {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp; /* NULL after a replacement failed */
};

static struct dp_qp *qp_of(const struct dp_lane *lane)
{
	return lane->impl;
}

static int access_flags(uint32_t access)
{
	int flags = 0;

	if (access & (DP_ACCESS_LOCAL_WRITE | DP_ACCESS_REMOTE_WRITE))
		flags |= IBV_ACCESS_LOCAL_WRITE; /* REMOTE_WRITE is invalid without it */
	if (access & DP_ACCESS_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & DP_ACCESS_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	return flags;
}

static int modify(struct dp_lane *lane, struct ibv_qp_attr *attr, int mask)
{
	struct dp_qp *self = qp_of(lane);

	if (!self->qp)
		return -ENODEV;
	return dp_verbs_result(dp_verbs_of(lane)->verbs.modify_qp(self->qp, attr, mask));
}

static int make_qp(struct dp_lane *lane)
{
	struct dp_verbs_fabric *fabric = dp_verbs_of(lane);
	struct dp_qp *self = qp_of(lane);
	struct ibv_qp_init_attr attr = {
		.send_cq = fabric->cq,
		.recv_cq = fabric->cq,
		.cap = {
			.max_send_wr = DP_SLOTS_MAX,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	errno = 0;
	self->qp = fabric->verbs.create_qp(self->pd, &attr);
	if (!self->qp)
		return dp_verbs_error();
	lane->qpn = self->qp->qp_num;
	return 0;
}

int dp_qp_open(struct dp_lane *lane)
{
	const struct dp_verbs *verbs = &dp_verbs_of(lane)->verbs;
	struct dp_qp *self = calloc(1, sizeof(*self));
	int error = -ENOMEM;

	if (!self)
		return error;
	lane->impl = self;
	errno = 0;
	self->pd = verbs->alloc_pd(dp_verbs_of(lane)->context);
	error = dp_verbs_error();
	if (!self->pd)
		goto err_free;
	errno = 0;
	self->mr = verbs->register_mr(self->pd, lane->memory, lane->length,
				      access_flags(lane->access));
	error = dp_verbs_error();
	if (!self->mr)
		goto err_pd;
	lane->rkey = self->mr->rkey;
	error = make_qp(lane);
	if (error)
		goto err_mr;
	return 0;

err_mr:
	verbs->deregister_mr(self->mr);
err_pd:
	verbs->dealloc_pd(self->pd);
err_free:
	free(self);
	lane->impl = NULL;
	return error;
}

void dp_qp_close(struct dp_lane *lane)
{
	const struct dp_verbs *verbs = &dp_verbs_of(lane)->verbs;
	struct dp_qp *self = qp_of(lane);

	if (self->qp)
		verbs->destroy_qp(self->qp);
	verbs->deregister_mr(self->mr);
	verbs->dealloc_pd(self->pd);
	free(self);
	lane->impl = NULL;
}

int dp_qp_prepare(struct dp_lane *lane, uint32_t access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = dp_verbs_of(lane)->port,
		.qp_access_flags =
			(unsigned int)access_flags(access & ~(uint32_t)DP_ACCESS_LOCAL_WRITE),
	};

	return modify(lane, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct dp_lane *lane, const struct dp_peer *peer)
{
	const struct dp_verbs_fabric *fabric = dp_verbs_of(lane);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = fabric->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = RD_ATOMIC,
		.min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = {
			.is_global = 1,
			.port_num = fabric->port,
			.grh = { .hop_limit = HOP_LIMIT, .sgid_index = fabric->gid_index },
		},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	if (lane->fabric->info.link == DP_LINK_INFINIBAND)
		attr.ah_attr.dlid = (uint16_t)peer->lid;
	return modify(lane, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct dp_lane *lane)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = lane->psn,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = RETRY_COUNT,
		.rnr_retry = RNR_RETRY,
		.max_rd_atomic = RD_ATOMIC,
	};

	return modify(lane, &attr,
		      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

int dp_qp_connect(struct dp_lane *lane, const struct dp_peer *peer)
{
	int error = to_rtr(lane, peer);

	return error ? error : to_rts(lane);
}

int dp_qp_error(struct dp_lane *lane)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return modify(lane, &attr, IBV_QP_STATE);
}

int dp_qp_reset(struct dp_lane *lane)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return modify(lane, &attr, IBV_QP_STATE);
}

int dp_qp_replace(struct dp_lane *lane)
{
	struct dp_qp *self = qp_of(lane);

	if (self->qp)
		dp_verbs_of(lane)->verbs.destroy_qp(self->qp);
	return make_qp(lane);
}

uint32_t dp_qp_state(struct dp_lane *lane)
{
	struct dp_qp *self = qp_of(lane);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!self->qp || dp_verbs_of(lane)->verbs.query_qp(self->qp, &attr, IBV_QP_STATE, &init))
		return STATE_UNKNOWN;
	return attr.qp_state;
}

int dp_qp_post(struct dp_lane *lane, const struct dp_segment *segment)
{
	struct dp_qp *self = qp_of(lane);
	struct ibv_sge sge = {
		.addr = (uintptr_t)lane->memory + segment->offset,
		.length = segment->length,
		.lkey = self->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = segment->wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = segment->remote_addr, .rkey = segment->rkey },
	};
	struct ibv_send_wr *bad;

	switch (segment->opcode) {
	case DP_OP_WRITE:
		wr.opcode = IBV_WR_RDMA_WRITE;
		break;
	case DP_OP_WRITE_IMM:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = htonl(segment->imm);
		break;
	case DP_OP_READ:
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	}
	if (!self->qp)
		return -ENODEV;
	return dp_verbs_result(ibv_post_send(self->qp, &wr, &bad));
}

int dp_qp_post_receive(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length)
{
	struct dp_qp *self = qp_of(lane);
	struct ibv_sge sge = {
		.addr = (uintptr_t)lane->memory,
		.length = sge_length,
		.lkey = self->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = wr_id };
	struct ibv_recv_wr *bad;

	if (sge_length > 0) {
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	if (!self->qp)
		return -ENODEV;
	return dp_verbs_result(ibv_post_recv(self->qp, &wr, &bad));
}
