/*
 * lane.c - the life of a lane: CLOSED -> RESET -> INIT -> READY -> ABORTED -> DRAINED -> RESET.
 *
 * The rule that keeps memory safe: a lane is used again only from DRAINED, which it reaches when
 * every work request of its QP is accounted for (flushed, or the QP destroyed) and no thread of
 * ours is in it.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "core.h"

/*
 * dp_lane_settle - emit what has just become true of the lane. Lock held.
 *
 * Called after every change that could have been the last one awaited.
 */
void dp_lane_settle(struct dp_lane *lane)
{
	const struct dp_event drained = { .tag = lane->tag, .kind = DP_EVENT_DRAINED };

	if (!dp_transfers_settle(lane) || lane->receiving || lane->state != DP_LANE_ABORTED)
		return;
	lane->state = DP_LANE_DRAINED;
	dp_fabric_emit(lane->fabric, &drained);
}

/* The receive is over: as @completion says, or cancelled where it is NULL. Lock held. */
static void end_receive(struct dp_lane *lane, const struct dp_completion *completion)
{
	struct dp_event event = { .tag = lane->tag, .kind = DP_EVENT_RECEIVED };

	if (!lane->receiving)
		return;
	lane->receiving = false;
	if (!completion) {
		event.status = -ECANCELED;
	} else if (completion->status != IBV_WC_SUCCESS) {
		event.status = lane->state == DP_LANE_ABORTED ? -ECANCELED : -EREMOTEIO;
		event.wc_status = completion->status;
		event.qp_state = lane->fabric->ops->lane_state(lane);
	} else {
		dp_count(lane->fabric, DP_COUNT_RECEIVES, 1);
		dp_count(lane->fabric, DP_COUNT_RECEIVED_BYTES, completion->byte_len);
		event.bytes = completion->byte_len;
		event.imm = completion->imm;
		event.flags = completion->write_imm ? DP_EVENT_WRITE_IMM : 0;
	}
	dp_fabric_emit(lane->fabric, &event);
}

/* dp_lane_complete - account for one polled completion. Progress thread. */
void dp_lane_complete(struct dp_fabric *fabric, const struct dp_completion *completion)
{
	uint32_t index = (uint32_t)(completion->wr_id >> 48);
	uint32_t slot = completion->wr_id & 0xffff;
	struct dp_lane *lane;

	if (index >= fabric->options.lanes_max)
		return;
	lane = &fabric->lanes[index];
	pthread_mutex_lock(&lane->lock);
	/* A completion of a destroyed QP was accounted for when it was destroyed. */
	if (lane->state != DP_LANE_CLOSED && completion->wr_id == dp_wr_id(lane, slot)) {
		if (slot == DP_SLOT_RECEIVE)
			end_receive(lane, completion);
		else
			dp_transfers_complete(lane, slot, completion->status);
		dp_lane_settle(lane);
	}
	pthread_mutex_unlock(&lane->lock);
}

/* A free place in the fabric's table, or NULL. lanes_lock held. */
static struct dp_lane *find_closed(struct dp_fabric *fabric)
{
	for (uint32_t i = 0; i < fabric->options.lanes_max; i++) {
		if (fabric->lanes[i].state == DP_LANE_CLOSED)
			return &fabric->lanes[i];
	}
	return NULL;
}

/* A lane's QP, in RESET. lanes_lock held; the lane is in no one else's hands. */
static int open_lane(struct dp_lane *lane, struct dp_domain *domain, struct dp_region *staging,
		     uint32_t access, uint64_t tag)
{
	int error;

	pthread_mutex_lock(&lane->lock);
	lane->domain = domain;
	lane->staging = staging;
	lane->memory = staging ? staging->memory : NULL;
	lane->length = staging ? staging->length : 0;
	lane->access = access;
	lane->tag = tag;
	lane->receiving = false;
	if (!lane->joined)
		dp_slots_cut(lane, lane->fabric->options.slot_bytes);
	dp_transfers_reset(lane);
	error = lane->fabric->ops->lane_open(lane);
	if (!error) {
		dp_count(lane->fabric, DP_COUNT_QUEUE_PAIRS, 1);
		lane->state = DP_LANE_RESET;
		domain->lanes++;
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

int dp_lane_open(struct dp_fabric *fabric, void *memory, uint64_t length_bytes, uint32_t access,
		 uint64_t tag, struct dp_lane **out)
{
	struct dp_region *region;
	struct dp_lane *lane;
	int error = -ENOSPC;

	pthread_mutex_lock(&fabric->lanes_lock);
	lane = find_closed(fabric);
	if (lane)
		error = dp_domain_private(fabric, memory, length_bytes, access, &region);
	if (!error) {
		lane->joined = false;
		error = open_lane(lane, region->domain, region, access, tag);
		if (error)
			dp_domain_discard(region);
	}
	pthread_mutex_unlock(&fabric->lanes_lock);
	if (!error)
		*out = lane;
	return error;
}

int dp_lane_join(struct dp_domain *domain, struct dp_region *staging, uint64_t tag,
		 struct dp_lane **out)
{
	/* Who lends slots of one region to many peers lets none of them in. */
	const uint32_t access = staging ? DP_ACCESS_NONE
					: DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ;
	struct dp_fabric *fabric = domain->fabric;
	struct dp_lane *lane;
	int error = -ENOSPC;

	pthread_mutex_lock(&fabric->lanes_lock);
	lane = find_closed(fabric);
	if (lane) {
		lane->joined = true;
		error = open_lane(lane, domain, staging, access, tag);
	}
	pthread_mutex_unlock(&fabric->lanes_lock);
	if (!error)
		*out = lane;
	return error;
}

int dp_lane_close(struct dp_lane **lane)
{
	struct dp_lane *self = *lane;
	struct dp_fabric *fabric = self->fabric;

	pthread_mutex_lock(&fabric->lanes_lock);
	pthread_mutex_lock(&self->lock);
	if (dp_transfers_threaded(self)) {
		pthread_mutex_unlock(&self->lock);
		pthread_mutex_unlock(&fabric->lanes_lock);
		return -EBUSY;
	}
	dp_transfers_forget(self);
	fabric->ops->lane_close(self);
	self->generation++;
	self->state = DP_LANE_CLOSED;
	self->domain->lanes--;
	pthread_mutex_unlock(&self->lock);
	if (!self->joined)
		dp_domain_discard(self->staging);
	pthread_mutex_unlock(&fabric->lanes_lock);
	*lane = NULL;
	return 0;
}

uint32_t dp_lane_qpn(const struct dp_lane *lane)
{
	return lane->qpn;
}

uint32_t dp_lane_rkey(const struct dp_lane *lane)
{
	return lane->staging ? lane->staging->rkey : 0;
}

uint32_t dp_lane_qp_state(struct dp_lane *lane)
{
	uint32_t state;

	pthread_mutex_lock(&lane->lock);
	state = lane->fabric->ops->lane_state(lane);
	pthread_mutex_unlock(&lane->lock);
	return state;
}

const char *dp_lane_carrier(struct dp_lane *lane)
{
	const char *carrier;

	pthread_mutex_lock(&lane->lock);
	carrier = lane->fabric->ops->lane_carrier(lane);
	pthread_mutex_unlock(&lane->lock);
	return carrier;
}

int dp_lane_prepare(struct dp_lane *lane, uint32_t psn, uint32_t access)
{
	int error = -EBUSY;

	if (psn == 0 || psn > DP_PSN_MAX || access & ~lane->access)
		return -EINVAL;
	pthread_mutex_lock(&lane->lock);
	if (lane->state == DP_LANE_RESET) {
		error = lane->fabric->ops->lane_prepare(lane, access);
		if (!error) {
			lane->psn = psn;
			lane->state = DP_LANE_INIT;
		}
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

int dp_lane_connect(struct dp_lane *lane, const struct dp_peer *peer)
{
	int error = -EBUSY;

	if (peer->psn == 0 || peer->psn > DP_PSN_MAX || peer->qpn == 0 || peer->qpn > DP_QPN_MAX)
		return -EINVAL;
	if (lane->fabric->info.link == DP_LINK_INFINIBAND && peer->lid == 0)
		return -EADDRNOTAVAIL;
	pthread_mutex_lock(&lane->lock);
	if (lane->state == DP_LANE_INIT) {
		error = lane->fabric->ops->lane_connect(lane, peer);
		if (!error)
			lane->state = DP_LANE_READY;
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

int64_t dp_lane_receive(struct dp_lane *lane)
{
	uint64_t whole = lane->length < DP_MESSAGE_MAX ? lane->length : DP_MESSAGE_MAX;
	uint32_t length = lane->fabric->options.receive_sge ? (uint32_t)whole : 0;
	int error = 0;

	pthread_mutex_lock(&lane->lock);
	if (lane->state != DP_LANE_INIT && lane->state != DP_LANE_READY)
		error = -EPIPE;
	else if (lane->receiving)
		error = -EBUSY;
	else
		error = lane->fabric->ops->post_receive(lane, dp_wr_id(lane, DP_SLOT_RECEIVE),
							length);
	if (!error)
		lane->receiving = true;
	pthread_mutex_unlock(&lane->lock);
	return error ? error : (int64_t)length;
}

int dp_lane_abort(struct dp_lane *lane)
{
	int error = 0;

	pthread_mutex_lock(&lane->lock);
	if (lane->state == DP_LANE_RESET) {
		lane->state = DP_LANE_ABORTED; /* nothing was posted, and RESET -> ERR is no edge */
		dp_lane_settle(lane);
	} else if (lane->state == DP_LANE_INIT || lane->state == DP_LANE_READY) {
		lane->state = DP_LANE_ABORTED;
		dp_transfers_fail(lane, -ECANCELED);
		error = lane->fabric->ops->lane_error(lane);
		dp_lane_settle(lane);
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

int dp_lane_recycle(struct dp_lane *lane)
{
	int error = -EBUSY;

	pthread_mutex_lock(&lane->lock);
	if (lane->state == DP_LANE_DRAINED) {
		error = lane->fabric->ops->lane_reset(lane);
		if (!error)
			lane->state = DP_LANE_RESET;
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

int dp_lane_replace(struct dp_lane *lane)
{
	int error = -EBUSY;

	pthread_mutex_lock(&lane->lock);
	if (lane->state == DP_LANE_ABORTED || lane->state == DP_LANE_DRAINED) {
		error = lane->fabric->ops->lane_replace(lane);
		if (!error)
			dp_count(lane->fabric, DP_COUNT_QUEUE_PAIRS, 1);
		lane->generation++;
		dp_transfers_forget(lane);
		end_receive(lane, NULL);
		dp_lane_settle(lane);
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}
