/* soft_local_link.c - a lane's Unix socket: messages of a fixed size, and its end. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "soft.h"

union passing {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/*
 * soft_message_send - @message, with the descriptor @pass unless that is -1.
 *
 * To a peer that has gone it is lost, as a packet would be: what the peer said before is still to
 * be read, and then its end. Returns 0 or -errno; -EAGAIN (the peer does not read) is an end too.
 */
int soft_message_send(int fd, const void *message, size_t length, int pass)
{
	struct iovec part = { (void *)(uintptr_t)message, length }; /* sendmsg only reads */
	union passing control = { 0 };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	if (pass >= 0) {
		header.msg_control = &control;
		header.msg_controllen = sizeof(control);
		control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.align), &pass, sizeof(pass));
	}
	if (sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EPIPE ||
	    errno == ECONNRESET)
		return 0;
	return -errno;
}

/* The descriptor that came along; -1 for none. There is room for one, the kernel drops others. */
static int passed_fd(struct msghdr *header)
{
	const struct cmsghdr *at = CMSG_FIRSTHDR(header);
	int fd;

	if (!at || at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS ||
	    at->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(at), sizeof(fd));
	return fd;
}

/*
 * soft_message_receive - one message of at most @size bytes.
 *
 * @passed: the descriptor that came with it, the caller's from now on, or -1. Returns its length,
 * 0 (the peer has gone), -EAGAIN (nothing yet), -EPROTO (too long).
 */
ssize_t soft_message_receive(int fd, void *out, size_t size, int *passed)
{
	struct iovec part = { out, size };
	union passing control;
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t length;

	*passed = -1;
	/* A reset is reported once, before what was sent earlier (unix(7) has no other order). */
	do {
		header.msg_control = &control;
		header.msg_controllen = sizeof(control);
		length = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (length < 0 && (errno == EINTR || errno == ECONNRESET));
	if (length < 0)
		return -errno;
	*passed = passed_fd(&header);
	return header.msg_flags & MSG_TRUNC ? -EPROTO : length;
}

void soft_link_init(struct soft_link *link)
{
	*link = (struct soft_link){
		.fd = -1, .ring_ours = -1, .ring_theirs = -1, .deadline_ns = UINT64_MAX
	};
}

/* soft_fd_close - *@fd, unless it is -1; which it is afterwards. */
void soft_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * soft_link_close - the connection ends; the peer sees it at once.
 *
 * Waits for the NIC to leave the piece that it copies: afterwards nothing of this connection
 * touches the lane's memory. Shut down first: a forked child may hold the socket open.
 */
void soft_link_close(struct dp_lane *lane)
{
	struct soft_link *link = &soft_qp_of(lane)->link;
	uint32_t peer_psn = link->peer_psn;

	if (link->fd >= 0)
		(void)shutdown(link->fd, SHUT_RDWR);
	soft_copy_outlast(lane);
	soft_fd_close(&link->fd);
	soft_fd_close(&link->ring_ours);
	soft_fd_close(&link->ring_theirs);
	soft_link_init(link);
	link->peer_psn = peer_psn;
}

/*
 * soft_link_lose - the peer has gone, or broke the rules.
 *
 * What it owes us ends as if no packet were acknowledged any more. Who owes nothing stays in RTS,
 * as a QP does whose peer vanishes.
 */
void soft_link_lose(struct dp_lane *lane)
{
	const struct soft_requester *requester = &soft_qp_of(lane)->requester;

	soft_link_close(lane);
	soft_qp_of(lane)->link.state = SOFT_LINK_DOWN;
	if (requester->done != requester->posted)
		soft_lane_fail(lane, IBV_WC_RETRY_EXC_ERR);
}

/* soft_link_works - whether the lane may go on after it gave up its lock or lost a message. */
bool soft_link_works(const struct dp_lane *lane)
{
	const struct soft_qp *qp = soft_qp_of(lane);

	return qp->state == IBV_QPS_RTS && qp->link.state == SOFT_LINK_UP;
}

/* soft_link_gone - whether the peer of @fd has closed, whatever it sent before. */
bool soft_link_gone(int fd)
{
	struct pollfd ask = { .fd = fd, .events = POLLRDHUP };

	return poll(&ask, 1, 0) != 0;
}
