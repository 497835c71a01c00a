/*
 * transfer.c - the send queue of a lane: pieces of files or of its memory, pipelined.
 *
 * A *slot* is a work request in flight and, for files, the piece of the lane's memory that it
 * goes through. One thread at a time pumps: it fills a free slot (without the lock, since a disk
 * may be slow), posts it, and goes on until none is free. A completion frees its slot and, where
 * no one pumps, sends for an I/O thread again. So order on the wire is order in the file, and the
 * last piece, which carries the immediate, is posted last. A fetch is the same the other way
 * round: a slot is free again once what arrived in it was stored.
 */
#include <assert.h>
#include <errno.h>

#include <infiniband/verbs.h>

#include "core.h"

/* Bit set of the slots that hold nothing. */
static uint32_t free_slots(const struct dp_transfer *transfer)
{
	return ((UINT32_C(1) << transfer->slots) - 1) & ~(transfer->posted | transfer->arrived);
}

/* Whether files are at the other end of its slots, so that an I/O thread pumps it. */
static bool has_files(const struct dp_transfer *transfer)
{
	return transfer->extents != NULL;
}

/* Whether its work requests go through slots, else over the lane's memory from its beginning. */
static bool in_slots(const struct dp_transfer *transfer)
{
	return has_files(transfer) || transfer->lane->joined;
}

/* dp_transfers_reset - a lane that does nothing yet. */
void dp_transfers_reset(struct dp_lane *lane)
{
	for (uint32_t i = 0; i < DP_MOVES_MAX; i++) {
		lane->transfers[i] = (struct dp_transfer){
			.lane = lane,
			.first_slot = i * DP_MOVE_SLOTS,
		};
	}
}

/* End @transfer with the first reason it was given. */
static void fail(struct dp_transfer *transfer, int32_t status, uint32_t wc_status)
{
	if (transfer->kind == DP_EVENT_NONE || transfer->status)
		return;
	transfer->status = status;
	transfer->wc_status = wc_status;
}

/* dp_transfers_fail - end whatever the lane is doing. */
void dp_transfers_fail(struct dp_lane *lane, int32_t status)
{
	for (uint32_t i = 0; i < DP_MOVES_MAX; i++)
		fail(&lane->transfers[i], status, 0);
}

static bool reads(const struct dp_transfer *transfer)
{
	return transfer->kind == DP_EVENT_READ || transfer->fetch;
}

static enum dp_opcode opcode_of(const struct dp_transfer *transfer, bool last)
{
	if (reads(transfer))
		return DP_OP_READ;
	return last && transfer->has_imm ? DP_OP_WRITE_IMM : DP_OP_WRITE;
}

/* Where in the lane's memory @slot's piece lies. */
static uint64_t offset_of(const struct dp_transfer *transfer, uint32_t slot)
{
	return in_slots(transfer) ? transfer->slot_at[slot] : transfer->slot_from[slot];
}

static uint8_t *place_of(const struct dp_transfer *transfer, uint32_t slot)
{
	return transfer->lane->memory + offset_of(transfer, slot);
}

/* Post the next piece, which @slot is for; 0 or -errno. */
static int post_piece(struct dp_transfer *transfer, uint32_t slot)
{
	struct dp_lane *lane = transfer->lane;
	uint32_t length = transfer->slot_lengths[slot];
	bool last = transfer->issued + length == transfer->total;
	const struct dp_segment segment = {
		.wr_id = dp_wr_id(lane, transfer->first_slot + slot),
		.opcode = opcode_of(transfer, last),
		.offset = offset_of(transfer, slot),
		.length = length,
		.remote_addr = transfer->remote.addr + transfer->issued,
		.rkey = transfer->remote.rkey,
		.imm = transfer->imm,
	};
	int error;

	/* Counted first: the completion may be polled before post returns. */
	atomic_fetch_add(&lane->fabric->in_flight, 1);
	error = lane->fabric->ops->post(lane, &segment);
	if (error) {
		atomic_fetch_sub(&lane->fabric->in_flight, 1);
		return error;
	}
	transfer->posted |= UINT32_C(1) << slot;
	transfer->issued += length;
	return 0;
}

/*
 * Fill the slot from the files, where they are the source; mark it, where the peer is. Gives up
 * the lock while it reads files.
 */
static int fill_slot(struct dp_transfer *transfer, uint32_t slot)
{
	uint32_t length = transfer->slot_lengths[slot];
	uint8_t *place = place_of(transfer, slot);
	int error;

	if (reads(transfer))
		return dp_mark_put(place, length, &transfer->slot_marks[slot]);
	if (!has_files(transfer))
		return 0;
	pthread_mutex_unlock(&transfer->lane->lock);
	error = dp_extents_read(transfer, place, length);
	pthread_mutex_lock(&transfer->lane->lock);
	return error;
}

/*
 * How long the next piece is. A file's first one is short, and each is as long as all before it
 * until it is a slot's: the wire has something to do soon, and a long transfer has few pieces.
 */
static uint32_t next_length(const struct dp_transfer *transfer)
{
	uint64_t left = transfer->total - transfer->issued;
	uint64_t grown = transfer->issued;

	if (!has_files(transfer))
		return (uint32_t)dp_least(left, transfer->piece);
	if (grown < DP_FIRST_PIECE_BYTES)
		grown = DP_FIRST_PIECE_BYTES;
	if (transfer->fetch && grown > DP_READ_BYTES)
		grown = DP_READ_BYTES;
	return (uint32_t)dp_least(left, dp_least(grown, transfer->piece));
}

/* Send or ask for the next piece, through a free slot; 0 or -errno. */
static int issue(struct dp_transfer *transfer)
{
	uint32_t slot = (uint32_t)__builtin_ctz(free_slots(transfer));
	int error;

	transfer->slot_from[slot] = transfer->issued;
	transfer->slot_lengths[slot] = next_length(transfer);
	error = fill_slot(transfer, slot);
	if (!error && !transfer->status)
		error = post_piece(transfer, slot);
	return error;
}

/* Store what has arrived in one slot. Gives up the lock meanwhile; 0 or pwrite's -errno. */
static int store(struct dp_transfer *transfer)
{
	struct dp_lane *lane = transfer->lane;
	uint32_t slot = (uint32_t)__builtin_ctz(transfer->arrived);
	const uint8_t *from = place_of(transfer, slot);
	uint64_t at = transfer->extents->offset_bytes + transfer->slot_from[slot];
	uint32_t length = transfer->slot_lengths[slot];
	int error;

	pthread_mutex_unlock(&lane->lock);
	error = dp_memory_store(from, length, transfer->extents->fd, at);
	pthread_mutex_lock(&lane->lock);
	transfer->arrived &= ~(UINT32_C(1) << slot);
	if (!error)
		transfer->done += length;
	return error;
}

/*
 * dp_transfer_pump - issue pieces until no slot is free, nothing is left, or the transfer failed.
 *
 * Lane's lock held on entry and on return. The next piece is asked for before an arrived one is
 * stored, so that the wire does not wait for the disk. After an abort nothing is posted, although
 * a pread that had begun goes on: its bytes are never sent.
 */
void dp_transfer_pump(struct dp_transfer *transfer)
{
	assert(!transfer->pumping);
	transfer->pumping = true;
	while (!transfer->status) {
		int error = 0;

		if (transfer->issued < transfer->total && free_slots(transfer))
			error = issue(transfer);
		else if (transfer->arrived)
			error = store(transfer);
		else
			break;
		if (error)
			fail(transfer, error, 0);
	}
	transfer->pumping = false;
}

/* The transfer that a WR's slot number belongs to. */
static struct dp_transfer *transfer_of(struct dp_lane *lane, uint32_t slot)
{
	uint32_t index = lane->joined ? slot / DP_MOVE_SLOTS : 0;

	return index < DP_MOVES_MAX ? &lane->transfers[index] : NULL;
}

/* The work request of @slot went well: it is counted, and done where no file waits for it. */
static void arrive(struct dp_transfer *transfer, uint32_t slot)
{
	struct dp_fabric *fabric = transfer->lane->fabric;
	uint32_t length = transfer->slot_lengths[slot];
	bool read = reads(transfer);

	dp_count(fabric, read ? DP_COUNT_READS : DP_COUNT_WRITES, 1);
	dp_count(fabric, read ? DP_COUNT_READ_BYTES : DP_COUNT_WRITTEN_BYTES, length);
	if (transfer->fetch && has_files(transfer))
		transfer->arrived |= UINT32_C(1) << slot;
	else
		transfer->done += length;
}

/* Whether the work request of @slot did what its success says. */
static bool placed(const struct dp_transfer *transfer, uint32_t slot)
{
	return !reads(transfer) ||
	       !dp_mark_left(place_of(transfer, slot), transfer->slot_lengths[slot],
			     transfer->slot_marks[slot]);
}

/* Account for the completion of @slot's work request, and go on where there is more. */
static void complete(struct dp_transfer *transfer, uint32_t slot, uint32_t wc_status)
{
	uint32_t bit = UINT32_C(1) << slot;

	transfer->posted &= ~bit;
	atomic_fetch_sub(&transfer->lane->fabric->in_flight, 1);
	if (wc_status != IBV_WC_SUCCESS)
		fail(transfer, -EREMOTEIO, wc_status);
	else if (placed(transfer, slot))
		arrive(transfer, slot);
	else
		fail(transfer, -EPROTO, 0);
	if (transfer->status || transfer->pumping ||
	    (transfer->issued == transfer->total && !transfer->arrived))
		return;
	if (has_files(transfer))
		dp_io_queue(&transfer->lane->fabric->io, transfer);
	else
		dp_transfer_pump(transfer);
}

/* dp_transfers_complete - a WR of @lane is over; @slot is its wr_id's. */
void dp_transfers_complete(struct dp_lane *lane, uint32_t slot, uint32_t wc_status)
{
	struct dp_transfer *transfer = transfer_of(lane, slot);

	if (!transfer)
		return;
	slot -= transfer->first_slot;
	/* A device that repeats itself is not believed twice. */
	if (slot < DP_SLOTS_MAX && transfer->posted & UINT32_C(1) << slot)
		complete(transfer, slot, wc_status);
}

/* dp_transfers_forget - the QP is destroyed: what was in flight will never complete. */
void dp_transfers_forget(struct dp_lane *lane)
{
	for (uint32_t i = 0; i < DP_MOVES_MAX; i++) {
		struct dp_transfer *transfer = &lane->transfers[i];
		uint32_t posted = (uint32_t)__builtin_popcount(transfer->posted);

		transfer->posted = 0;
		atomic_fetch_sub(&lane->fabric->in_flight, posted);
		fail(transfer, -ECANCELED, 0);
	}
}

/* dp_transfers_threaded - whether an I/O thread is in one of them, or about to be. */
bool dp_transfers_threaded(const struct dp_lane *lane)
{
	for (uint32_t i = 0; i < DP_MOVES_MAX; i++) {
		if (lane->transfers[i].pumping || lane->transfers[i].queued)
			return true;
	}
	return false;
}

/*
 * Emit the transfer's event once nothing of it is in flight or in a thread; whether it is idle.
 */
static bool settle(struct dp_transfer *transfer)
{
	struct dp_lane *lane = transfer->lane;
	struct dp_event event = {
		.tag = transfer->tag,
		.kind = transfer->kind,
		.bytes = transfer->done,
		.status = transfer->status,
		.wc_status = transfer->wc_status,
	};

	if (transfer->pumping || transfer->queued || transfer->posted)
		return false;
	if (transfer->kind == DP_EVENT_NONE)
		return true;
	if (!transfer->status && transfer->done < transfer->total)
		return false;
	if (transfer->status)
		event.qp_state = lane->fabric->ops->lane_state(lane);
	transfer->kind = DP_EVENT_NONE;
	dp_fabric_emit(lane->fabric, &event);
	return true;
}

/* dp_transfers_settle - emit what has just ended; whether the send side is idle. */
bool dp_transfers_settle(struct dp_lane *lane)
{
	bool idle = true;

	for (uint32_t i = 0; i < DP_MOVES_MAX; i++)
		idle = settle(&lane->transfers[i]) && idle;
	return idle;
}

/* The place of a transfer that nothing occupies, or NULL. A private lane has one. */
static struct dp_transfer *find_idle(struct dp_lane *lane)
{
	uint32_t count = lane->joined ? DP_MOVES_MAX : 1;

	for (uint32_t i = 0; i < count; i++) {
		if (lane->transfers[i].kind == DP_EVENT_NONE)
			return &lane->transfers[i];
	}
	return NULL;
}

/*
 * Whether a transfer of @total bytes may begin, and where; 0 or -errno.
 */
static int find_place(struct dp_lane *lane, uint64_t total, const struct dp_remote *remote,
		      struct dp_transfer **out)
{
	if (lane->state == DP_LANE_ABORTED || lane->state == DP_LANE_DRAINED)
		return -EPIPE;
	if (lane->state != DP_LANE_READY)
		return -ENOTCONN;
	*out = find_idle(lane);
	if (!*out)
		return -EBUSY;
	if (total == 0)
		return -EINVAL;
	return total > remote->length_bytes ? -EMSGSIZE : 0;
}

/* dp_transfer_begin - begin what @wanted says in a free place; takes the lane's lock; 0 or -errno. */
int dp_transfer_begin(struct dp_lane *lane, struct dp_transfer *wanted)
{
	struct dp_transfer *transfer;
	int error;

	pthread_mutex_lock(&lane->lock);
	error = find_place(lane, wanted->total, &wanted->remote, &transfer);
	if (!error) {
		wanted->lane = lane;
		wanted->first_slot = transfer->first_slot;
		*transfer = *wanted;
		if (has_files(transfer)) {
			dp_io_queue(&lane->fabric->io, transfer);
		} else {
			dp_transfer_pump(transfer);
			dp_lane_settle(lane);
		}
	}
	pthread_mutex_unlock(&lane->lock);
	return error;
}
