/* ring.h - a bounded queue of events with an eventfd beside it: many producers, one consumer. */
#ifndef DP_RING_H
#define DP_RING_H

#include <pthread.h>

#include "dataplane.h"

struct dp_ring {
	pthread_mutex_t lock;
	struct dp_event *events;
	uint32_t capacity; /* a power of two */
	uint32_t head;     /* next to take; counts on, wraps at 2^32 */
	uint32_t tail;     /* next to fill */
	int fd;
};

int dp_ring_init(struct dp_ring *ring, uint32_t least);
void dp_ring_destroy(struct dp_ring *ring);
int dp_ring_push(struct dp_ring *ring, const struct dp_event *event);
uint32_t dp_ring_drain(struct dp_ring *ring, struct dp_event *out, uint32_t max);

#endif
