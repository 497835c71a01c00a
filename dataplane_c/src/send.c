/* send.c - what a lane can be told to do: send files, move, write, read. */
#include <errno.h>

#include "core.h"

/* Whether @extent has bytes, and all or none of them have sums. */
static bool is_sound(const struct dp_extent *extent)
{
	uint64_t end;

	return extent->length_bytes > 0 &&
	       !__builtin_add_overflow(extent->offset_bytes, extent->length_bytes, &end) &&
	       (extent->summed_bytes == 0 || end <= extent->summed_bytes);
}

/* The bytes of all extents; 0 where there are none or they are out of range. */
static uint64_t total_of(const struct dp_extent *extents, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!is_sound(&extents[i]) ||
		    __builtin_add_overflow(total, extents[i].length_bytes, &total))
			return 0;
	}
	return total;
}

int dp_lane_send(struct dp_lane *lane, const struct dp_extent *extents, uint32_t count,
		 const struct dp_remote *to, uint32_t immediate, uint32_t imm)
{
	struct dp_transfer transfer = {
		.kind = DP_EVENT_SENT,
		.tag = lane->tag,
		.has_imm = immediate == DP_IMM_PRESENT,
		.imm = imm,
		.extents = extents,
		.remote = *to,
		.total = total_of(extents, count),
		.piece = lane->slot_length,
		.slots = lane->slot_count,
	};

	if (lane->joined || transfer.total == 0)
		return -EINVAL;
	for (uint32_t i = 0; i < lane->slot_count; i++)
		transfer.slot_at[i] = (uint64_t)i * lane->slot_length;
	return dp_transfer_begin(lane, &transfer);
}

/* How many bytes a move has; 0 where they are out of range. Without files one slot has them all. */
static uint64_t length_of(const struct dp_move *move, uint32_t piece)
{
	if (move->extent_count)
		return total_of(move->extents, move->extent_count);
	return move->slot_count == 1 && move->remote.length_bytes <= piece
		       ? move->remote.length_bytes
		       : 0;
}

/* Whether every slot of @move lies in the lane's staging. */
static bool check_slots(const struct dp_lane *lane, const struct dp_move *move)
{
	if (!lane->joined || !lane->staging || move->slot_count == 0 ||
	    move->slot_count > DP_MOVE_SLOTS || move->slot_bytes == 0 ||
	    move->slot_bytes > lane->length)
		return false;
	for (uint32_t i = 0; i < move->slot_count; i++) {
		if (move->slots[i] > lane->length - move->slot_bytes)
			return false;
	}
	return true;
}

int dp_lane_move(struct dp_lane *lane, const struct dp_move *move)
{
	uint32_t longest = lane->fabric->options.segment_bytes;
	uint32_t piece = move->slot_bytes < longest ? move->slot_bytes : longest;
	struct dp_transfer transfer = {
		.kind = DP_EVENT_MOVED,
		.tag = move->tag,
		.fetch = move->direction == DP_MOVE_FETCH,
		.has_imm = move->immediate == DP_IMM_PRESENT,
		.imm = move->imm,
		.extents = move->extent_count ? move->extents : NULL,
		.remote = move->remote,
		.total = length_of(move, piece),
		.piece = piece,
		.slots = move->slot_count,
	};

	if (!check_slots(lane, move) || transfer.total == 0 ||
	    (transfer.fetch && move->extent_count > 1))
		return -EINVAL;
	for (uint32_t i = 0; i < move->slot_count; i++)
		transfer.slot_at[i] = move->slots[i];
	return dp_transfer_begin(lane, &transfer);
}

int dp_lane_write(struct dp_lane *lane, uint64_t length_bytes, const struct dp_remote *to,
		  uint32_t imm)
{
	struct dp_transfer transfer = {
		.kind = DP_EVENT_WRITTEN,
		.tag = lane->tag,
		.has_imm = true,
		.imm = imm,
		.remote = *to,
		.total = length_bytes,
		.piece = (uint32_t)length_bytes,
		.slots = 1,
	};

	if (lane->joined || length_bytes > lane->length || length_bytes >= DP_MESSAGE_MAX)
		return -EMSGSIZE;
	return dp_transfer_begin(lane, &transfer);
}

int dp_lane_read(struct dp_lane *lane, uint64_t length_bytes, const struct dp_remote *from)
{
	struct dp_transfer transfer = {
		.kind = DP_EVENT_READ,
		.tag = lane->tag,
		.remote = *from,
		.total = length_bytes,
		.piece = lane->fabric->options.segment_bytes,
		.slots = DP_SLOTS_MAX,
	};

	if (lane->joined || length_bytes > lane->length)
		return -EMSGSIZE;
	return dp_transfer_begin(lane, &transfer);
}
