/* Files that keep sums: every cut of every extent is read right, and a flipped bit is found. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "core.h"

#define BLOCK ((uint64_t)DP_SUM_BLOCK_BYTES)
#define LENGTH (40 * BLOCK + 12345) /* more sums than are read at once, and a short block */

static uint8_t data[LENGTH];
static uint8_t out[LENGTH];

static void put_sum(int fd, uint64_t block)
{
	uint64_t start = block * BLOCK;
	uint64_t length = LENGTH - start < BLOCK ? LENGTH - start : BLOCK;
	uint64_t sum = htobe64(dp_crc64nvme(0, data + start, length));

	CHECK_EQUAL(pwrite(fd, &sum, 8, (off_t)(LENGTH + 8 * block)), 8);
}

/* A file with the data and its sums. */
static int make_object(void)
{
	int fd = memfd_create("object", 0);

	for (uint64_t i = 0; i < LENGTH; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	CHECK_EQUAL(pwrite(fd, data, LENGTH, 0), LENGTH);
	for (uint64_t block = 0; block * BLOCK < LENGTH; block++)
		put_sum(fd, block);
	return fd;
}

static void flip(int fd, uint64_t offset)
{
	uint8_t byte;

	CHECK_EQUAL(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 0x10;
	CHECK_EQUAL(pwrite(fd, &byte, 1, (off_t)offset), 1);
}

/* Read [@first, @end) in pieces, as slots do; 0 or the first -errno. */
static int read_in_pieces(int fd, uint64_t first, uint64_t end, uint32_t piece)
{
	const struct dp_extent extent = {
		.fd = fd, .offset_bytes = first, .length_bytes = end - first, .summed_bytes = LENGTH
	};
	struct dp_transfer transfer = { .extents = &extent };
	uint64_t done = 0;
	int error = 0;

	while (!error && done < end - first) {
		uint64_t left = end - first - done;
		uint32_t part = left < piece ? (uint32_t)left : piece;

		error = dp_extents_read(&transfer, out + done, part);
		done += part;
	}
	return error;
}

static const struct {
	uint64_t first, end;
} RANGES[] = {
	{ 0, LENGTH },
	{ 0, 1 },
	{ LENGTH - 1, LENGTH },
	{ BLOCK, 2 * BLOCK },
	{ BLOCK - 1, BLOCK + 1 },
	{ 3, LENGTH - 3 },
	{ 5 * BLOCK + 7, 5 * BLOCK + 9 },
	{ 40 * BLOCK, LENGTH },
	{ 40 * BLOCK + 1, LENGTH - 1 },
};
static const uint32_t PIECES[] = { 1000, 4096, BLOCK, BLOCK + 4096, 1 << 20, LENGTH };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void reads_every_cut(void)
{
	int fd = make_object();

	for (size_t i = 0; i < COUNT(RANGES); i++) {
		uint64_t length = RANGES[i].end - RANGES[i].first;

		for (size_t k = 0; k < COUNT(PIECES); k++) {
			CHECK_EQUAL(read_in_pieces(fd, RANGES[i].first, RANGES[i].end, PIECES[k]),
				    0);
			CHECK_EQUAL(memcmp(out, data + RANGES[i].first, length), 0);
		}
	}
	close(fd);
}

/* Whether the block of @offset is one of those that the range touches. */
static bool touches(size_t range, uint64_t offset)
{
	return offset / BLOCK >= RANGES[range].first / BLOCK &&
	       offset / BLOCK <= (RANGES[range].end - 1) / BLOCK;
}

static void finds_a_flipped_bit_in_every_block_that_is_touched(void)
{
	static const uint64_t AT[] = {
		0, BLOCK - 1, BLOCK, 5 * BLOCK + 80, 32 * BLOCK, LENGTH - 1
	};
	int fd = make_object();

	for (size_t flipped = 0; flipped < COUNT(AT); flipped++) {
		flip(fd, AT[flipped]);
		for (size_t i = 0; i < COUNT(RANGES); i++) {
			int expected = touches(i, AT[flipped]) ? -EBADMSG : 0;

			for (size_t k = 0; k < COUNT(PIECES); k++)
				CHECK_EQUAL(read_in_pieces(fd, RANGES[i].first, RANGES[i].end,
							   PIECES[k]),
					    expected);
		}
		flip(fd, AT[flipped]);
	}
	close(fd);
}

static void finds_a_flipped_bit_in_a_sum(void)
{
	int fd = make_object();

	flip(fd, LENGTH + 8 * 33 + 2);
	CHECK_EQUAL(read_in_pieces(fd, 0, 33 * BLOCK, 1 << 20), 0);
	CHECK_EQUAL(read_in_pieces(fd, 0, LENGTH, 1 << 20), -EBADMSG);
	CHECK_EQUAL(read_in_pieces(fd, 33 * BLOCK + 1, 33 * BLOCK + 2, 4096), -EBADMSG);
	close(fd);
}

static void tells_of_sums_that_are_not_there(void)
{
	int fd = make_object();

	CHECK_EQUAL(ftruncate(fd, (off_t)(LENGTH + 8 * 40)), 0);
	CHECK_EQUAL(read_in_pieces(fd, 0, LENGTH, 1 << 20), -ENODATA);
	CHECK_EQUAL(ftruncate(fd, (off_t)(BLOCK + 1)), 0);
	CHECK_EQUAL(read_in_pieces(fd, BLOCK, BLOCK + 1, 4096), -ENODATA);
	close(fd);
}

static void begins_anew_with_each_extent(void)
{
	int fd = make_object();
	const struct dp_extent extents[] = {
		{ .fd = fd, .offset_bytes = 9, .length_bytes = 11, .summed_bytes = LENGTH },
		{ .fd = fd, .offset_bytes = BLOCK - 5, .length_bytes = 50 },
		{ .fd = fd, .offset_bytes = 7, .length_bytes = BLOCK, .summed_bytes = LENGTH },
	};
	struct dp_transfer transfer = { .extents = extents };

	CHECK_EQUAL(dp_extents_read(&transfer, out, 61 + (uint32_t)BLOCK), 0);
	CHECK_EQUAL(memcmp(out, data + 9, 11), 0);
	CHECK_EQUAL(memcmp(out + 61, data + 7, BLOCK), 0);
	close(fd);
}

int main(void)
{
	RUN(reads_every_cut);
	RUN(finds_a_flipped_bit_in_every_block_that_is_touched);
	RUN(finds_a_flipped_bit_in_a_sum);
	RUN(tells_of_sums_that_are_not_there);
	RUN(begins_anew_with_each_extent);
	return 0;
}
