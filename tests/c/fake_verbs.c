#include "fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define LIMIT_S 20

struct fake fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct ibv_context context;
static struct ibv_comp_channel channel;
static struct ibv_cq cq;
static struct ibv_wc wcs[FAKE_LOG];
static int wc_head, wc_tail;
static int channel_pipe[2], async_pipe[2];
static uint32_t next_qpn;

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_changed(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += LIMIT_S;
	CHECK_EQUAL(pthread_cond_timedwait(&changed, &lock, &limit), 0);
}

/* Lock held. */
static void push_wc(const struct ibv_wc *wc)
{
	char byte = 1;

	CHECK(wc_tail - wc_head < FAKE_LOG);
	wcs[wc_tail++ % FAKE_LOG] = *wc;
	CHECK_EQUAL(write(channel_pipe[1], &byte, 1), 1);
}

static void complete_send(struct fake_send *send, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .wr_id = send->wr.wr_id, .status = status };

	CHECK(!send->completed);
	send->completed = true;
	if (status != IBV_WC_SUCCESS)
		memset((char *)&wc + offsetof(struct ibv_wc, opcode), 0xee,
		       sizeof(wc) - offsetof(struct ibv_wc, opcode));
	push_wc(&wc);
}

static void move_bytes(const struct fake_send *send)
{
	void *local = (void *)(uintptr_t)send->sge.addr;
	void *remote = (void *)(uintptr_t)send->wr.wr.rdma.remote_addr;

	uint32_t length = send->sge.length;

	if (send->wr.opcode == IBV_WR_RDMA_READ)
		memcpy(local, remote, length > fake.unplaced ? length - fake.unplaced : 0);
	else
		memcpy(remote, local, length);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_send *send;

	fake_lock();
	if (fake.send_count + 1 == fake.post_errno_at) {
		*bad = wr;
		fake_unlock();
		return ENOMEM;
	}
	CHECK(fake.send_count < FAKE_LOG);
	send = &fake.sends[fake.send_count++];
	*send = (struct fake_send){ .wr = *wr, .sge = wr->sg_list[0], .qp = qp };
	if (qp->state == IBV_QPS_ERR) {
		complete_send(send, IBV_WC_WR_FLUSH_ERR);
	} else if (!fake.manual) {
		move_bytes(send);
		complete_send(send, IBV_WC_SUCCESS);
	}
	fake_unlock();
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_receive *receive;

	(void)bad;
	fake_lock();
	CHECK(fake.receive_count < FAKE_LOG);
	receive = &fake.receives[fake.receive_count++];
	*receive = (struct fake_receive){ .wr_id = wr->wr_id, .num_sge = wr->num_sge, .qp = qp };
	if (wr->num_sge)
		receive->sge = wr->sg_list[0];
	fake_unlock();
	return 0;
}

static int poll_cq(struct ibv_cq *queue, int max, struct ibv_wc *out)
{
	int count = 0;

	(void)queue;
	fake_lock();
	while (count < max && wc_head != wc_tail)
		out[count++] = wcs[wc_head++ % FAKE_LOG];
	fake_unlock();
	return count;
}

static int req_notify_cq(struct ibv_cq *queue, int solicited)
{
	(void)queue;
	(void)solicited;
	return 0;
}

void fake_wait_sends(int count)
{
	fake_lock();
	while (fake.send_count < count)
		wait_changed();
	fake_unlock();
}

void fake_complete(int send, enum ibv_wc_status status)
{
	fake_lock();
	CHECK(send < fake.send_count);
	if (status == IBV_WC_SUCCESS)
		move_bytes(&fake.sends[send]);
	else
		fake.sends[send].qp->state = IBV_QPS_ERR;
	complete_send(&fake.sends[send], status);
	fake_unlock();
}

void fake_arrive(int receive, uint32_t imm, uint32_t byte_len, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = opcode,
		.byte_len = byte_len,
		.imm_data = htonl(imm),
		.wc_flags = IBV_WC_WITH_IMM,
	};

	fake_lock();
	CHECK(receive < fake.receive_count && !fake.receives[receive].completed);
	fake.receives[receive].completed = true;
	wc.wr_id = fake.receives[receive].wr_id;
	push_wc(&wc);
	fake_unlock();
}

/* Lock held. */
static void fail_receive(struct fake_receive *receive, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .wr_id = receive->wr_id, .status = status, .imm_data = 0xeeeeeeee };

	receive->completed = true;
	push_wc(&wc);
}

void fake_fail_receive(int receive, enum ibv_wc_status status)
{
	fake_lock();
	fail_receive(&fake.receives[receive], status);
	fake_unlock();
}

void fake_stray(uint64_t wr_id)
{
	struct ibv_wc wc = { .wr_id = wr_id, .status = IBV_WC_SUCCESS };

	fake_lock();
	push_wc(&wc);
	fake_unlock();
}

void fake_async(enum ibv_event_type type)
{
	CHECK_EQUAL(write(async_pipe[1], &type, sizeof(type)), sizeof(type));
}

/* The control path: objects are the static ones above, or counted allocations. */

static struct ibv_device **get_device_list(int *count)
{
	struct ibv_device **list;

	(void)count;
	if (fake.no_list_errno) {
		errno = fake.no_list_errno;
		return NULL;
	}
	list = calloc(2, sizeof(struct ibv_device *));
	list[0] = fake.device.name[0] ? &fake.device : NULL;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	fake.live++;
	context = (struct ibv_context){ .device = device, .async_fd = async_pipe[0] };
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.ops.poll_cq = poll_cq;
	context.ops.req_notify_cq = req_notify_cq;
	return &context;
}

static int close_device(struct ibv_context *opened)
{
	(void)opened;
	CHECK_EQUAL(--fake.live, 0); /* the device is the last */
	return 0;
}

static int query_device(struct ibv_context *opened, struct ibv_device_attr *attr)
{
	(void)opened;
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1, .max_qp = 100, .fw_ver = "1.2.3" };
	return 0;
}

static int query_port(struct ibv_context *opened, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	(void)opened;
	if (port != 1)
		return EINVAL;
	memcpy(attr, &fake.port, sizeof(fake.port));
	return 0;
}

static int query_gid_ex(struct ibv_context *opened, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	(void)opened;
	(void)flags;
	CHECK_EQUAL(port, 1);
	CHECK_EQUAL(size, sizeof(*entry));
	if (index >= 4)
		return ENODATA;
	*entry = fake.gids[index];
	return 0;
}

static ssize_t query_gid_table(struct ibv_context *opened, struct ibv_gid_entry *entries,
			       size_t max, uint32_t flags, size_t size)
{
	static const uint8_t zero[DP_GID_BYTES];
	ssize_t count = 0;

	(void)opened;
	(void)flags;
	CHECK_EQUAL(size, sizeof(*entries));
	for (size_t i = 0; i < 4 && (size_t)count < max; i++) {
		if (memcmp(fake.gids[i].gid.raw, zero, sizeof(zero)) != 0)
			entries[count++] = fake.gids[i];
	}
	return count;
}

static struct ibv_pd *alloc_pd(struct ibv_context *opened)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	fake.live++;
	pd->context = opened;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	fake.live--;
	free(pd);
	return 0;
}

static struct ibv_mr *register_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	static uint32_t next_key = 0x1000;
	struct ibv_mr *mr;

	if (fake.register_errno) {
		errno = fake.register_errno;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	fake.live++;
	fake.last_access = access;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = next_key++;
	mr->rkey = next_key++;
	return mr;
}

static int deregister_mr(struct ibv_mr *mr)
{
	fake.live--;
	free(mr);
	return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *opened)
{
	fake.live++;
	channel = (struct ibv_comp_channel){ .context = opened, .fd = channel_pipe[0] };
	return &channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *made)
{
	(void)made;
	fake.live--;
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *opened, int cqe, void *user,
				struct ibv_comp_channel *made, int vector)
{
	fake.live++;
	CHECK_EQUAL(vector, 0);
	cq = (struct ibv_cq){ .context = opened, .channel = made, .cq_context = user, .cqe = cqe };
	return &cq;
}

static int destroy_cq(struct ibv_cq *made)
{
	(void)made;
	fake.live--;
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *made, struct ibv_cq **out, void **user)
{
	char bytes[64];

	*out = &cq;
	*user = NULL;
	return read(made->fd, bytes, sizeof(bytes)) > 0 ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *made, unsigned int count)
{
	(void)made;
	(void)count;
}

static int get_async_event(struct ibv_context *opened, struct ibv_async_event *event)
{
	*event = (struct ibv_async_event){ .element.port_num = 1 };
	return read(opened->async_fd, &event->event_type, sizeof(event->event_type)) > 0 ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	if (fake.create_qp_errno) {
		errno = fake.create_qp_errno;
		return NULL;
	}
	CHECK_EQUAL(attr->qp_type, IBV_QPT_RC);
	CHECK_EQUAL(attr->sq_sig_all, 1);
	qp = calloc(1, sizeof(*qp));
	fake.live++;
	qp->context = pd->context;
	qp->pd = pd;
	qp->qp_num = next_qpn++;
	return qp;
}

/* Lock held. Everything of @qp that is still posted completes with WR_FLUSH_ERR. */
static void flush(const struct ibv_qp *qp)
{
	for (int i = 0; i < fake.send_count; i++) {
		if (fake.sends[i].qp == qp && !fake.sends[i].completed)
			complete_send(&fake.sends[i], IBV_WC_WR_FLUSH_ERR);
	}
	for (int i = 0; i < fake.receive_count; i++) {
		if (fake.receives[i].qp == qp && !fake.receives[i].completed)
			fail_receive(&fake.receives[i], IBV_WC_WR_FLUSH_ERR);
	}
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = 0;

	fake_lock();
	CHECK(fake.modify_count < FAKE_LOG);
	fake.modifies[fake.modify_count++] = (struct fake_modify){ .attr = *attr, .mask = mask };
	if (attr->qp_state == IBV_QPS_ERR && fake.modify_errno)
		error = fake.modify_errno;
	else
		qp->state = attr->qp_state;
	if (!error && attr->qp_state == IBV_QPS_ERR && !fake.swallow_flush)
		flush(qp);
	fake_unlock();
	return error;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	CHECK_EQUAL(mask, IBV_QP_STATE);
	(void)init;
	fake_lock();
	attr->qp_state = qp->state;
	fake_unlock();
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	fake_lock();
	for (int i = 0; i < fake.send_count; i++)
		fake.sends[i].completed |= fake.sends[i].qp == qp;
	for (int i = 0; i < fake.receive_count; i++)
		fake.receives[i].completed |= fake.receives[i].qp == qp;
	fake.live--;
	fake_unlock();
	free(qp);
	return 0;
}

const struct dp_verbs *fake_verbs(void)
{
	static const struct dp_verbs verbs = {
		.get_device_list = get_device_list,
		.free_device_list = free_device_list,
		.open_device = open_device,
		.close_device = close_device,
		.query_device = query_device,
		.query_port = query_port,
		.query_gid_ex = query_gid_ex,
		.query_gid_table = query_gid_table,
		.alloc_pd = alloc_pd,
		.dealloc_pd = dealloc_pd,
		.register_mr = register_mr,
		.deregister_mr = deregister_mr,
		.create_comp_channel = create_comp_channel,
		.destroy_comp_channel = destroy_comp_channel,
		.create_cq = create_cq,
		.destroy_cq = destroy_cq,
		.get_cq_event = get_cq_event,
		.ack_cq_events = ack_cq_events,
		.get_async_event = get_async_event,
		.ack_async_event = ack_async_event,
		.create_qp = create_qp,
		.modify_qp = modify_qp,
		.query_qp = query_qp,
		.destroy_qp = destroy_qp,
	};

	return &verbs;
}

void fake_reset(void)
{
	static const uint8_t ipv4[DP_GID_BYTES] = { [10] = 0xff, 0xff, 10, 77, 0, 1 };

	for (int i = 0; i < 2 && channel_pipe[0]; i++) {
		close(channel_pipe[i]);
		close(async_pipe[i]);
	}
	CHECK_EQUAL(pipe(channel_pipe), 0);
	CHECK_EQUAL(pipe(async_pipe), 0);
	memset(&fake, 0, sizeof(fake));
	wc_head = wc_tail = 0;
	next_qpn = 17;
	fake.device.node_type = IBV_NODE_CA;
	fake.device.transport_type = IBV_TRANSPORT_IB;
	strcpy(fake.device.name, "fake0");
	fake.port.state = IBV_PORT_ACTIVE;
	fake.port.active_mtu = IBV_MTU_4096;
	fake.port.max_mtu = IBV_MTU_4096;
	fake.port.max_msg_sz = 1 << 30;
	fake.port.gid_tbl_len = 4;
	fake.port.lid = 9;
	fake.port.link_layer = IBV_LINK_LAYER_ETHERNET;
	fake.gids[0].gid.raw[0] = 0xfe;
	fake.gids[0].gid_type = IBV_GID_TYPE_ROCE_V1;
	memcpy(fake.gids[1].gid.raw, ipv4, sizeof(ipv4));
	for (uint32_t i = 0; i < 4; i++) {
		fake.gids[i].gid_index = i;
		fake.gids[i].port_num = 1;
	}
	fake.gids[1].gid_type = IBV_GID_TYPE_ROCE_V2;
}

struct dp_fabric_options fake_options(void)
{
	return (struct dp_fabric_options){
		.device = "fake0",
		.port = 1,
		.gid_index = 1,
		.mtu_cap_bytes = 4096,
		.lanes_max = 4,
		.io_threads = 2,
		.spin_us = 20,
		.slot_bytes = 1 << 16,
		.segment_bytes = 1 << 20,
	};
}

struct dp_fabric *fake_open(void)
{
	struct dp_fabric_options options = fake_options();
	struct dp_fabric *fabric;

	CHECK_EQUAL(dp_verbs_fabric_open(fake_verbs(), &options, &fabric), 0);
	return fabric;
}

struct dp_event fake_event(struct dp_fabric *fabric)
{
	struct pollfd fd = { .fd = dp_fabric_fd(fabric), .events = POLLIN };
	struct dp_event event;

	CHECK_EQUAL(poll(&fd, 1, LIMIT_S * 1000), 1);
	CHECK_EQUAL(dp_fabric_drain(fabric, &event, 1), 1);
	return event;
}

bool fake_quiet(struct dp_fabric *fabric)
{
	struct pollfd fd = { .fd = dp_fabric_fd(fabric), .events = POLLIN };

	return poll(&fd, 1, 30) == 0;
}
