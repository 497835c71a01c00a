/* device.c - what RDMA devices there are, and what their ports say of themselves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

uint32_t dp_mtu_bytes(enum ibv_mtu mtu)
{
	return UINT32_C(128) << mtu; /* IBV_MTU_256 is 1 */
}

/* The largest path MTU of at most @bytes, but no less than the smallest there is. */
enum ibv_mtu dp_mtu_at_most(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && dp_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

enum dp_transport dp_device_transport(const struct ibv_device *device)
{
	if (device->node_type == IBV_NODE_RNIC || device->transport_type == IBV_TRANSPORT_IWARP)
		return DP_TRANSPORT_IWARP;
	return device->transport_type == IBV_TRANSPORT_IB ? DP_TRANSPORT_IB : DP_TRANSPORT_OTHER;
}

enum dp_link dp_device_link(const struct ibv_port_attr *attr)
{
	switch (attr->link_layer) {
	case IBV_LINK_LAYER_ETHERNET:
		return DP_LINK_ETHERNET;
	case IBV_LINK_LAYER_INFINIBAND:
	case IBV_LINK_LAYER_UNSPECIFIED: /* from before there was another */
		return DP_LINK_INFINIBAND;
	default:
		return DP_LINK_UNKNOWN;
	}
}

/* The device list, which is NULL with ENOSYS where the kernel has no RDMA; 0 or -errno. */
static int device_list(const struct dp_verbs *verbs, struct ibv_device ***out)
{
	errno = 0;
	*out = verbs->get_device_list(NULL);
	if (*out)
		return 0;
	return errno ? -errno : -ENOSYS;
}

/* dp_device_open - by name; 0, -ENODEV, or the errno of opening it. */
int dp_device_open(const struct dp_verbs *verbs, const char *name, struct ibv_context **out)
{
	struct ibv_device **list;
	struct ibv_context *context;
	int error = device_list(verbs, &list);

	if (error)
		return error;
	error = -ENODEV;
	for (struct ibv_device **at = list; *at && error == -ENODEV; at++) {
		if (strcmp((*at)->name, name) != 0)
			continue;
		errno = 0;
		context = verbs->open_device(*at);
		error = context ? 0 : dp_verbs_error();
		if (context)
			*out = context;
	}
	verbs->free_device_list(list);
	return error;
}

/* dp_device_port - as ibv_query_port's inline wrapper does it, without linking the library. */
int dp_device_port(const struct dp_verbs *verbs, struct ibv_context *context, uint8_t port,
		   struct ibv_port_attr *attr)
{
	struct verbs_context *extended = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	if (extended)
		return dp_verbs_result(extended->query_port(context, port, attr, sizeof(*attr)));
	return dp_verbs_result(
		verbs->query_port(context, port, (struct _compat_ibv_port_attr *)attr));
}

static struct dp_gid gid_of(const struct ibv_gid_entry *entry)
{
	struct dp_gid gid = { .index = entry->gid_index, .type = entry->gid_type };

	memcpy(gid.gid, entry->gid.raw, sizeof(gid.gid));
	return gid;
}

/* dp_device_gid - one entry of the table; 0, -ENODATA (it is empty), or an errno. */
int dp_device_gid(const struct dp_verbs *verbs, struct ibv_context *context, uint32_t port,
		  uint32_t index, struct dp_gid *out)
{
	static const uint8_t zero[DP_GID_BYTES];
	struct ibv_gid_entry entry;
	int error = dp_verbs_result(
		verbs->query_gid_ex(context, port, index, &entry, 0, sizeof(entry)));

	if (error)
		return error;
	if (memcmp(entry.gid.raw, zero, sizeof(zero)) == 0)
		return -ENODATA;
	*out = gid_of(&entry);
	return 0;
}

static void describe_port(const struct ibv_device_attr *device, const struct ibv_port_attr *attr,
			  struct dp_port *out)
{
	memcpy(out->firmware, device->fw_ver, sizeof(out->firmware));
	out->firmware[sizeof(out->firmware) - 1] = '\0';
	out->link = dp_device_link(attr);
	out->state = attr->state;
	out->lid = out->link == DP_LINK_INFINIBAND ? attr->lid : 0;
	out->mtu_bytes = dp_mtu_bytes(attr->active_mtu);
	out->mtu_max_bytes = dp_mtu_bytes(attr->max_mtu);
	out->message_max_bytes = attr->max_msg_sz;
	out->gid_count = attr->gid_tbl_len > 0 ? (uint32_t)attr->gid_tbl_len : 0;
	out->qp_max = (uint32_t)device->max_qp;
	out->cqe_max = (uint32_t)device->max_cqe;
	out->mr_max = (uint32_t)device->max_mr;
}

_Static_assert(sizeof(((struct ibv_device_attr *)NULL)->fw_ver) == DP_NAME_BYTES,
	       "struct dp_port.firmware holds the whole of fw_ver");

/* The ports of one device into @ports, room for @max; returns how many there are, at least 1. */
static uint32_t describe_device(const struct dp_verbs *verbs, struct ibv_device *device,
				struct dp_port *ports, uint32_t max)
{
	struct dp_port row = { .transport = dp_device_transport(device) };
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_context *context;
	uint32_t count = 1;

	snprintf(row.device, sizeof(row.device), "%s", device->name);
	errno = 0;
	context = verbs->open_device(device);
	row.error = context ? dp_verbs_result(verbs->query_device(context, &attr))
			    : dp_verbs_error();
	if (row.error) {
		if (max > 0)
			ports[0] = row;
		goto out;
	}
	count = attr.phys_port_cnt;
	for (uint32_t i = 0; i < count && i < max; i++) {
		row.port = i + 1;
		row.error = dp_device_port(verbs, context, (uint8_t)row.port, &port);
		if (!row.error)
			describe_port(&attr, &port, &row);
		ports[i] = row;
	}
out:
	if (context)
		verbs->close_device(context);
	return count;
}

/* dp_port_list_with - dp_port_list over a loaded library. */
int dp_port_list_with(const struct dp_verbs *verbs, struct dp_port *ports, uint32_t max)
{
	struct ibv_device **list;
	uint32_t count = 0;
	int error = device_list(verbs, &list);

	if (error)
		return error;
	for (struct ibv_device **at = list; *at; at++) {
		uint32_t stored = count < max ? count : max;

		count += describe_device(verbs, *at, ports + stored, max - stored);
	}
	verbs->free_device_list(list);
	return (int)count;
}

int dp_port_list(struct dp_port *ports, uint32_t max)
{
	struct dp_verbs verbs;
	int error = dp_verbs_load(&verbs);

	return error ? error : dp_port_list_with(&verbs, ports, max);
}

/* The port's entries of the device's GID table into @gids; how many, or -errno. */
static int copy_gids(const struct dp_verbs *verbs, struct ibv_context *context, uint32_t port,
		     struct dp_gid *gids, uint32_t max)
{
	struct ibv_device_attr device;
	struct ibv_port_attr attr;
	struct ibv_gid_entry *entries;
	uint32_t count = 0;
	ssize_t found;
	size_t room;
	int error = dp_verbs_result(verbs->query_device(context, &device));

	if (!error)
		error = dp_device_port(verbs, context, (uint8_t)port, &attr);
	if (error)
		return error;
	room = (size_t)attr.gid_tbl_len * device.phys_port_cnt;
	entries = calloc(room, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	found = verbs->query_gid_table(context, entries, room, 0, sizeof(*entries));
	for (ssize_t i = 0; i < found; i++) {
		if (entries[i].port_num != port)
			continue;
		if (count < max)
			gids[count] = gid_of(&entries[i]);
		count++;
	}
	free(entries);
	return found < 0 ? (int)found : (int)count;
}

/* dp_gid_list_with - dp_gid_list over a loaded library. */
int dp_gid_list_with(const struct dp_verbs *verbs, const char *device, uint32_t port,
		     struct dp_gid *gids, uint32_t max)
{
	struct ibv_context *context;
	int result = dp_device_open(verbs, device, &context);

	if (result)
		return result;
	result = copy_gids(verbs, context, port, gids, max);
	verbs->close_device(context);
	return result;
}

int dp_gid_list(const char *device, uint32_t port, struct dp_gid *gids, uint32_t max)
{
	struct dp_verbs verbs;
	int error = dp_verbs_load(&verbs);

	return error ? error : dp_gid_list_with(&verbs, device, port, gids, max);
}
