/*
 * qp.c - the verbs side of a lane: one RC queue pair in its domain's PD.
 *
 * The attributes are PROTOCOL.md section 2's; both peers use the same.
 */
#include <arpa/inet.h>
#include <errno.h>
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

/* dp_lane.impl is the QP; NULL after a replacement failed. */
static struct ibv_qp *qp_of(const struct dp_lane *lane)
{
	return lane->impl;
}

static struct dp_verbs_fabric *fabric_of(const struct dp_lane *lane)
{
	return dp_verbs_of(lane->fabric);
}

static uint32_t lkey_of(const struct dp_lane *lane)
{
	return lane->staging ? ((const struct ibv_mr *)lane->staging->impl)->lkey : 0;
}

static int modify(struct dp_lane *lane, struct ibv_qp_attr *attr, int mask)
{
	if (!qp_of(lane))
		return -ENODEV;
	return dp_verbs_result(fabric_of(lane)->verbs.modify_qp(qp_of(lane), attr, mask));
}

int dp_qp_open(struct dp_lane *lane)
{
	struct dp_verbs_fabric *fabric = fabric_of(lane);
	struct ibv_qp_init_attr attr = {
		.send_cq = fabric->cq,
		.recv_cq = fabric->cq,
		.cap = {
			.max_send_wr = DP_WRS_MAX,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp;

	errno = 0;
	qp = fabric->verbs.create_qp(lane->domain->impl, &attr);
	lane->impl = qp;
	if (!qp)
		return dp_verbs_error();
	lane->qpn = qp->qp_num;
	return 0;
}

void dp_qp_close(struct dp_lane *lane)
{
	if (qp_of(lane))
		fabric_of(lane)->verbs.destroy_qp(qp_of(lane));
	lane->impl = NULL;
}

int dp_qp_prepare(struct dp_lane *lane, uint32_t access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = fabric_of(lane)->port,
		.qp_access_flags =
			(unsigned int)dp_access_flags(access & ~(uint32_t)DP_ACCESS_LOCAL_WRITE),
	};

	return modify(lane, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct dp_lane *lane, const struct dp_peer *peer)
{
	const struct dp_verbs_fabric *fabric = fabric_of(lane);
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
	dp_qp_close(lane);
	return dp_qp_open(lane);
}

uint32_t dp_qp_state(struct dp_lane *lane)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp_of(lane) ||
	    fabric_of(lane)->verbs.query_qp(qp_of(lane), &attr, IBV_QP_STATE, &init))
		return STATE_UNKNOWN;
	return attr.qp_state;
}

int dp_qp_post(struct dp_lane *lane, const struct dp_segment *segment)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)lane->memory + segment->offset,
		.length = segment->length,
		.lkey = lkey_of(lane),
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
	if (!qp_of(lane))
		return -ENODEV;
	return dp_verbs_result(ibv_post_send(qp_of(lane), &wr, &bad));
}

int dp_qp_post_receive(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)lane->memory,
		.length = sge_length,
		.lkey = lkey_of(lane),
	};
	struct ibv_recv_wr wr = { .wr_id = wr_id };
	struct ibv_recv_wr *bad;

	if (sge_length > 0) {
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	if (!qp_of(lane))
		return -ENODEV;
	return dp_verbs_result(ibv_post_recv(qp_of(lane), &wr, &bad));
}
