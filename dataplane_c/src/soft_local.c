/*
 * soft_local.c - where lanes of this host find each other: a Unix socket named after the GID.
 *
 * The name is abstract, so it lives in the network namespace as the UDP port does, and vanishes
 * with the process. Who connects has to say with HELLO which lane it is for; the lane judges.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "soft.h"

#define NAME_PREFIX "s3rdma-soft-1-" /* the number changes with the messages */
#define BACKLOG 128
#define ACCEPT_BATCH 16
#define EVENT_BATCH 32

enum watched {
	WATCHED_LISTENER,
	WATCHED_PENDING,
	WATCHED_LANE,
};

struct soft_local {
	int epoll_fd;
	int listener_fd;
	int spare_fd; /* given up to refuse a connection where no other descriptor is left */
	int pending[SOFT_PENDING_MAX];
	uint32_t oldest;
	bool direct; /* false in tests: every lane takes the ring */
};

static socklen_t name_of(const uint8_t *gid, struct sockaddr_un *out)
{
	char *at = out->sun_path + 1;

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	at += sprintf(at, NAME_PREFIX);
	for (int i = 0; i < DP_GID_BYTES; i++)
		at += sprintf(at, "%02x", gid[i]);
	return (socklen_t)(at - (char *)out);
}

static int open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

/*
 * soft_local_connect - to the NIC of @gid in this network namespace.
 *
 * Returns a descriptor, -ECONNREFUSED (nobody listens there), or socket's and connect's -errno.
 */
int soft_local_connect(const uint8_t *gid)
{
	struct sockaddr_un name;
	socklen_t length = name_of(gid, &name);
	int fd = open_socket();
	int error;

	if (fd < 0 || connect(fd, (struct sockaddr *)&name, length) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static int watch(struct soft_local *self, int fd, enum watched what, uint32_t index, int operation)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | index };

	return epoll_ctl(self->epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

/* soft_local_watch - wake the NIC for @lane when @fd has something; @known: it was watched. */
int soft_local_watch(struct soft_nic *nic, int fd, uint32_t lane, bool known)
{
	return watch(nic->local, fd, WATCHED_LANE, lane, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
}

bool soft_local_direct(const struct soft_nic *nic)
{
	return nic->local->direct;
}

/* soft_local_refuse_direct - for tests: lanes that pair from now on take the ring. */
void soft_local_refuse_direct(struct soft_nic *nic)
{
	nic->local->direct = false;
}

int soft_local_fd(const struct soft_nic *nic)
{
	return nic->local ? nic->local->epoll_fd : -1;
}

static int listen_at(struct soft_local *self, const uint8_t *gid)
{
	struct sockaddr_un name;
	socklen_t length = name_of(gid, &name);

	self->listener_fd = open_socket();
	if (self->listener_fd < 0)
		return self->listener_fd;
	if (bind(self->listener_fd, (struct sockaddr *)&name, length) < 0 ||
	    listen(self->listener_fd, BACKLOG) < 0)
		return -errno;
	return watch(self, self->listener_fd, WATCHED_LISTENER, 0, EPOLL_CTL_ADD);
}

/* soft_local_open - listen for lanes of this host; 0 or -errno, and then nothing remains. */
int soft_local_open(struct soft_nic *nic)
{
	struct soft_local *self = calloc(1, sizeof(*self));
	int error = 0;

	if (!self)
		return -ENOMEM;
	nic->local = self;
	self->direct = true;
	self->listener_fd = -1;
	for (int i = 0; i < SOFT_PENDING_MAX; i++)
		self->pending[i] = -1;
	self->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->spare_fd < 0 || self->epoll_fd < 0)
		error = -errno;
	if (!error)
		error = listen_at(self, nic->gid);
	if (error)
		soft_local_close(nic);
	return error;
}

void soft_local_close(struct soft_nic *nic)
{
	struct soft_local *self = nic->local;

	if (!self)
		return;
	for (int i = 0; i < SOFT_PENDING_MAX; i++)
		soft_fd_close(&self->pending[i]);
	soft_fd_close(&self->listener_fd);
	soft_fd_close(&self->epoll_fd);
	soft_fd_close(&self->spare_fd);
	free(self);
	nic->local = NULL;
}

/* Descriptors are used up: refuse one, or it would keep the listener readable for ever. */
static void refuse_one(struct soft_local *self)
{
	soft_fd_close(&self->spare_fd);
	self->spare_fd = accept(self->listener_fd, NULL, NULL);
	soft_fd_close(&self->spare_fd);
	self->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Connections that came, each to wait for its HELLO; the oldest makes room. */
static void accept_all(struct soft_local *self)
{
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(self->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		uint32_t slot = self->oldest;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			refuse_one(self);
		if (fd < 0)
			return;
		self->oldest = (slot + 1) % SOFT_PENDING_MAX;
		soft_fd_close(&self->pending[slot]);
		self->pending[slot] = fd;
		if (watch(self, fd, WATCHED_PENDING, slot, EPOLL_CTL_ADD))
			soft_fd_close(&self->pending[slot]);
	}
}

/* The lane that @hello is for, locked; NULL where there is none. */
static struct dp_lane *addressee(struct soft_nic *nic, const struct soft_greeting *hello)
{
	uint32_t index = hello->peer_qpn & ((1u << nic->index_bits) - 1);
	struct dp_lane *lane;

	if (index >= nic->options.lanes_max)
		return NULL;
	lane = &nic->fabric->lanes[index];
	pthread_mutex_lock(&lane->lock);
	if (lane->impl && lane->qpn == hello->peer_qpn)
		return lane;
	pthread_mutex_unlock(&lane->lock);
	return NULL;
}

/* A pending connection spoke, or ended: to its lane with it, or away. */
static void introduce(struct soft_nic *nic, uint32_t slot)
{
	struct soft_greeting hello, verdict = { .kind = SOFT_REFUSED };
	int fd = nic->local->pending[slot];
	struct dp_lane *lane = NULL;
	ssize_t length;
	int passed;

	if (fd < 0)
		return;
	length = soft_message_receive(fd, &hello, sizeof(hello), &passed);
	if (length == -EAGAIN)
		return;
	soft_fd_close(&passed);
	nic->local->pending[slot] = -1;
	if (length == (ssize_t)sizeof(hello) && hello.kind == SOFT_HELLO)
		lane = addressee(nic, &hello);
	if (lane) {
		/* Who has hung up may have spoken of an earlier use of the lane. */
		if (!soft_link_gone(fd))
			verdict.kind = soft_link_judge(lane, &hello);
		if (verdict.kind == SOFT_WELCOME) {
			soft_link_adopt(lane, fd, &hello);
			fd = -1;
		}
		soft_nic_mark(lane);
		pthread_mutex_unlock(&lane->lock);
	}
	if (fd >= 0)
		(void)soft_message_send(fd, &verdict, sizeof(verdict), -1);
	soft_fd_close(&fd);
}

/* soft_local_receive - connections in, HELLOs to their lanes; lanes with messages get a turn. */
void soft_local_receive(struct soft_nic *nic)
{
	struct epoll_event events[EVENT_BATCH];
	int count;

	if (!nic->local)
		return;
	count = epoll_wait(nic->local->epoll_fd, events, EVENT_BATCH, 0);
	for (int i = 0; i < count; i++) {
		uint32_t index = (uint32_t)events[i].data.u64;

		switch ((enum watched)(events[i].data.u64 >> 32)) {
		case WATCHED_LISTENER:
			accept_all(nic->local);
			break;
		case WATCHED_PENDING:
			introduce(nic, index);
			break;
		case WATCHED_LANE:
			soft_nic_mark(&nic->fabric->lanes[index]);
			break;
		}
	}
}
