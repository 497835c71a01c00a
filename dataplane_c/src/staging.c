/* staging.c - memory that lanes are made of, and the file I/O into and out of it. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "core.h"

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
#define PAGE_BYTES 4096u

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* Faulting here, once, costs a twentieth of faulting under the first transfers (MEASURED.md). */
static void touch(uint8_t *memory, uint64_t length)
{
	for (uint64_t offset = 0; offset < length; offset += PAGE_BYTES)
		((volatile uint8_t *)memory)[offset] = 0;
}

int dp_slab_map(uint64_t *length_bytes, void **out)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint64_t length = round_up(*length_bytes, HUGE_PAGE_BYTES);
	void *slab;

	if (*length_bytes == 0 || length < *length_bytes)
		return -EINVAL;
	slab = mmap(NULL, length, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
	if (slab == MAP_FAILED) {
		slab = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (slab == MAP_FAILED)
			return -errno;
		madvise(slab, length, MADV_HUGEPAGE); /* a wish; without it pages are small */
	}
	/* A forked child must not copy-on-write pages that the device knows by address. */
	madvise(slab, length, MADV_DONTFORK);
	touch(slab, length);
	*length_bytes = length;
	*out = slab;
	return 0;
}

void dp_slab_unmap(void *slab, uint64_t length_bytes)
{
	munmap(slab, length_bytes);
}

/*
 * dp_slots_cut - decide the pieces that a lane's memory is used in when files go through it.
 *
 * At least DP_SLOTS_WANTED slots, so that reading overlaps sending, unless that made them shorter
 * than a page; at most DP_SLOTS_MAX, the send queue's depth. Slots are page-aligned where they
 * can be. @longest: upper bound of a slot, > 0.
 */
void dp_slots_cut(struct dp_lane *lane, uint32_t longest)
{
	uint64_t length = lane->length / DP_SLOTS_WANTED / PAGE_BYTES * PAGE_BYTES;

	if (length == 0)
		length = lane->length < PAGE_BYTES ? lane->length : PAGE_BYTES;
	if (length > longest)
		length = longest;
	lane->slot_length = (uint32_t)length;
	lane->slot_count = lane->length / length < DP_SLOTS_MAX ? (uint32_t)(lane->length / length)
								: DP_SLOTS_MAX;
}

/* dp_read_fully - pread all of @length; 0, pread's -errno, -ENODATA (the file ends before). */
int dp_read_fully(int fd, uint8_t *out, uint64_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t got = pread(fd, out, length, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA;
		out += got;
		length -= (uint64_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

/*
 * dp_extents_read - the next @length bytes of the transfer's extents, one after the other.
 *
 * Only the pumping thread; without the lane's lock, because a disk may be slow. The extents
 * hold at least @length more bytes. Returns 0, -ENODATA (a file is shorter), -EBADMSG (not what
 * was stored), pread's -errno.
 */
int dp_extents_read(struct dp_transfer *transfer, uint8_t *out, uint32_t length)
{
	while (length > 0) {
		const struct dp_extent *extent = &transfer->extents[transfer->extent_index];
		uint64_t left = extent->length_bytes - transfer->extent_done;
		uint32_t part = left < length ? (uint32_t)left : length;
		uint64_t offset = extent->offset_bytes + transfer->extent_done;
		int error = dp_read_fully(extent->fd, out, part, offset);

		if (!error && extent->summed_bytes)
			error = dp_sums_check(extent, out, part, offset, &transfer->block_crc);
		if (error)
			return error;
		out += part;
		length -= part;
		transfer->extent_done += part;
		if (transfer->extent_done == extent->length_bytes) {
			transfer->extent_index++;
			transfer->extent_done = 0;
		}
	}
	return 0;
}

int dp_memory_store(const void *memory, uint64_t length_bytes, int fd, uint64_t offset_bytes)
{
	const uint8_t *from = memory;

	while (length_bytes > 0) {
		ssize_t put = pwrite(fd, from, length_bytes, (off_t)offset_bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		from += put;
		length_bytes -= (uint64_t)put;
		offset_bytes += (uint64_t)put;
	}
	return 0;
}
