/*
 * transfer.c - the send queue of a lane: pieces of files or of its memory, pipelined.
 *
 * A *slot* is a work request in flight and, for files, the piece of the lane's memory that it
 * reads. One thread at a time pumps: it fills a free slot (without the lock, since a disk may be
 * slow), posts it, and goes on until none is free. A completion frees its slot and, where no one
 * pumps, sends for an I/O thread again. So order on the wire is order in the file, and the last
 * piece, which carries the immediate, is posted last.
 */
#include <assert.h>
#include <errno.h>

#include <infiniband/verbs.h>

#include "core.h"

static uint32_t slots_of(const struct dp_lane *lane)
{
	switch (lane->transfer.kind) {
	case DP_EVENT_SENT:
		return lane->slot_count;
	case DP_EVENT_READ:
		return DP_SLOTS_MAX;
	default:
		return 1;
	}
}

/* Bit set of the slots that hold nothing. */
static uint32_t free_slots(const struct dp_lane *lane)
{
	return ((UINT32_C(1) << slots_of(lane)) - 1) & ~lane->transfer.posted;
}

/* dp_transfer_fail - end @transfer with the first reason it was given. */
void dp_transfer_fail(struct dp_transfer *transfer, int32_t status, uint32_t wc_status)
{
	if (transfer->kind == DP_EVENT_NONE || transfer->status)
		return;
	transfer->status = status;
	transfer->wc_status = wc_status;
}

/* Post the next @length bytes, which lie in @slot's place; 0 or -errno. */
static int post_piece(struct dp_lane *lane, uint32_t slot, uint64_t offset, uint32_t length)
{
	struct dp_transfer *transfer = &lane->transfer;
	bool last = transfer->issued + length == transfer->total;
	struct dp_segment segment = {
		.wr_id = dp_wr_id(lane, slot),
		.opcode = DP_OP_WRITE,
		.offset = offset,
		.length = length,
		.remote_addr = transfer->remote.addr + transfer->issued,
		.rkey = transfer->remote.rkey,
	};
	int error;

	if (transfer->kind == DP_EVENT_READ) {
		segment.opcode = DP_OP_READ;
	} else if (last && transfer->has_imm) {
		segment.opcode = DP_OP_WRITE_IMM;
		segment.imm = transfer->imm;
	}
	/* Counted first: the completion may be polled before post returns. */
	atomic_fetch_add(&lane->fabric->in_flight, 1);
	error = lane->fabric->ops->post(lane, &segment);
	if (error) {
		atomic_fetch_sub(&lane->fabric->in_flight, 1);
		return error;
	}
	transfer->posted |= UINT32_C(1) << slot;
	transfer->slot_lengths[slot] = length;
	transfer->issued += length;
	return 0;
}

/* Fill the slot from the files, where the transfer has any. Gives up the lock meanwhile. */
static int fill_slot(struct dp_lane *lane, uint64_t offset, uint32_t length)
{
	int error;

	if (lane->transfer.kind != DP_EVENT_SENT)
		return 0;
	pthread_mutex_unlock(&lane->lock);
	error = dp_extents_read(&lane->transfer, lane->memory + offset, length);
	pthread_mutex_lock(&lane->lock);
	return error;
}

/*
 * dp_transfer_pump - post pieces until no slot is free, nothing is left, or the transfer failed.
 *
 * Lane's lock held on entry and on return. After an abort nothing is posted, although a pread
 * that had begun goes on: its bytes are never sent.
 */
void dp_transfer_pump(struct dp_lane *lane)
{
	struct dp_transfer *transfer = &lane->transfer;

	assert(!transfer->pumping);
	transfer->pumping = true;
	while (!transfer->status && transfer->issued < transfer->total && free_slots(lane)) {
		uint32_t slot = (uint32_t)__builtin_ctz(free_slots(lane));
		uint64_t left = transfer->total - transfer->issued;
		uint32_t length = left < transfer->piece ? (uint32_t)left : transfer->piece;
		uint64_t offset = transfer->kind == DP_EVENT_SENT
					  ? (uint64_t)slot * lane->slot_length
					  : transfer->issued;
		int error = fill_slot(lane, offset, length);

		if (!error && !transfer->status)
			error = post_piece(lane, slot, offset, length);
		if (error)
			dp_transfer_fail(transfer, error, 0);
	}
	transfer->pumping = false;
}

/* dp_transfer_complete - account for the completion of @slot, and go on where there is more. */
void dp_transfer_complete(struct dp_lane *lane, uint32_t slot, uint32_t wc_status)
{
	struct dp_transfer *transfer = &lane->transfer;
	uint32_t bit = slot < DP_SLOTS_MAX ? UINT32_C(1) << slot : 0;

	if (!(transfer->posted & bit))
		return; /* a device that repeats itself is not believed twice */
	transfer->posted &= ~bit;
	atomic_fetch_sub(&lane->fabric->in_flight, 1);
	if (wc_status == IBV_WC_SUCCESS)
		transfer->acked += transfer->slot_lengths[slot];
	else
		dp_transfer_fail(transfer, -EREMOTEIO, wc_status);
	if (transfer->status || transfer->issued == transfer->total || transfer->pumping)
		return;
	if (transfer->kind == DP_EVENT_SENT)
		dp_io_queue(&lane->fabric->io, lane);
	else
		dp_transfer_pump(lane);
}

/* dp_transfer_forget - the QP is destroyed: what was in flight will never complete. */
void dp_transfer_forget(struct dp_lane *lane)
{
	struct dp_transfer *transfer = &lane->transfer;
	uint32_t posted = (uint32_t)__builtin_popcount(transfer->posted);

	transfer->posted = 0;
	atomic_fetch_sub(&lane->fabric->in_flight, posted);
	dp_transfer_fail(transfer, -ECANCELED, 0);
}

/*
 * dp_transfer_settle - emit the transfer's event once nothing of it is in flight or in a thread.
 *
 * Returns whether the send side is idle.
 */
bool dp_transfer_settle(struct dp_lane *lane)
{
	struct dp_transfer *transfer = &lane->transfer;
	struct dp_event event = {
		.tag = lane->tag,
		.kind = transfer->kind,
		.bytes = transfer->acked,
		.status = transfer->status,
		.wc_status = transfer->wc_status,
	};

	if (transfer->pumping || transfer->queued || transfer->posted)
		return false;
	if (transfer->kind == DP_EVENT_NONE)
		return true;
	if (!transfer->status && transfer->acked < transfer->total)
		return false;
	if (transfer->status)
		event.qp_state = lane->fabric->ops->lane_state(lane);
	transfer->kind = DP_EVENT_NONE;
	dp_fabric_emit(lane->fabric, &event);
	return true;
}

/* Whether a transfer of @total bytes may begin; 0 or -errno. */
static int check_begin(const struct dp_lane *lane, uint64_t total, const struct dp_remote *remote)
{
	if (lane->state == DP_LANE_ABORTED || lane->state == DP_LANE_DRAINED)
		return -EPIPE;
	if (lane->state != DP_LANE_READY)
		return -ENOTCONN;
	if (lane->transfer.kind != DP_EVENT_NONE)
		return -EBUSY;
	if (total == 0)
		return -EINVAL;
	return total > remote->length_bytes ? -EMSGSIZE : 0;
}

int dp_lane_send(struct dp_lane *lane, const struct dp_extent *extents, uint32_t count,
		 const struct dp_remote *to, uint32_t immediate, uint32_t imm)
{
	uint64_t total = 0;
	int error = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (extents[i].length_bytes == 0 ||
		    __builtin_add_overflow(total, extents[i].length_bytes, &total))
			return -EINVAL;
	}
	pthread_mutex_lock(&lane->lock);
	error = check_begin(lane, total, to);
	if (!error) {
		lane->transfer = (struct dp_transfer){
			.kind = DP_EVENT_SENT,
			.has_imm = immediate == DP_IMM_PRESENT,
			.imm = imm,
			.extents = extents,
			.remote = *to,
			.total = total,
			.piece = lane->slot_length,
		};
		dp_io_queue(&lane->fabric->io, lane);
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

/* Begin a transfer between the lane's memory and the peer's, without files. */
static int begin_direct(struct dp_lane *lane, const struct dp_transfer *transfer)
{
	int error = 0;

	if (transfer->total > lane->length)
		return -EMSGSIZE;
	pthread_mutex_lock(&lane->lock);
	error = check_begin(lane, transfer->total, &transfer->remote);
	if (!error) {
		lane->transfer = *transfer;
		dp_transfer_pump(lane);
		dp_lane_settle(lane);
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}

int dp_lane_write(struct dp_lane *lane, uint64_t length_bytes, const struct dp_remote *to,
		  uint32_t imm)
{
	const struct dp_transfer transfer = {
		.kind = DP_EVENT_WRITTEN,
		.has_imm = true,
		.imm = imm,
		.remote = *to,
		.total = length_bytes,
		.piece = (uint32_t)length_bytes,
	};

	return length_bytes >= DP_MESSAGE_MAX ? -EMSGSIZE : begin_direct(lane, &transfer);
}

int dp_lane_read(struct dp_lane *lane, uint64_t length_bytes, const struct dp_remote *from)
{
	const struct dp_transfer transfer = {
		.kind = DP_EVENT_READ,
		.remote = *from,
		.total = length_bytes,
		.piece = lane->fabric->options.segment_bytes,
	};

	return begin_direct(lane, &transfer);
}
