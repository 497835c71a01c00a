/* soft_region.c - what a soft lane's peer may reach: the regions of the lane's domain. */
#include <errno.h>
#include <sys/random.h>

#include "soft.h"

int soft_domain_open(struct dp_domain *domain)
{
	(void)domain;
	return 0;
}

void soft_domain_close(struct dp_domain *domain)
{
	(void)domain;
}

/* An rkey that nobody can foresee. */
int soft_region_open(struct dp_region *region)
{
	ssize_t got = getrandom(&region->rkey, sizeof(region->rkey), 0);

	return got == (ssize_t)sizeof(region->rkey) ? 0 : -errno;
}

void soft_region_close(struct dp_region *region)
{
	region->rkey = 0;
}

static struct dp_region *find(struct dp_domain *domain, uint32_t rkey)
{
	for (uint32_t i = 0; i < domain->regions_max; i++) {
		if (domain->regions[i] && domain->regions[i]->rkey == rkey)
			return domain->regions[i];
	}
	return NULL;
}

/*
 * soft_lane_grant - where [@va, @va + @length) of the region that @rkey names lies.
 *
 * NULL where the peer may not touch it: an rkey of no region, an access that was not granted, a
 * byte outside. Every carrier asks it for every request, after soft_lane_admits. Lane's lock held; the pointer is good
 * until the region is revoked, which takes the same lock.
 */
uint8_t *soft_lane_grant(const struct dp_lane *lane, uint32_t access, uint32_t rkey, uint64_t va,
			 uint64_t length)
{
	struct dp_domain *domain = lane->domain;
	struct dp_region *region;
	uint8_t *found = NULL;

	pthread_mutex_lock(&domain->lock);
	region = find(domain, rkey);
	if (region && region->access & access) {
		uint64_t offset = va - (uintptr_t)region->memory;

		if (offset <= region->length && length <= region->length - offset)
			found = region->memory + offset;
	}
	pthread_mutex_unlock(&domain->lock);
	return found;
}

static bool inside(const struct dp_region *region, const uint8_t *at)
{
	return at && at >= region->memory && at <= region->memory + region->length;
}

/*
 * soft_region_revoke - break a message that is still going in or out of @region.
 *
 * A carrier without packets asks for a grant before each piece, and is waited for where it is in
 * the middle of one. What a peer on this host was granted to read it may still be reading: whoever
 * can't be sure that it is done ends the lane first, and then it counts for nothing.
 */
void soft_region_revoke(struct dp_lane *lane, const struct dp_region *region)
{
	struct soft_responder *responder = &soft_qp_of(lane)->responder;
	bool writing = responder->message && inside(region, responder->cursor);
	bool reading = responder->reading && inside(region, responder->read_from);

	if (writing || reading)
		soft_responder_reject(lane, SOFT_SYNDROME_ACCESS);
	soft_copy_outlast(lane);
}
