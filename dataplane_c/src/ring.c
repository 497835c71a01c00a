#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * dp_ring_init - room for at least @least events, and a non-blocking eventfd.
 *
 * Returns 0, -EINVAL (@least is 0 or beyond 2^31), -ENOMEM, or eventfd's errno.
 */
int dp_ring_init(struct dp_ring *ring, uint32_t least)
{
	uint32_t capacity = 1;

	if (least == 0 || least > UINT32_C(1) << 31)
		return -EINVAL;
	while (capacity < least)
		capacity <<= 1;
	*ring = (struct dp_ring){ .capacity = capacity };
	ring->events = calloc(capacity, sizeof(*ring->events));
	if (!ring->events)
		return -ENOMEM;
	ring->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ring->fd < 0) {
		int error = -errno;

		free(ring->events);
		return error;
	}
	pthread_mutex_init(&ring->lock, NULL);
	return 0;
}

void dp_ring_destroy(struct dp_ring *ring)
{
	pthread_mutex_destroy(&ring->lock);
	close(ring->fd);
	free(ring->events);
}

/* The counter can't overflow: it is cleared whenever the bounded ring is emptied. */
static void ring_signal(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void ring_clear(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

/* dp_ring_push - append @event and make the eventfd readable; 0, or -ENOSPC and nothing done. */
int dp_ring_push(struct dp_ring *ring, const struct dp_event *event)
{
	int result = -ENOSPC;

	pthread_mutex_lock(&ring->lock);
	if (ring->tail - ring->head < ring->capacity) {
		ring->events[ring->tail++ & (ring->capacity - 1)] = *event;
		ring_signal(ring->fd);
		result = 0;
	}
	pthread_mutex_unlock(&ring->lock);
	return result;
}

/* dp_ring_drain - take up to @max events, oldest first; returns how many. */
uint32_t dp_ring_drain(struct dp_ring *ring, struct dp_event *out, uint32_t max)
{
	uint32_t count = 0;

	pthread_mutex_lock(&ring->lock);
	while (count < max && ring->head != ring->tail)
		out[count++] = ring->events[ring->head++ & (ring->capacity - 1)];
	if (ring->head == ring->tail)
		ring_clear(ring->fd);
	pthread_mutex_unlock(&ring->lock);
	return count;
}
