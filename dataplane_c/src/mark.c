/*
 * mark.c - what tells whether a READ that succeeded has placed its data.
 *
 * A device may call a READ done although its data never came, or not all of it: kernel Soft-RoCE
 * does where a response is out of turn, and for an ACK in its stead. What the place held before,
 * another client's bytes, would then pass for the data. So the place of a READ ends with a mark
 * while it is posted. A READ's packets come in order: what leaves out that many bytes or more
 * leaves the mark. A new one for each READ, since what leaves out less shows a part of it.
 *
 * By chance data ends with its mark once in 2^64 READs; the transfer then fails for nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core.h"

/*
 * dp_mark_put - mark the end of the @length bytes at @place; 0 or getrandom's -errno.
 *
 * A place that is shorter than a mark is zeroed: data that is missing there is not noticed, but
 * nothing else shows.
 */
int dp_mark_put(uint8_t *place, uint32_t length, uint64_t *mark)
{
	if (length < sizeof(*mark)) {
		memset(place, 0, length);
		return 0;
	}
	if (getrandom(mark, sizeof(*mark), 0) != (ssize_t)sizeof(*mark))
		return -errno;
	memcpy(place + length - sizeof(*mark), mark, sizeof(*mark));
	return 0;
}

/* dp_mark_left - whether the place still ends with @mark, although it should hold data now. */
bool dp_mark_left(const uint8_t *place, uint32_t length, uint64_t mark)
{
	return length >= sizeof(mark) &&
	       memcmp(place + length - sizeof(mark), &mark, sizeof(mark)) == 0;
}
