/* verbs_fabric.c - a device port behind libibverbs: one CQ, one completion channel, its events. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "soft.h"
#include "verbs.h"

#define POLL_MAX 32
#define CQES_PER_LANE (DP_WRS_MAX + 1)

static struct dp_verbs_fabric *self_of(const struct dp_fabric *fabric)
{
	return fabric->impl;
}

static int fabric_poll(struct dp_fabric *fabric, struct dp_completion *out, int max)
{
	struct ibv_wc wcs[POLL_MAX];
	int count = ibv_poll_cq(self_of(fabric)->cq, max < POLL_MAX ? max : POLL_MAX, wcs);

	for (int i = 0; i < count; i++) {
		const struct ibv_wc *wc = &wcs[i];

		out[i] = (struct dp_completion){ .wr_id = wc->wr_id, .status = wc->status };
		if (wc->status != IBV_WC_SUCCESS)
			continue; /* every other field is undefined */
		out[i].byte_len = wc->byte_len;
		out[i].write_imm = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
				   wc->wc_flags & IBV_WC_WITH_IMM;
		if (out[i].write_imm)
			out[i].imm = ntohl(wc->imm_data);
	}
	return count;
}

static int fabric_arm(struct dp_fabric *fabric)
{
	return dp_verbs_result(ibv_req_notify_cq(self_of(fabric)->cq, 0));
}

static int fabric_pollfds(struct dp_fabric *fabric, struct pollfd *out)
{
	out[0] = (struct pollfd){ .fd = self_of(fabric)->channel->fd, .events = POLLIN };
	out[1] = (struct pollfd){ .fd = self_of(fabric)->context->async_fd, .events = POLLIN };
	return 2;
}

/* What an asynchronous event says of the port; others show in completions or not at all. */
static void judge(struct dp_fabric *fabric, const struct ibv_async_event *event)
{
	bool ours = event->element.port_num == self_of(fabric)->port;

	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR:
		dp_fabric_set_health(fabric, DP_HEALTH_GONE);
		break;
	case IBV_EVENT_PORT_ERR:
		if (ours)
			dp_fabric_set_health(fabric, DP_HEALTH_PORT_DOWN);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		if (ours)
			dp_fabric_set_health(fabric, DP_HEALTH_OK);
		break;
	default:
		break;
	}
}

static void fabric_serve(struct dp_fabric *fabric)
{
	struct dp_verbs_fabric *self = self_of(fabric);
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;

	/* Both fds are non-blocking; every event taken must be acknowledged, or destroy blocks. */
	while (self->verbs.get_cq_event(self->channel, &cq, &context) == 0)
		self->verbs.ack_cq_events(cq, 1);
	while (self->verbs.get_async_event(self->context, &event) == 0) {
		judge(fabric, &event);
		self->verbs.ack_async_event(&event);
	}
	if (errno != EAGAIN && errno != EINTR)
		dp_fabric_set_health(fabric, DP_HEALTH_GONE); /* EIO: the device was removed */
}

static void self_close(struct dp_verbs_fabric *self)
{
	if (self->cq)
		self->verbs.destroy_cq(self->cq);
	if (self->channel)
		self->verbs.destroy_comp_channel(self->channel);
	if (self->context)
		self->verbs.close_device(self->context);
	free(self);
}

static void fabric_close(struct dp_fabric *fabric)
{
	self_close(self_of(fabric));
}

static const char *carrier_of(struct dp_lane *lane)
{
	(void)lane;
	return "verbs";
}

static const struct dp_fabric_ops OPS = {
	.domain_open = dp_pd_open,
	.domain_close = dp_pd_close,
	.region_open = dp_mr_open,
	.region_revoke = dp_mr_revoke,
	.region_close = dp_mr_close,
	.lane_open = dp_qp_open,
	.lane_close = dp_qp_close,
	.lane_prepare = dp_qp_prepare,
	.lane_connect = dp_qp_connect,
	.lane_error = dp_qp_error,
	.lane_reset = dp_qp_reset,
	.lane_replace = dp_qp_replace,
	.lane_state = dp_qp_state,
	.lane_carrier = carrier_of,
	.post = dp_qp_post,
	.post_receive = dp_qp_post_receive,
	.poll = fabric_poll,
	.arm = fabric_arm,
	.pollfds = fabric_pollfds,
	.serve = fabric_serve,
	.close = fabric_close,
};

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* The port's MTU, LID and GID, checked; 0 or dp_fabric_open's errors. */
static int read_port(struct dp_verbs_fabric *self, const struct dp_fabric_options *options,
		     struct dp_fabric_info *info)
{
	struct ibv_port_attr attr;
	struct dp_gid gid;
	uint32_t mtu_bytes;
	int error;

	if (dp_device_transport(self->context->device) == DP_TRANSPORT_IWARP)
		return -EPROTONOSUPPORT;
	error = dp_device_port(&self->verbs, self->context, self->port, &attr);
	if (error)
		return error;
	if (attr.state != IBV_PORT_ACTIVE)
		return -ENETDOWN;
	if (dp_device_gid(&self->verbs, self->context, self->port, self->gid_index, &gid))
		return -EINVAL;
	mtu_bytes = dp_mtu_bytes(attr.active_mtu);
	self->mtu = dp_mtu_at_most(options->mtu_cap_bytes < mtu_bytes ? options->mtu_cap_bytes
								      : mtu_bytes);
	memcpy(info->gid, gid.gid, sizeof(info->gid));
	info->link = dp_device_link(&attr);
	info->lid = info->link == DP_LINK_INFINIBAND ? attr.lid : 0;
	info->mtu_active_bytes = mtu_bytes;
	info->mtu_bytes = dp_mtu_bytes(self->mtu);
	info->message_max_bytes = attr.max_msg_sz;
	return 0;
}

/* CQ and completion channel; 0 or -errno, the caller undoes. */
static int make_cq(struct dp_verbs_fabric *self, uint32_t lanes_max)
{
	int cqes = (int)lanes_max * CQES_PER_LANE;
	int error;

	errno = 0;
	self->channel = self->verbs.create_comp_channel(self->context);
	if (!self->channel)
		return dp_verbs_error();
	errno = 0;
	self->cq = self->verbs.create_cq(self->context, cqes, NULL, self->channel, 0);
	if (!self->cq) /* EINVAL: more entries than the device can (ibv_create_cq(3)) */
		return errno == EINVAL ? -E2BIG : dp_verbs_error();
	error = set_nonblocking(self->channel->fd);
	return error ? error : set_nonblocking(self->context->async_fd);
}

/* dp_verbs_fabric_open - dp_fabric_open over a loaded library. */
int dp_verbs_fabric_open(const struct dp_verbs *verbs, const struct dp_fabric_options *options,
			 struct dp_fabric **out)
{
	struct dp_verbs_fabric *self;
	struct dp_fabric_info info = { 0 };
	int error = -EINVAL;

	if (options->port == 0 || options->port > UINT8_MAX || options->gid_index > UINT8_MAX ||
	    options->lanes_max == 0 || options->lanes_max > DP_LANES_MAX)
		return error;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -ENOMEM;
	self->verbs = *verbs;
	self->port = (uint8_t)options->port;
	self->gid_index = (uint8_t)options->gid_index;
	error = dp_device_open(verbs, options->device, &self->context);
	if (!error)
		error = read_port(self, options, &info);
	if (!error)
		error = make_cq(self, options->lanes_max);
	if (!error)
		error = dp_fabric_start(options, &OPS, self, &info, out);
	if (error)
		self_close(self);
	return error;
}

int dp_fabric_open(const struct dp_fabric_options *options, struct dp_fabric **out)
{
	struct dp_verbs verbs;
	int error;

	if (options->kind == DP_FABRIC_SOFT)
		return dp_soft_fabric_open(options, out);
	if (options->kind != DP_FABRIC_VERBS)
		return -EINVAL;
	error = dp_verbs_load(&verbs);
	return error ? error : dp_verbs_fabric_open(&verbs, options, out);
}
