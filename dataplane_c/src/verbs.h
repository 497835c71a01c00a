/*
 * verbs.h - libibverbs as a table of functions, loaded when it is wanted.
 *
 * The data path (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) is inline in
 * <infiniband/verbs.h> and goes through ibv_context.ops, so it needs no entry here.
 */
#ifndef DP_VERBS_H
#define DP_VERBS_H

#include <infiniband/verbs.h>

#include "core.h"

struct dp_verbs {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *attr);
	int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_size);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*register_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	int (*deregister_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int count);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
	int (*destroy_qp)(struct ibv_qp *qp);
};

/* An opened device port: dp_fabric.impl. */
struct dp_verbs_fabric {
	struct dp_verbs verbs;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	enum ibv_mtu mtu;
	uint8_t port;
	uint8_t gid_index;
};

static inline struct dp_verbs_fabric *dp_verbs_of(const struct dp_fabric *fabric)
{
	return fabric->impl;
}

/* The errno of a verb that returns one (some return -1 and set errno). */
static inline int dp_verbs_result(int result)
{
	return result > 0 ? -result : result < 0 ? -errno : 0;
}

/* The errno of a verb that returned NULL; never 0. */
static inline int dp_verbs_error(void)
{
	return errno ? -errno : -EIO;
}

/* verbs.c */
int dp_verbs_load(struct dp_verbs *verbs);

/* device.c */
int dp_device_open(const struct dp_verbs *verbs, const char *name, struct ibv_context **out);
int dp_device_port(const struct dp_verbs *verbs, struct ibv_context *context, uint8_t port,
		   struct ibv_port_attr *attr);
int dp_device_gid(const struct dp_verbs *verbs, struct ibv_context *context, uint32_t port,
		  uint32_t index, struct dp_gid *out);
enum dp_transport dp_device_transport(const struct ibv_device *device);
enum dp_link dp_device_link(const struct ibv_port_attr *attr);
uint32_t dp_mtu_bytes(enum ibv_mtu mtu);
enum ibv_mtu dp_mtu_at_most(uint32_t bytes);
int dp_port_list_with(const struct dp_verbs *verbs, struct dp_port *ports, uint32_t max);
int dp_gid_list_with(const struct dp_verbs *verbs, const char *device, uint32_t port,
		     struct dp_gid *gids, uint32_t max);

/* verbs_fabric.c */
int dp_verbs_fabric_open(const struct dp_verbs *verbs, const struct dp_fabric_options *options,
			 struct dp_fabric **out);

/* mr.c */
int dp_pd_open(struct dp_domain *domain);
void dp_pd_close(struct dp_domain *domain);
int dp_mr_open(struct dp_region *region);
void dp_mr_revoke(struct dp_lane *lane, const struct dp_region *region);
void dp_mr_close(struct dp_region *region);
int dp_access_flags(uint32_t access);

/* qp.c */
int dp_qp_open(struct dp_lane *lane);
void dp_qp_close(struct dp_lane *lane);
int dp_qp_prepare(struct dp_lane *lane, uint32_t access);
int dp_qp_connect(struct dp_lane *lane, const struct dp_peer *peer);
int dp_qp_error(struct dp_lane *lane);
int dp_qp_reset(struct dp_lane *lane);
int dp_qp_replace(struct dp_lane *lane);
uint32_t dp_qp_state(struct dp_lane *lane);
int dp_qp_post(struct dp_lane *lane, const struct dp_segment *segment);
int dp_qp_post_receive(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length);

#endif
