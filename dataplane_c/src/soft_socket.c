/*
 * soft_socket.c - packets to and from UDP: batches, and where the kernel can, many to a datagram.
 *
 * UDP_SEGMENT lets one datagram carry a train of packets of one length (the last may be shorter),
 * UDP_GRO brings them in the same way. The kernel numbers a train's IPv4 identifications from 0,
 * which each packet's ICRC has to know; it does not matter to who receives the train whole.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft.h"
#include "soft_crc.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SEND_PACKETS (SOFT_TURN_PACKETS + 2) /* and an ACK, and a NAK */
#define TRAIN_BYTES 65000u
#define TRAIN_PACKETS 64u /* UDP_MAX_SEGMENTS */
#define RECEIVE_BATCH 8
#define BUFFER_BYTES (4 << 20) /* wished for; the kernel gives what its limit allows */
#define BUFFER_PARTS 3
#define WINDOW_LEAST_BYTES (64 << 10)
#define UDP_BYTES 8u
#define FULL_WAIT_MS 1 /* for a full send buffer, before the rest counts as lost */

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

struct sending {
	struct mmsghdr messages[SEND_PACKETS];
	union control controls[SEND_PACKETS];
	uint32_t segment[SEND_PACKETS]; /* length of a message's packets */
	uint32_t packets[SEND_PACKETS]; /* in a message */
	uint32_t bytes[SEND_PACKETS];
	bool closed[SEND_PACKETS]; /* a shorter packet has ended it */
	struct iovec parts[SEND_PACKETS * 3];
	uint8_t heads[SEND_PACKETS][SOFT_HEAD_BYTES];
	uint8_t tails[SEND_PACKETS][4 + SOFT_ICRC_BYTES];
	uint32_t message_count;
	uint32_t packet_count;
	uint32_t part_count;
};

struct receiving {
	struct mmsghdr messages[RECEIVE_BATCH];
	union control controls[RECEIVE_BATCH];
	union soft_address from[RECEIVE_BATCH];
	struct iovec parts[RECEIVE_BATCH];
	uint8_t buffers[RECEIVE_BATCH][SOFT_DATAGRAM_BYTES];
};

struct soft_socket {
	int fd;
	bool trains;
	struct soft_faults *faults;
	struct sending sending;
	struct receiving receiving;
};

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

/*
 * How much one lane may have in flight: what the receive buffer holds, the peer's being taken to
 * be like ours. The kernel counts its own bookkeeping too, hence a part of it only.
 */
static uint32_t window_of(int fd)
{
	socklen_t length = sizeof(int);
	int buffer = 0;

	(void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, &length);
	buffer /= BUFFER_PARTS;
	if (buffer < WINDOW_LEAST_BYTES)
		return WINDOW_LEAST_BYTES;
	return buffer < SOFT_WINDOW_BYTES ? (uint32_t)buffer : SOFT_WINDOW_BYTES;
}

/* Don't fragment: then the identification is 0, which the ICRC covers. */
static int set_up(struct soft_socket *self, bool ipv4)
{
	int error = ipv4 ? set_option(self->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
			 : set_option(self->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);

	/* Beyond net.core.rmem_max only CAP_NET_ADMIN can: peers like rxe don't mind our window. */
	if (set_option(self->fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES))
		(void)set_option(self->fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
	(void)set_option(self->fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
	(void)set_option(self->fd, IPPROTO_UDP, UDP_GRO, 1);
	/* 0 is its default: only a kernel that knows it takes it. */
	self->trains = !self->faults && !set_option(self->fd, IPPROTO_UDP, UDP_SEGMENT, 0);
	return error;
}

static void prepare_receiving(struct receiving *self)
{
	for (int i = 0; i < RECEIVE_BATCH; i++) {
		self->parts[i] = (struct iovec){ self->buffers[i], sizeof(self->buffers[i]) };
		self->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &self->from[i],
			.msg_iov = &self->parts[i],
			.msg_iovlen = 1,
			.msg_control = &self->controls[i],
		};
	}
}

/* soft_socket_open - bind nic->gid, or choose it where it is zero; 0 or -errno. */
int soft_socket_open(struct soft_nic *nic)
{
	static const uint8_t ANY[DP_GID_BYTES];
	bool ipv4 = soft_address_is_ipv4(nic->gid) || memcmp(nic->gid, ANY, sizeof(ANY)) == 0;
	struct soft_socket *self = calloc(1, sizeof(*self));
	int error = 0;

	if (!self)
		return -ENOMEM;
	nic->socket = self;
	self->fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (self->fd < 0)
		error = -errno;
	if (!error && soft_has_faults(&nic->options.faults))
		error = soft_faults_open(&nic->options.faults, &self->faults);
	if (!error)
		error = set_up(self, ipv4);
	if (!error)
		error = soft_bind(self->fd, nic->gid);
	prepare_receiving(&self->receiving);
	nic->window_bytes = window_of(self->fd);
	return error;
}

void soft_socket_close(struct soft_nic *nic)
{
	struct soft_socket *self = nic->socket;

	if (!self)
		return;
	if (self->fd >= 0)
		close(self->fd);
	soft_faults_close(self->faults);
	free(self);
	nic->socket = NULL;
}

int soft_socket_fd(const struct soft_nic *nic)
{
	return nic->socket->fd;
}

/* The source of a datagram as a flow to us; false where it is of another family. */
static bool flow_of(const struct soft_nic *nic, const union soft_address *from,
		    struct soft_flow *out)
{
	static const uint8_t MAPPED[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(out->target, nic->gid, sizeof(out->target));
	out->target_port = SOFT_PORT;
	if (from->any.sa_family == AF_INET) {
		memcpy(out->source, MAPPED, sizeof(MAPPED));
		memcpy(out->source + 12, &from->v4.sin_addr, 4);
		out->source_port = ntohs(from->v4.sin_port);
		return true;
	}
	memcpy(out->source, &from->v6.sin6_addr, sizeof(out->source));
	out->source_port = ntohs(from->v6.sin6_port);
	return from->any.sa_family == AF_INET6;
}

/* The length of a train's packets; of the whole where it is none. */
static size_t segment_of(struct msghdr *message, size_t length)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		int segment;

		if (at->cmsg_level != IPPROTO_UDP || at->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(at), sizeof(segment));
		return segment > 0 ? (size_t)segment : length;
	}
	return length;
}

static void take_datagram(struct soft_nic *nic, uint32_t index, uint64_t now_ns)
{
	struct receiving *self = &nic->socket->receiving;
	struct msghdr *message = &self->messages[index].msg_hdr;
	size_t length = self->messages[index].msg_len;
	size_t segment = segment_of(message, length);
	struct soft_flow flow;

	if (message->msg_flags & MSG_TRUNC || !flow_of(nic, &self->from[index], &flow)) {
		dp_count(nic->fabric, DP_COUNT_PACKETS_MALFORMED, 1);
		return;
	}
	for (size_t at = 0, id = 0; at < length; at += segment, id++) {
		size_t left = length - at;

		soft_nic_take(nic, &flow, (uint16_t)id, self->buffers[index] + at,
			      left < segment ? left : segment, now_ns);
	}
}

/* soft_socket_receive - one batch of datagrams to their lanes; whether there was any. */
bool soft_socket_receive(struct soft_nic *nic, uint64_t now_ns)
{
	struct receiving *self = &nic->socket->receiving;
	int count;

	for (int i = 0; i < RECEIVE_BATCH; i++) {
		self->messages[i].msg_hdr.msg_namelen = sizeof(self->from[i]);
		self->messages[i].msg_hdr.msg_controllen = sizeof(self->controls[i]);
	}
	count = recvmmsg(nic->socket->fd, self->messages, RECEIVE_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++)
		take_datagram(nic, (uint32_t)i, now_ns);
	nic->backlog = count == RECEIVE_BATCH;
	return count > 0;
}

/* The message that a packet of @length joins, begun where the last one can't take it. */
static uint32_t message_for(struct soft_socket *socket, uint32_t length)
{
	struct sending *self = &socket->sending;
	uint32_t last = self->message_count - 1;

	if (socket->trains && self->message_count && !self->closed[last] &&
	    length <= self->segment[last] && self->packets[last] < TRAIN_PACKETS &&
	    self->bytes[last] + length <= TRAIN_BYTES) {
		self->closed[last] = length < self->segment[last];
		return last;
	}
	last = self->message_count++;
	self->messages[last].msg_hdr = (struct msghdr){ .msg_iov = &self->parts[self->part_count] };
	self->segment[last] = length;
	self->packets[last] = 0;
	self->bytes[last] = 0;
	self->closed[last] = false;
	return last;
}

static void add_part(struct sending *self, uint32_t message, const void *bytes, uint32_t length)
{
	/* sendmmsg does not write to what it sends. */
	self->parts[self->part_count++] = (struct iovec){ (void *)(uintptr_t)bytes, length };
	self->messages[message].msg_hdr.msg_iovlen++;
	self->bytes[message] += length;
}

/* soft_socket_add - @packet to the batch; its payload stays where it is until the flush. */
void soft_socket_add(struct soft_nic *nic, const struct soft_qp *qp,
		     const struct soft_packet *packet)
{
	struct sending *self = &nic->socket->sending;
	uint8_t *head = self->heads[self->packet_count];
	uint8_t *tail = self->tails[self->packet_count];
	uint32_t head_length = soft_packet_head(packet, head);
	uint32_t pad = soft_packet_pad(packet);
	uint32_t length = head_length + packet->length + pad + SOFT_ICRC_BYTES;
	uint32_t message = message_for(nic->socket, length);
	uint32_t crc = soft_icrc_begin(&qp->out, (uint16_t)self->packets[message],
				       length + UDP_BYTES, head, head_length);

	memset(tail, 0, pad);
	if (packet->length)
		crc = dp_crc_update(crc, packet->payload, packet->length);
	crc = ~dp_crc_update(crc, tail, pad);
	for (uint32_t i = 0; i < SOFT_ICRC_BYTES; i++)
		tail[pad + i] = (uint8_t)(crc >> 8 * i);
	add_part(self, message, head, head_length);
	if (packet->length)
		add_part(self, message, packet->payload, packet->length);
	add_part(self, message, tail, pad + SOFT_ICRC_BYTES);
	self->packets[message]++;
	self->packet_count++;
}

/* Tell the kernel where to cut a train. */
static void mark_train(struct sending *self, uint32_t message)
{
	struct msghdr *header = &self->messages[message].msg_hdr;
	uint16_t segment = (uint16_t)self->segment[message];
	struct cmsghdr *control;

	header->msg_control = &self->controls[message];
	header->msg_controllen = CMSG_SPACE(sizeof(segment));
	control = CMSG_FIRSTHDR(header);
	control->cmsg_level = IPPROTO_UDP;
	control->cmsg_type = UDP_SEGMENT;
	control->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(control), &segment, sizeof(segment));
}

/* All messages, in order. What the kernel refuses is lost, as on a wire. */
static void send_all(struct soft_nic *nic)
{
	struct sending *self = &nic->socket->sending;
	struct pollfd room = { .fd = nic->socket->fd, .events = POLLOUT };
	bool waited = false;

	for (uint32_t at = 0; at < self->message_count;) {
		int sent = sendmmsg(room.fd, self->messages + at, self->message_count - at, 0);

		if (sent > 0) {
			at += (uint32_t)sent;
			waited = false;
		} else if (errno == EAGAIN && !waited) {
			waited = true;
			(void)poll(&room, 1, FULL_WAIT_MS);
		} else if (errno != EINTR) {
			dp_count(nic->fabric, DP_COUNT_DATAGRAMS_UNSENT, 1);
			at++;
		}
	}
}

/* soft_socket_flush - send the batch to @qp's peer. */
void soft_socket_flush(struct soft_nic *nic, const struct soft_qp *qp)
{
	struct sending *self = &nic->socket->sending;
	union soft_address to;

	if (!self->message_count)
		return;
	soft_address_set(&to, qp->out.target, SOFT_PORT);
	for (uint32_t i = 0; i < self->message_count; i++) {
		self->messages[i].msg_hdr.msg_name = &to;
		self->messages[i].msg_hdr.msg_namelen = soft_address_length(&to);
		if (self->packets[i] > 1)
			mark_train(self, i);
		if (nic->socket->faults)
			soft_faults_send(nic->socket->faults, nic->socket->fd,
					 &self->messages[i].msg_hdr, soft_now_ns());
	}
	if (!nic->socket->faults)
		send_all(nic);
	self->message_count = self->packet_count = self->part_count = 0;
}

/* soft_socket_release - packets that faults held back; when to come again. */
uint64_t soft_socket_release(struct soft_nic *nic, uint64_t now_ns)
{
	struct soft_socket *self = nic->socket;

	return self->faults ? soft_faults_release(self->faults, self->fd, now_ns) : SOFT_NEVER;
}
