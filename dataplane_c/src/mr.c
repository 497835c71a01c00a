/* mr.c - the verbs side of domains and regions: PDs and MRs. */
#include <errno.h>

#include "verbs.h"

int dp_pd_open(struct dp_domain *domain)
{
	struct dp_verbs_fabric *fabric = dp_verbs_of(domain->fabric);

	errno = 0;
	domain->impl = fabric->verbs.alloc_pd(fabric->context);
	return domain->impl ? 0 : dp_verbs_error();
}

void dp_pd_close(struct dp_domain *domain)
{
	dp_verbs_of(domain->fabric)->verbs.dealloc_pd(domain->impl);
}

/* dp_access_flags - enum dp_access as enum ibv_access_flags. */
int dp_access_flags(uint32_t access)
{
	int flags = 0;

	if (access & (DP_ACCESS_LOCAL_WRITE | DP_ACCESS_REMOTE_WRITE))
		flags |= IBV_ACCESS_LOCAL_WRITE; /* REMOTE_WRITE is invalid without it */
	if (access & DP_ACCESS_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & DP_ACCESS_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	return flags;
}

int dp_mr_open(struct dp_region *region)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = dp_verbs_of(region->domain->fabric)
		     ->verbs.register_mr(region->domain->impl, region->memory, region->length,
					 dp_access_flags(region->access));
	if (!mr)
		return dp_verbs_error();
	region->impl = mr;
	region->rkey = mr->rkey;
	return 0;
}

/* The device itself ends what a peer is doing with memory that is deregistered. */
void dp_mr_revoke(struct dp_lane *lane, const struct dp_region *region)
{
	(void)lane;
	(void)region;
}

void dp_mr_close(struct dp_region *region)
{
	dp_verbs_of(region->domain->fabric)->verbs.deregister_mr(region->impl);
}
