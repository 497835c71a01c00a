/* counters.c - what a fabric has done so far, for whoever watches it; nothing here decides. */
#include <stdlib.h>

#include "core.h"

/* Nothing is ordered by a counter: the cheapest addition will do. */
static void add(atomic_ulong *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static uint64_t read_now(const atomic_ulong *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* dp_count - @by more of @counter. Any thread, with or without locks. */
void dp_count(struct dp_fabric *fabric, enum dp_counter counter, uint64_t by)
{
	add(&fabric->counts[counter], by);
}

/* dp_count_completion - one was polled. */
void dp_count_completion(struct dp_fabric *fabric, uint32_t wc_status)
{
	add(&fabric->completions[wc_status < DP_STATUSES ? wc_status : DP_STATUSES - 1], 1);
}

/*
 * dp_fabric_alloc - @length bytes of zeros for free(3), counted; NULL where there are none.
 *
 * All heap memory that is taken once a fabric is open comes through here, so that the counter shows
 * whether a transfer takes any.
 */
void *dp_fabric_alloc(struct dp_fabric *fabric, size_t length)
{
	dp_count(fabric, DP_COUNT_ALLOCATIONS, 1);
	return calloc(1, length);
}

void dp_fabric_counters(const struct dp_fabric *fabric, struct dp_counters *out)
{
	for (uint32_t i = 0; i < DP_COUNTERS; i++)
		out->counts[i] = read_now(&fabric->counts[i]);
	for (uint32_t i = 0; i < DP_STATUSES; i++)
		out->completions[i] = read_now(&fabric->completions[i]);
}
