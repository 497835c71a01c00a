/*
 * sums.c - stored bytes held against the sums that stand behind them, while they pass by.
 *
 * A storage may keep, behind a file's bytes, one CRC-64/NVME (big-endian) for each block of
 * DP_SUM_BLOCK_BYTES of them, the last of which may be shorter. An extent that begins or ends
 * inside a block has the rest of it read as well, and forgotten: there is no sum of a part.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core.h"

#define SUM_BYTES sizeof(uint64_t)
#define SUMS_AT_ONCE 32     /* read by one call, on the stack: those of two MiB */
#define REST_AT_ONCE 16384u /* of a block's bytes that nobody asked for, likewise */

/* Some sums of a file, read in one go. */
struct sums {
	uint64_t first; /* the number of the block whose sum is the first */
	uint64_t count;
	uint64_t values[SUMS_AT_ONCE]; /* as they stand in the file */
};

/* Where the block of the byte at @offset ends. */
static uint64_t block_end(const struct dp_extent *extent, uint64_t offset)
{
	uint64_t end = offset - offset % DP_SUM_BLOCK_BYTES + DP_SUM_BLOCK_BYTES;

	return dp_least(end, extent->summed_bytes);
}

/* Bytes of a block that are not sent, but summed with it: [@offset, @end). 0 or -errno. */
static int add_rest(const struct dp_extent *extent, uint64_t offset, uint64_t end, uint64_t *crc)
{
	uint8_t bytes[REST_AT_ONCE];

	while (offset < end) {
		uint64_t part = dp_least(end - offset, sizeof(bytes));
		int error = dp_read_fully(extent->fd, bytes, part, offset);

		if (error)
			return error;
		*crc = dp_crc64nvme(*crc, bytes, part);
		offset += part;
	}
	return 0;
}

/* Whether @crc is the sum of @block: 0, -EBADMSG, or pread's -errno. */
static int compare(const struct dp_extent *extent, struct sums *sums, uint64_t block, uint64_t crc)
{
	if (block - sums->first >= sums->count) {
		uint64_t last = (extent->summed_bytes - 1) / DP_SUM_BLOCK_BYTES;
		int error;

		sums->first = block;
		sums->count = dp_least(last - block + 1, SUMS_AT_ONCE);
		error = dp_read_fully(extent->fd, (uint8_t *)sums->values, sums->count * SUM_BYTES,
				      extent->summed_bytes + block * SUM_BYTES);
		if (error)
			return error;
	}
	return be64toh(sums->values[block - sums->first]) == crc ? 0 : -EBADMSG;
}

/*
 * dp_sums_check - the next @length bytes of @extent, from @offset of its file on.
 *
 * Stretch after stretch, in order: @crc carries a block that two of them share. Of a block that
 * does not end in this stretch nothing is known yet, unless the extent ends here. Returns 0,
 * -EBADMSG (they are not what was stored), or as dp_read_fully.
 */
int dp_sums_check(const struct dp_extent *extent, const uint8_t *bytes, uint64_t length,
		  uint64_t offset, uint64_t *crc)
{
	const uint64_t extent_end = extent->offset_bytes + extent->length_bytes;
	const uint64_t end = offset + length;
	struct sums sums = { .count = 0 };
	int error = 0;

	if (offset == extent->offset_bytes) {
		*crc = 0;
		error = add_rest(extent, offset - offset % DP_SUM_BLOCK_BYTES, offset, crc);
	}
	while (!error && offset < end) {
		uint64_t ends = block_end(extent, offset);
		uint64_t part = dp_least(ends, end) - offset;
		bool last = offset + part == extent_end;

		*crc = dp_crc64nvme(*crc, bytes, part);
		if (last)
			error = add_rest(extent, extent_end, ends, crc);
		if (!error && (last || offset + part == ends)) {
			error = compare(extent, &sums, offset / DP_SUM_BLOCK_BYTES, *crc);
			*crc = 0;
		}
		bytes += part;
		offset += part;
	}
	return error;
}
