/* Memory and files: how a lane is cut, and what reading and storing do at every end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "core.h"

static int file_of(const char *text)
{
	int fd = memfd_create("test", 0);

	CHECK_EQUAL(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void cuts_lanes_into_slots(void)
{
	static const struct {
		uint64_t length;
		uint32_t longest, slot_length, slot_count;
	} ROWS[] = {
		{ 1, 1 << 20, 1, 1 },
		{ 4095, 1 << 20, 4095, 1 },
		{ 4096, 1 << 20, 4096, 1 },
		{ 3 * 4096, 1 << 20, 4096, 3 },
		{ 1 << 20, 1 << 20, 1 << 18, 4 },
		{ 8 << 20, 1 << 20, 1 << 20, 8 },
		{ 64 << 20, 1 << 20, 1 << 20, 16 },
		{ 64 << 20, 8 << 20, 8 << 20, 8 },
		{ UINT64_C(8) << 30, 1, 1, 16 },
	};

	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct dp_lane lane = { .length = ROWS[i].length };

		dp_slots_cut(&lane, ROWS[i].longest);
		CHECK_EQUAL(lane.slot_length, ROWS[i].slot_length);
		CHECK_EQUAL(lane.slot_count, ROWS[i].slot_count);
		CHECK((uint64_t)lane.slot_length * lane.slot_count <= lane.length);
	}
}

static void reads_across_extents(void)
{
	int one = file_of("abcdefgh"), two = file_of("01234567");
	const struct dp_extent extents[] = {
		{ .fd = one, .offset_bytes = 2, .length_bytes = 3 },
		{ .fd = two, .offset_bytes = 7, .length_bytes = 1 },
		{ .fd = one, .offset_bytes = 0, .length_bytes = 4 },
	};
	struct dp_transfer transfer = { .extents = extents };
	uint8_t out[9] = { 0 };

	CHECK_EQUAL(dp_extents_read(&transfer, out, 2), 0);
	CHECK_EQUAL(dp_extents_read(&transfer, out + 2, 5), 0);
	CHECK_EQUAL(dp_extents_read(&transfer, out + 7, 1), 0);
	CHECK_EQUAL(strcmp((char *)out, "cde7abcd"), 0);
	close(one);
	close(two);
}

static void tells_a_short_file_from_a_broken_one(void)
{
	int fd = file_of("abc"), memory = open("/proc/self/mem", O_RDONLY);
	struct dp_extent extent = { .fd = fd, .length_bytes = 4 };
	struct dp_transfer transfer = { .extents = &extent };
	uint8_t out[4];

	CHECK_EQUAL(dp_extents_read(&transfer, out, 4), -ENODATA);
	extent.fd = -1;
	CHECK_EQUAL(dp_extents_read(&transfer, out, 4), -EBADF);
	extent.fd = memory; /* nothing is mapped at 0: the kernel's own EIO */
	CHECK_EQUAL(dp_extents_read(&transfer, out, 4), -EIO);
	close(fd);
	close(memory);
}

static void stores_all_or_says_why_not(void)
{
	int fd = file_of("........"), full = open("/dev/full", O_WRONLY);
	char out[9] = { 0 };

	CHECK_EQUAL(dp_memory_store("abcd", 4, fd, 3), 0);
	CHECK_EQUAL(pread(fd, out, 8, 0), 8);
	CHECK_EQUAL(strcmp(out, "...abcd."), 0);
	CHECK_EQUAL(dp_memory_store("abcd", 4, full, 0), -ENOSPC);
	CHECK_EQUAL(dp_memory_store("abcd", 4, -1, 0), -EBADF);
	close(fd);
	close(full);
}

static void maps_whole_zeroed_slabs(void)
{
	uint64_t length = 4097, none = 0, too_much = UINT64_MAX;
	void *slab;

	CHECK_EQUAL(dp_slab_map(&length, &slab), 0);
	CHECK_EQUAL(length, 2 << 20);
	CHECK_EQUAL((uintptr_t)slab % 4096, 0);
	CHECK_EQUAL(((uint8_t *)slab)[length - 1], 0);
	dp_slab_unmap(slab, length);
	CHECK_EQUAL(dp_slab_map(&none, &slab), -EINVAL);
	CHECK_EQUAL(dp_slab_map(&too_much, &slab), -EINVAL);
}

int main(void)
{
	RUN(cuts_lanes_into_slots);
	RUN(reads_across_extents);
	RUN(tells_a_short_file_from_a_broken_one);
	RUN(stores_all_or_says_why_not);
	RUN(maps_whole_zeroed_slabs);
	return 0;
}
