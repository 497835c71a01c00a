/*
 * soft_local.h - soft lanes of one host: no packets, and bytes are copied once.
 *
 * Two lanes whose NICs share a network namespace pair over a Unix socket (SOCK_SEQPACKET) of their
 * own. Work requests and answers travel over it as descriptors of a fixed size; it closes when
 * either lane leaves RTS or its process ends, which is how the other one learns of it.
 *
 * *Data is pulled, never pushed*: each process writes to its own memory only, under the lane's
 * rules. The responder of a WRITE and the requester of a READ fetch piece by piece:
 *   - between processes of one user, straight from the peer's memory by process_vm_readv(2);
 *   - else through the peer's ring, a memfd of fixed size that is used by pread and pwrite: what
 *     is never mapped raises no SIGBUS, and whoever else writes to it spoils bytes, no state.
 * A fetch counts only if the connection is still open after it, so that bytes which a lane's
 * owner has taken back are never taken for a message.
 */
#ifndef DP_SOFT_LOCAL_H
#define DP_SOFT_LOCAL_H

#include <sys/types.h>

#include "core.h"

#define SOFT_PIECE_BYTES (256u << 10) /* at most fetched between two looks at the lane */
#define SOFT_RING_SLOTS 4u
#define SOFT_SLOT_BYTES (128u << 10)
#define SOFT_RING_BYTES (SOFT_STREAMS * SOFT_RING_SLOTS * SOFT_SLOT_BYTES)
#define SOFT_PENDING_MAX 32 /* connections that have not said whose they are */

/* What carries a lane's messages: settled once per use. */
enum soft_carrier {
	SOFT_CARRIER_OPEN, /* not settled: the lanes are pairing, or the peer is yet to come */
	SOFT_CARRIER_UDP,
	SOFT_CARRIER_LOCAL,
};

enum soft_link_state {
	SOFT_LINK_NONE,      /* no connection; the peer may dial */
	SOFT_LINK_DIALLED,   /* HELLO is sent, WELCOME awaited */
	SOFT_LINK_ANSWERED,  /* WELCOME is sent, CONFIRM awaited */
	SOFT_LINK_CONFIRMED, /* CONFIRM is sent, READY awaited */
	SOFT_LINK_UP,
	SOFT_LINK_DOWN, /* the peer has gone */
};

enum soft_message_kind {
	SOFT_HELLO = 1,
	SOFT_LATER,   /* the lane is there, but not connected yet: it will dial itself */
	SOFT_REFUSED, /* nothing here pairs with you */
	SOFT_WELCOME,
	SOFT_CONFIRM,
	SOFT_READY,
	SOFT_REQUEST,
	SOFT_ANSWER,
	SOFT_PIECE, /* a slot of the sender's ring is full */
	SOFT_TAKEN, /* a slot of the receiver's ring is free */
};

/* HELLO to READY. A ring's descriptor may ride along from WELCOME on. */
struct soft_greeting {
	uint32_t kind;
	uint32_t qpn; /* the sender's */
	uint32_t peer_qpn;
	uint32_t peer_psn; /* the receiver's first: only whom it told can know it */
	uint32_t direct;   /* WELCOME, CONFIRM: the sender can read the receiver's memory */
	uint32_t reserved;
	uint64_t probe; /* an address of the sender's, */
	uint64_t nonce; /* and what is to be read there */
	uint8_t gid[DP_GID_BYTES];
};

/* REQUEST to TAKEN. */
struct soft_order {
	uint32_t kind;
	uint32_t what; /* enum dp_opcode, enum ibv_wc_status of an ANSWER, enum soft_stream_name */
	uint32_t length;
	uint32_t rkey;
	uint32_t imm;
	uint32_t reserved;
	uint64_t remote;
	uint64_t source; /* of a WRITE's bytes, in the requester */
};

_Static_assert(sizeof(struct soft_greeting) == 56, "crosses processes");
_Static_assert(sizeof(struct soft_order) == 40, "crosses processes");

/* A ring has slots for each: what waits in one holds nothing up in the other. */
enum soft_stream_name {
	SOFT_STREAM_REQUEST, /* a requester's WRITEs */
	SOFT_STREAM_ANSWER,  /* a responder's READ data */
	SOFT_STREAMS,
};

struct soft_stream {
	uint32_t sent; /* counters of pieces */
	uint32_t taken;
	uint32_t lengths[SOFT_RING_SLOTS];
};

/* A lane's connection to its peer's lane; soft_qp.link. */
struct soft_link {
	enum soft_link_state state;
	int fd; /* -1 for none */
	pid_t pid;
	bool same_user;
	bool direct; /* both can read the other's memory */
	uint32_t peer_psn;
	uint64_t nonce; /* the peer reads it here, to see whether it can */
	uint64_t deadline_ns;
	int ring_ours; /* -1 for none */
	int ring_theirs;
	struct soft_stream out[SOFT_STREAMS];
	struct soft_stream in[SOFT_STREAMS];
	/* Responder: the peer's requests, by counter modulo the length. */
	struct soft_order requests[DP_WRS_MAX];
	uint32_t asked;
	uint32_t answered;
	uint64_t served; /* bytes of the oldest */
	bool granted;    /* the oldest, a READ, has its answer; data follows */
	/* Requester; counters as in soft_requester. */
	uint32_t sent;
	bool described;         /* the next has its REQUEST out, and not yet all of its bytes */
	uint64_t pushed;        /* bytes of it */
	uint32_t granted_reads; /* the oldest so many, all READs, may be fetched */
	uint64_t fetched;       /* bytes of the oldest */
};

/* How far a turn came. */
enum soft_step {
	SOFT_STEP_WAIT, /* for the peer, or for a receive */
	SOFT_STEP_MORE,
	SOFT_STEP_DONE,
};

struct soft_nic;
struct soft_local;

/* soft_local.c; the NIC's side */
int soft_local_open(struct soft_nic *nic);
void soft_local_close(struct soft_nic *nic);
int soft_local_fd(const struct soft_nic *nic);
void soft_local_receive(struct soft_nic *nic);
int soft_local_connect(const uint8_t *gid);
int soft_local_watch(struct soft_nic *nic, int fd, uint32_t lane, bool known);
bool soft_local_direct(const struct soft_nic *nic);
void soft_local_refuse_direct(struct soft_nic *nic);

/* soft_local_pair.c; this and all below with the lane's lock held */
int soft_link_dial(struct dp_lane *lane);
enum soft_message_kind soft_link_judge(struct dp_lane *lane, const struct soft_greeting *hello);
void soft_link_adopt(struct dp_lane *lane, int fd, const struct soft_greeting *hello);
void soft_link_greet(struct dp_lane *lane, const struct soft_greeting *greeting, int passed);
bool soft_link_yields(struct dp_lane *lane);
void soft_link_give_up(struct dp_lane *lane);

/* soft_local_link.c */
int soft_message_send(int fd, const void *message, size_t length, int pass);
ssize_t soft_message_receive(int fd, void *out, size_t size, int *passed);
void soft_fd_close(int *fd);
void soft_link_init(struct soft_link *link);
void soft_link_close(struct dp_lane *lane);
void soft_link_lose(struct dp_lane *lane);
bool soft_link_works(const struct dp_lane *lane);
bool soft_link_gone(int fd);

/* soft_local_copy.c */
bool soft_copy_probe(const struct soft_link *link, uint64_t address, uint64_t nonce);
int soft_ring_make(void);
bool soft_ring_sound(int fd);
void soft_copy_outlast(struct dp_lane *lane);
ssize_t soft_copy_fetch(struct dp_lane *lane, enum soft_stream_name name, uint8_t *target,
			uint64_t source, uint64_t left);
enum soft_step soft_copy_push(struct dp_lane *lane, enum soft_stream_name name,
			      const uint8_t *source, uint64_t length, uint64_t *done);

/* soft_local_lane.c */
bool soft_link_receive(struct dp_lane *lane);
bool soft_local_turn(struct dp_lane *lane, uint64_t now_ns);

/* soft_local_serve.c, soft_local_ask.c; for local_turn */
bool soft_local_serve(struct dp_lane *lane);
bool soft_local_ask(struct dp_lane *lane);
bool soft_local_answer(struct dp_lane *lane, const struct soft_order *answer);

#endif
