/*
 * domain.c - protection domains and the memory registered in them.
 *
 * A private lane has a domain of its own with one region (dp_lane_open). A shared one serves the
 * connections of a gateway, which lend slots of one region that no peer can reach, or those of a
 * client, whose regions come and go with its buffers.
 */
#include <errno.h>
#include <stdlib.h>

#include "core.h"

/* Into the fabric's list. lanes_lock held. */
static void link_domain(struct dp_domain *domain)
{
	domain->next = domain->fabric->domains;
	domain->fabric->domains = domain;
}

static void unlink_domain(struct dp_domain *domain)
{
	struct dp_domain **at = &domain->fabric->domains;

	while (*at != domain)
		at = &(*at)->next;
	*at = domain->next;
}

static int make_domain(struct dp_fabric *fabric, uint32_t regions_max, struct dp_domain **out)
{
	size_t length = sizeof(struct dp_domain) + regions_max * sizeof(struct dp_region *);
	struct dp_domain *self = dp_fabric_alloc(fabric, length);
	int error;

	if (!self)
		return -ENOMEM;
	self->fabric = fabric;
	self->regions_max = regions_max;
	error = fabric->ops->domain_open(self);
	if (error) {
		free(self);
		return error;
	}
	pthread_mutex_init(&self->lock, NULL);
	link_domain(self);
	*out = self;
	return 0;
}

static void free_domain(struct dp_domain *domain)
{
	unlink_domain(domain);
	domain->fabric->ops->domain_close(domain);
	pthread_mutex_destroy(&domain->lock);
	free(domain);
}

int dp_domain_open(struct dp_fabric *fabric, struct dp_domain **out)
{
	int error;

	pthread_mutex_lock(&fabric->lanes_lock);
	error = make_domain(fabric, DP_REGIONS_MAX, out);
	pthread_mutex_unlock(&fabric->lanes_lock);
	return error;
}

int dp_domain_close(struct dp_domain **domain)
{
	struct dp_domain *self = *domain;
	struct dp_fabric *fabric = self->fabric;
	int error = -EBUSY;

	pthread_mutex_lock(&fabric->lanes_lock);
	if (self->lanes == 0 && self->region_count == 0) {
		free_domain(self);
		*domain = NULL;
		error = 0;
	}
	pthread_mutex_unlock(&fabric->lanes_lock);
	return error;
}

/* A free place in the table, or regions_max. */
static uint32_t find_free(const struct dp_domain *domain)
{
	uint32_t index = 0;

	while (index < domain->regions_max && domain->regions[index])
		index++;
	return index;
}

/* Make @region known to lanes; 0 or -ENOSPC. */
static int publish(struct dp_region *region)
{
	struct dp_domain *domain = region->domain;
	int error = -ENOSPC;

	pthread_mutex_lock(&domain->lock);
	region->index = find_free(domain);
	if (region->index < domain->regions_max) {
		domain->regions[region->index] = region;
		domain->region_count++;
		error = 0;
	}
	pthread_mutex_unlock(&domain->lock);
	return error;
}

static void withdraw(struct dp_region *region)
{
	struct dp_domain *domain = region->domain;

	pthread_mutex_lock(&domain->lock);
	domain->regions[region->index] = NULL;
	domain->region_count--;
	pthread_mutex_unlock(&domain->lock);
}

int dp_region_open(struct dp_domain *domain, void *memory, uint64_t length_bytes, uint32_t access,
		   struct dp_region **out)
{
	struct dp_region *self;
	int error;

	if (!memory || length_bytes == 0)
		return -EINVAL;
	self = dp_fabric_alloc(domain->fabric, sizeof(*self));
	if (!self)
		return -ENOMEM;
	self->domain = domain;
	self->memory = memory;
	self->length = length_bytes;
	self->access = access;
	error = domain->fabric->ops->region_open(self);
	if (error) {
		free(self);
		return error;
	}
	dp_count(domain->fabric, DP_COUNT_REGIONS, 1);
	error = publish(self);
	if (error) {
		domain->fabric->ops->region_close(self);
		free(self);
		return error;
	}
	*out = self;
	return 0;
}

/* Let each lane of the domain drop what it is doing with @region. lanes_lock held. */
static void revoke(struct dp_region *region)
{
	struct dp_fabric *fabric = region->domain->fabric;

	for (uint32_t i = 0; i < fabric->options.lanes_max; i++) {
		struct dp_lane *lane = &fabric->lanes[i];

		pthread_mutex_lock(&lane->lock);
		if (lane->state != DP_LANE_CLOSED && lane->domain == region->domain)
			fabric->ops->region_revoke(lane, region);
		pthread_mutex_unlock(&lane->lock);
	}
}

/* Deregister a region that no lane finds or uses any more. */
static void free_region(struct dp_region *region)
{
	region->domain->fabric->ops->region_close(region);
	free(region);
}

void dp_region_close(struct dp_region **region)
{
	struct dp_fabric *fabric = (*region)->domain->fabric;

	withdraw(*region);
	pthread_mutex_lock(&fabric->lanes_lock);
	revoke(*region);
	pthread_mutex_unlock(&fabric->lanes_lock);
	free_region(*region);
	*region = NULL;
}

uint32_t dp_region_rkey(const struct dp_region *region)
{
	return region->rkey;
}

/* dp_domain_private - a domain with one region, for a lane of its own. lanes_lock held. */
int dp_domain_private(struct dp_fabric *fabric, void *memory, uint64_t length, uint32_t access,
		      struct dp_region **out)
{
	struct dp_domain *domain;
	int error = make_domain(fabric, 1, &domain);

	if (error)
		return error;
	error = dp_region_open(domain, memory, length, access, out);
	if (error)
		free_domain(domain);
	return error;
}

/* dp_domain_discard - a private domain whose lane is gone, with its region. lanes_lock held. */
void dp_domain_discard(struct dp_region *region)
{
	struct dp_domain *domain = region->domain;

	withdraw(region);
	free_region(region);
	free_domain(domain);
}

/* dp_domains_end - what a fabric that is closed still has; its lanes are gone already. */
void dp_domains_end(struct dp_fabric *fabric)
{
	while (fabric->domains) {
		struct dp_domain *domain = fabric->domains;

		for (uint32_t i = 0; i < domain->regions_max; i++) {
			if (domain->regions[i])
				free_region(domain->regions[i]);
		}
		free_domain(domain);
	}
}
