/*
 * soft_local_pair.c - two lanes of one host find out that they are, and how bytes will go.
 *
 *   dials           HELLO ─────▶            who it is, for which lane, and that lane's PSN
 *                         ◀───── WELCOME    the dialler's PSN; could it be read directly?
 *                 CONFIRM ─────▶            could the other one?
 *                         ◀───── READY      both: directly; else each hands over its ring
 *
 * A lane dials when it is connected. Who is dialled before that answers LATER, and dials when its
 * turn comes; where both dial at once, the call of the lesser address stands. Whatever fails
 * before READY leaves both lanes to UDP. A PSN is known to its lane and to whom the
 * application told it, so naming the other's proves that each is the one it is taken for.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "soft.h"

static bool is_forced(const struct soft_nic *nic)
{
	return nic->options.carrier == DP_CARRIER_LOCAL;
}

/* soft_link_give_up - no pairing: UDP; where that is not wanted, as if the peer were gone. */
void soft_link_give_up(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);

	if (is_forced(soft_nic_of(lane))) {
		qp->carrier = SOFT_CARRIER_LOCAL;
		soft_link_lose(lane);
		return;
	}
	soft_link_close(lane);
	qp->carrier = SOFT_CARRIER_UDP;
}

/* soft_link_yields - a packet of the peer's came: whether it is taken, and settles the carrier. */
bool soft_link_yields(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);

	if (qp->carrier == SOFT_CARRIER_OPEN && qp->link.state == SOFT_LINK_NONE &&
	    !is_forced(soft_nic_of(lane)))
		qp->carrier = SOFT_CARRIER_UDP;
	return qp->carrier == SOFT_CARRIER_UDP;
}

/* What every greeting of this lane says. */
static struct soft_greeting greeting_of(const struct dp_lane *lane, uint32_t kind)
{
	const struct soft_qp *qp = soft_qp_of(lane);
	struct soft_greeting greeting = {
		.kind = kind,
		.qpn = lane->qpn,
		.peer_qpn = qp->peer_qpn,
		.peer_psn = qp->link.peer_psn,
		.direct = qp->link.direct,
		.probe = (uintptr_t)&qp->link.nonce,
		.nonce = qp->link.nonce,
	};

	memcpy(greeting.gid, soft_nic_of(lane)->gid, sizeof(greeting.gid));
	return greeting;
}

static bool is_from_peer(const struct dp_lane *lane, const struct soft_greeting *greeting)
{
	const struct soft_qp *qp = soft_qp_of(lane);

	return greeting->qpn == qp->peer_qpn && greeting->peer_qpn == lane->qpn &&
	       greeting->peer_psn == lane->psn &&
	       memcmp(greeting->gid, qp->peer_gid, DP_GID_BYTES) == 0;
}

/* The connection is the lane's; 0 or -errno, and then it isn't. */
static int take_over(struct dp_lane *lane, int fd, bool known)
{
	struct soft_link *link = &soft_qp_of(lane)->link;
	struct ucred peer;
	socklen_t length = sizeof(peer);
	int error;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
	    getrandom(&link->nonce, sizeof(link->nonce), 0) != (ssize_t)sizeof(link->nonce))
		return -errno;
	error = soft_local_watch(soft_nic_of(lane), fd, lane->index, known);
	if (error)
		return error;
	link->fd = fd;
	link->pid = peer.pid;
	link->same_user = peer.uid == geteuid();
	return 0;
}

/*
 * soft_link_dial - look for the peer on this host; the NIC does the rest.
 *
 * Returns 0; where nothing but this way is wanted, also -EHOSTUNREACH (the peer's address is no
 * address of this host), or as soft_local_connect.
 */
int soft_link_dial(struct dp_lane *lane)
{
	struct soft_nic *nic = soft_nic_of(lane);
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_greeting hello;
	int fd, error = 0;

	qp->carrier = SOFT_CARRIER_UDP;
	if (!nic->local)
		return 0;
	fd = soft_local_connect(qp->peer_gid);
	if (fd < 0)
		return is_forced(nic) ? fd : 0;
	if (!soft_path_mtu(qp->peer_gid))
		error = -EHOSTUNREACH;
	if (!error)
		error = take_over(lane, fd, false);
	if (error) {
		close(fd);
		return is_forced(nic) ? error : 0;
	}
	hello = greeting_of(lane, SOFT_HELLO);
	qp->carrier = SOFT_CARRIER_OPEN;
	qp->link.state = SOFT_LINK_DIALLED;
	/* Where it fails the NIC will find the connection closed. */
	(void)soft_message_send(fd, &hello, sizeof(hello), -1);
	return 0;
}

static bool is_lesser(const struct dp_lane *lane)
{
	const struct soft_qp *qp = soft_qp_of(lane);
	int order = memcmp(soft_nic_of(lane)->gid, qp->peer_gid, DP_GID_BYTES);

	return order < 0 || (order == 0 && lane->qpn < qp->peer_qpn);
}

/* soft_link_judge - the answer to @hello, which names this lane: WELCOME, LATER or REFUSED. */
enum soft_message_kind soft_link_judge(struct dp_lane *lane, const struct soft_greeting *hello)
{
	struct soft_qp *qp = soft_qp_of(lane);

	if (qp->state == IBV_QPS_INIT)
		return SOFT_LATER;
	if (qp->state != IBV_QPS_RTS || !is_from_peer(lane, hello))
		return SOFT_REFUSED;
	/* Its LATER to us, if there was one, came before this call. */
	if (qp->link.state == SOFT_LINK_DIALLED)
		soft_link_receive(lane);
	if (qp->carrier != SOFT_CARRIER_OPEN)
		return SOFT_REFUSED;
	if (qp->link.state == SOFT_LINK_DIALLED)
		return is_lesser(lane) ? SOFT_LATER : SOFT_WELCOME;
	return qp->link.state == SOFT_LINK_NONE ? SOFT_WELCOME : SOFT_REFUSED;
}

/* Send @kind, and our ring along where one is due; false where that fails. */
static bool greet(struct dp_lane *lane, uint32_t kind, bool direct, bool with_ring)
{
	struct soft_link *link = &soft_qp_of(lane)->link;
	struct soft_greeting greeting = greeting_of(lane, kind);

	greeting.direct = direct;
	if (with_ring && link->ring_ours < 0) {
		link->ring_ours = soft_ring_make();
		if (link->ring_ours < 0)
			return false;
	}
	return soft_message_send(link->fd, &greeting, sizeof(greeting),
				 with_ring ? link->ring_ours : -1) == 0;
}

static bool can_read(const struct dp_lane *lane, const struct soft_greeting *greeting)
{
	return soft_local_direct(soft_nic_of(lane)) &&
	       soft_copy_probe(&soft_qp_of(lane)->link, greeting->probe, greeting->nonce);
}

/* soft_link_adopt - @fd brought @hello, which was judged WELCOME; it is the lane's from now on. */
void soft_link_adopt(struct dp_lane *lane, int fd, const struct soft_greeting *hello)
{
	struct soft_qp *qp = soft_qp_of(lane);

	soft_link_close(lane); /* a call of our own that lost */
	if (take_over(lane, fd, true)) {
		close(fd);
		soft_link_give_up(lane);
		return;
	}
	qp->link.direct = can_read(lane, hello);
	qp->link.state = SOFT_LINK_ANSWERED;
	if (!greet(lane, SOFT_WELCOME, qp->link.direct, !qp->link.direct))
		soft_link_give_up(lane);
}

/* The ring that came with a greeting; false where it is none, or none was due. */
static bool take_ring(struct soft_link *link, int passed, bool due)
{
	if (!due)
		return passed < 0;
	if (passed < 0 || !soft_ring_sound(passed))
		return false;
	link->ring_theirs = passed;
	return true;
}

static void go_up(struct soft_qp *qp)
{
	qp->link.state = SOFT_LINK_UP;
	qp->link.deadline_ns = SOFT_NEVER;
	qp->carrier = SOFT_CARRIER_LOCAL;
}

/* One step of the handshake; false where it fails. A ring that is taken is the link's. */
static bool advance(struct dp_lane *lane, const struct soft_greeting *greeting, int passed)
{
	struct soft_qp *qp = soft_qp_of(lane);
	struct soft_link *link = &qp->link;
	bool sees = greeting->direct;

	switch (link->state) {
	case SOFT_LINK_DIALLED:
		if (greeting->kind != SOFT_WELCOME || !take_ring(link, passed, !sees))
			return false;
		link->state = SOFT_LINK_CONFIRMED;
		link->direct = can_read(lane, greeting);
		if (!greet(lane, SOFT_CONFIRM, link->direct, !sees || !link->direct))
			return false;
		break;
	case SOFT_LINK_ANSWERED:
		if (greeting->kind != SOFT_CONFIRM ||
		    !take_ring(link, passed, !sees || !link->direct))
			return false;
		/* Our ring went with WELCOME already where it was us who could not read. */
		if (!greet(lane, SOFT_READY, true, link->direct && !sees))
			return false;
		link->direct = link->direct && sees;
		go_up(qp);
		break;
	case SOFT_LINK_CONFIRMED:
		if (greeting->kind != SOFT_READY ||
		    !take_ring(link, passed, link->ring_ours >= 0 && link->ring_theirs < 0))
			return false;
		link->direct = link->ring_ours < 0;
		go_up(qp);
		break;
	default:
		return false;
	}
	return true;
}

/* soft_link_greet - a greeting came over the lane's connection, with @passed or -1. */
void soft_link_greet(struct dp_lane *lane, const struct soft_greeting *greeting, int passed)
{
	struct soft_link *link = &soft_qp_of(lane)->link;

	bool later = link->state == SOFT_LINK_DIALLED && greeting->kind == SOFT_LATER;
	bool fails = !later && (!is_from_peer(lane, greeting) || !advance(lane, greeting, passed));

	if (passed >= 0 && link->ring_theirs != passed)
		close(passed);
	if (later)
		soft_link_close(lane);
	else if (fails)
		soft_link_give_up(lane);
}
