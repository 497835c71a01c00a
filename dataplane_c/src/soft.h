/*
 * soft.h - the fabric without a device: RoCE v2 in user space, over UDP; within one host the
 * same lanes without packets (soft_local.h).
 *
 * The progress thread is the NIC: `poll` receives, runs the protocol of every lane that has
 * something to do, and sends. A lane's protocol state is under the lane's lock. The NIC holds it
 * while it touches the lane's memory, or has said so in `copying`: once lane_error, lane_replace
 * or lane_close has returned, no peer reaches it. Nothing is allocated after a lane was opened.
 *
 * PSNs are kept as 64-bit sequence numbers that never wrap; 24 bits of them go on the wire.
 */
#ifndef DP_SOFT_H
#define DP_SOFT_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core.h"
#include "soft_local.h"
#include "soft_packet.h"

#define SOFT_PORT 4791
#define SOFT_TURN_PACKETS 60        /* that one lane may send before the next has its turn */
#define SOFT_WINDOW_BYTES (1 << 20) /* most in flight of one lane */
#define SOFT_WINDOW_MIN 4u          /* packets */
#define SOFT_DATAGRAM_BYTES 65536u
#define SOFT_NEVER UINT64_MAX

union soft_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* A send-queue entry; @packets PSNs from @first on are its own. */
struct soft_wqe {
	struct dp_segment segment;
	uint64_t first;
	uint32_t packets;
	uint32_t status;
};

/* Send side. una <= nxt <= sent <= end, all sequence numbers. */
struct soft_requester {
	struct soft_wqe queue[DP_WRS_MAX]; /* by counter modulo the length */
	uint32_t reaped;                   /* counters: reported, */
	uint32_t done;                     /* finished, */
	uint32_t posted;                   /* and posted so far */
	uint64_t una;                      /* the oldest that is not acknowledged */
	uint64_t nxt;                      /* goes out next */
	uint64_t sent;                     /* behind the newest that ever went out */
	uint64_t end;                      /* behind the last that is posted */
	uint64_t recovery;                 /* losses below it have already cost window */
	uint32_t window;                   /* packets */
	uint32_t window_max;
	uint32_t threshold;   /* where the window ceases to double */
	uint32_t growth;      /* acknowledged packets since it last grew */
	uint32_t retries;     /* since anything was acknowledged: timeouts and sequence NAKs, */
	uint32_t probes;      /* and times that it sent again before a timeout; */
	uint32_t undo_window; /* window and threshold as the first of these found them */
	uint32_t undo_threshold;
	bool reread; /* the gap in READ responses has been answered */
	uint64_t retry_at_ns;
	uint64_t probe_at_ns;
	uint64_t wait_until_ns; /* after an RNR NAK */
	uint64_t deaf_until_ns; /* to further NAKs of what it has just sent again */
	uint64_t round_trip_ns; /* smoothed; 0 until the first is measured */
	uint64_t timed;         /* its acknowledgement ends the measurement; 0 for none */
	uint64_t timed_from_ns;
};

enum soft_receive {
	SOFT_RECEIVE_NONE,
	SOFT_RECEIVE_POSTED,
	SOFT_RECEIVE_DONE,
};

/* Receive side. */
struct soft_responder {
	uint64_t expected;
	uint32_t msn;
	uint32_t message;   /* SOFT_IS_SEND or SOFT_IS_WRITE while one is incomplete */
	uint8_t *cursor;    /* where its next byte goes */
	uint64_t remaining; /* bytes it may still bring */
	uint64_t arrived;
	uint8_t refused; /* syndrome that went out: what does not mend it is dropped in silence */
	bool pressed;    /* such packets have come since the last turn */
	uint64_t newest; /* the last of them */
	bool ack_due;
	uint8_t nak; /* syndrome of a NAK that is due; 0 for none */
	/* The READ being answered; reading is false where there is none. */
	bool reading;
	uint64_t read_first;
	uint64_t read_next;
	uint64_t read_end;
	const uint8_t *read_from; /* of read_first; NULL where the READ is empty */
	uint32_t read_length;
	/* The one receive. */
	enum soft_receive receive;
	struct dp_completion received;
	uint32_t receive_length;
};

/* dp_lane.impl */
struct soft_qp {
	enum ibv_qp_state state;
	uint32_t access; /* of this use */
	uint32_t peer_qpn;
	uint8_t peer_gid[DP_GID_BYTES];
	enum soft_carrier carrier;
	struct soft_flow out;
	struct soft_requester requester;
	struct soft_responder responder;
	struct soft_link link;
	bool copying; /* the NIC is in the lane's memory, or reads from it, without the lock */
	pthread_cond_t copied;
};

struct soft_socket;
struct soft_faults;

/* dp_fabric.impl */
struct soft_nic {
	struct dp_fabric_options options;
	struct dp_fabric *fabric; /* set at the first call that brings it */
	uint8_t gid[DP_GID_BYTES];
	uint32_t mtu;
	uint32_t window_bytes; /* most in flight of one lane: what a receive buffer holds */
	uint32_t index_bits;   /* of a QPN; the others are random */
	uint32_t turn;
	bool backlog; /* the socket has more than was taken from it */
	uint32_t words;
	atomic_ulong *active; /* bit set of the lanes with something to do or to wait for */
	atomic_bool sleeping;
	uint64_t deadline_ns; /* of the nearest timer */
	uint64_t armed_ns;
	int timer_fd;
	struct soft_socket *socket;
	struct soft_local *local; /* NULL: all lanes go over UDP */
};

static inline struct soft_qp *soft_qp_of(const struct dp_lane *lane)
{
	return lane->impl;
}

static inline struct soft_nic *soft_nic_of(const struct dp_lane *lane)
{
	return lane->fabric->impl;
}

/* The sequence number that @psn abbreviates, within half the space around @near. */
static inline uint64_t soft_sequence(uint64_t near, uint32_t psn)
{
	int32_t distance = (int32_t)((psn - (uint32_t)near) << 8) >> 8;

	return near + (uint64_t)(int64_t)distance;
}

static inline struct soft_wqe *soft_wqe_at(struct soft_requester *requester, uint32_t counter)
{
	return &requester->queue[counter % DP_WRS_MAX];
}

static inline uint64_t soft_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* soft_fabric.c */
int dp_soft_fabric_open(const struct dp_fabric_options *options, struct dp_fabric **out);
void soft_nic_mark(struct dp_lane *lane);
void soft_nic_wake(struct dp_lane *lane);
uint64_t soft_now_ns(void);

/* soft_region.c */
int soft_domain_open(struct dp_domain *domain);
void soft_domain_close(struct dp_domain *domain);
int soft_region_open(struct dp_region *region);
void soft_region_revoke(struct dp_lane *lane, const struct dp_region *region);
void soft_region_close(struct dp_region *region);
uint8_t *soft_lane_grant(const struct dp_lane *lane, uint32_t access, uint32_t rkey, uint64_t va,
			 uint64_t length);

/* soft_lane.c */
int soft_lane_open(struct dp_lane *lane);
void soft_lane_close(struct dp_lane *lane);
int soft_lane_prepare(struct dp_lane *lane, uint32_t access);
int soft_lane_connect(struct dp_lane *lane, const struct dp_peer *peer);
int soft_lane_error(struct dp_lane *lane);
int soft_lane_reset(struct dp_lane *lane);
int soft_lane_replace(struct dp_lane *lane);
uint32_t soft_lane_state(struct dp_lane *lane);
int soft_lane_post(struct dp_lane *lane, const struct dp_segment *segment);
int soft_lane_post_receive(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length);
void soft_lane_fail(struct dp_lane *lane, uint32_t status);
int soft_lane_reap(struct dp_lane *lane, struct dp_completion *out, int max);
const char *soft_lane_carrier(struct dp_lane *lane);
bool soft_lane_admits(const struct dp_lane *lane, uint32_t access, uint64_t length);
void soft_lane_consume(struct dp_lane *lane, uint32_t length, uint32_t imm, bool write_imm);

/* soft_requester.c; the lane's lock held */
void soft_requester_start(struct soft_requester *requester, uint32_t psn, uint32_t window_max);
void soft_requester_post(struct soft_requester *requester, const struct dp_segment *segment,
			 uint32_t mtu);
void soft_requester_answer(struct dp_lane *lane, const struct soft_packet *packet, uint64_t now_ns);
bool soft_requester_turn(struct dp_lane *lane, uint32_t *budget, uint64_t now_ns);
uint64_t soft_requester_deadline(const struct soft_requester *requester);

/* soft_recovery.c; the lane's lock held */
void soft_recovery_progress(struct soft_requester *requester, uint64_t sequence, uint64_t now_ns);
void soft_recovery_sent(struct soft_requester *requester, uint64_t now_ns);
void soft_recovery_gap(struct dp_lane *lane, uint64_t now_ns);
void soft_recovery_reread(struct dp_lane *lane, uint64_t now_ns);
void soft_recovery_wait(struct soft_requester *requester, uint64_t until_ns);
bool soft_recovery_turn(struct dp_lane *lane, uint64_t now_ns);

/* soft_responder.c; the lane's lock held */
void soft_responder_start(struct soft_responder *responder, uint32_t psn);
void soft_responder_reject(struct dp_lane *lane, uint8_t syndrome);
void soft_responder_request(struct dp_lane *lane, const struct soft_packet *packet);
bool soft_responder_turn(struct dp_lane *lane, uint32_t *budget);

/* soft_socket.c */
int soft_socket_open(struct soft_nic *nic);
void soft_socket_close(struct soft_nic *nic);
int soft_socket_fd(const struct soft_nic *nic);
bool soft_socket_receive(struct soft_nic *nic, uint64_t now_ns);
void soft_socket_add(struct soft_nic *nic, const struct soft_qp *qp,
		     const struct soft_packet *packet);
void soft_socket_flush(struct soft_nic *nic, const struct soft_qp *qp);
uint64_t soft_socket_release(struct soft_nic *nic, uint64_t now_ns);
void soft_address_set(union soft_address *address, const uint8_t *gid, uint16_t port);
socklen_t soft_address_length(const union soft_address *address);

/* soft_receive.c */
void soft_nic_take(struct soft_nic *nic, const struct soft_flow *flow, uint16_t id,
		   const uint8_t *bytes, size_t length, uint64_t now_ns);

/* soft_address.c */
int soft_bind(int fd, uint8_t *gid);
uint32_t soft_path_mtu(const uint8_t *gid);
bool soft_allowed(const struct dp_fabric_options *options, const uint8_t *gid);

/* soft_faults.c */
bool soft_has_faults(const struct dp_faults *faults);
int soft_faults_open(const struct dp_faults *options, struct soft_faults **out);
void soft_faults_close(struct soft_faults *faults);
void soft_faults_send(struct soft_faults *faults, int fd, const struct msghdr *message,
		      uint64_t now_ns);
uint64_t soft_faults_release(struct soft_faults *faults, int fd, uint64_t now_ns);

#endif
