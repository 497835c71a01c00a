/*
 * dataplane.h - the one public header of the C core, and its cffi cdef.
 *
 * Python does control, C moves bytes. Vocabulary (PROTOCOL.md, gateway/dataplane/port.py):
 * a *fabric* is one opened device port with its completion queue and threads; a *lane* is one
 * queue pair with the registered memory that only it can reach, in a protection domain of its
 * own; a *transfer* is what a lane is doing.
 *
 * Conventions: functions return 0 or -errno (verbs' own errno is kept); a pointer that is
 * returned through `out` is untouched on failure. Every accepted transfer and receive ends in
 * exactly one event, whatever happens to it. Nothing here logs, and nothing is allocated or
 * registered after a lane was opened.
 *
 * Threads: calls on one lane come from one thread at a time; different lanes are independent.
 */
#ifndef DATAPLANE_H
#define DATAPLANE_H

#include <stddef.h>
#include <stdint.h>

enum dp_limit {
	DP_NAME_BYTES = 64,
	DP_GID_BYTES = 16,
	DP_SLOTS_MAX = 16,     /* WRs in flight of a transfer over a lane's own memory */
	DP_MOVES_MAX = 8,      /* moves of one lane at once */
	DP_MOVE_SLOTS = 4,     /* staging of one move: pieces of it that are in flight */
	DP_WRS_MAX = 32,       /* the send queue's depth: the more of the two */
	DP_REGIONS_MAX = 1024, /* of one domain */
	DP_SLOTS_WANTED = 4,   /* a lane is cut into this many where that keeps slots >= a page */
	DP_LANES_MAX = 65536,
	DP_NETWORKS_MAX = 32,
	DP_SUM_BLOCK_BYTES = 65536,     /* of a file that keeps sums */
	DP_FIRST_PIECE_BYTES = 1048576, /* of a file on its way; later ones may be longer */
	DP_READ_BYTES = 2097152, /* of a file: nothing paces a READ's answer, and Soft-RoCE drops */
};

/* What a GID table entry is for (ibv_query_gid_ex). */
enum dp_gid_type {
	DP_GID_IB = 0,
	DP_GID_ROCE_V1 = 1,
	DP_GID_ROCE_V2 = 2,
};

enum dp_link {
	DP_LINK_UNKNOWN = 0,
	DP_LINK_INFINIBAND = 1,
	DP_LINK_ETHERNET = 2,
};

enum dp_transport {
	DP_TRANSPORT_OTHER = 0,
	DP_TRANSPORT_IB = 1, /* InfiniBand or RoCE */
	DP_TRANSPORT_IWARP = 2,
};

/* One port of one device, or why the device could not be opened. */
struct dp_port {
	char device[DP_NAME_BYTES];
	char firmware[DP_NAME_BYTES];
	int32_t error;      /* 0, or -errno of opening the device: then only `device` holds */
	uint32_t port;      /* from 1 */
	uint32_t transport; /* enum dp_transport */
	uint32_t link;      /* enum dp_link */
	uint32_t state;     /* enum ibv_port_state; 4 is ACTIVE */
	uint32_t lid;       /* 0 on Ethernet */
	uint32_t mtu_bytes; /* active */
	uint32_t mtu_max_bytes;
	uint32_t message_max_bytes;
	uint32_t gid_count; /* length of the GID table, empty entries included */
	uint32_t qp_max;
	uint32_t cqe_max;
	uint32_t mr_max;
};

struct dp_gid {
	uint8_t gid[DP_GID_BYTES];
	uint32_t index;
	uint32_t type; /* enum dp_gid_type */
};

/*
 * dp_port_list - every port of every RDMA device, in the library's order.
 *
 * Returns how many were found (at most @max are stored), -ELIBACC (libibverbs is not
 * installed), -ELIBBAD (it is too old), -ENOSYS (the kernel has no RDMA subsystem loaded).
 */
int dp_port_list(struct dp_port *ports, uint32_t max);

/*
 * dp_gid_list - the non-empty GIDs of a port, by index.
 *
 * Returns how many were found (at most @max are stored), or as dp_port_list; -ENODEV.
 */
int dp_gid_list(const char *device, uint32_t port, struct dp_gid *gids, uint32_t max);

struct dp_fabric;
struct dp_domain;
struct dp_region;
struct dp_lane;

enum dp_fabric_kind {
	DP_FABRIC_VERBS = 0, /* a device, by libibverbs */
	DP_FABRIC_SOFT = 1,  /* RoCE v2 in user space over UDP port 4791: no device, no privilege */
};

/* How soft lanes exchange bytes. */
enum dp_carrier {
	DP_CARRIER_AUTO = 0,  /* local where the peer can, else UDP */
	DP_CARRIER_UDP = 1,   /* packets, also on one host */
	DP_CARRIER_LOCAL = 2, /* between processes of one host, without packets; never UDP */
};

/* Addresses that begin with @prefix_bits of @address; IPv4 is mapped, so its /8 is 104 bits. */
struct dp_network {
	uint8_t address[DP_GID_BYTES];
	uint32_t prefix_bits; /* 0..128 */
};

/* What the soft fabric does to packets it sends, for tests; zeros for nothing. */
struct dp_faults {
	uint64_t seed;
	uint32_t loss_ppm;
	uint32_t duplicate_ppm;
	uint32_t reorder_ppm;
	uint32_t corrupt_ppm;
	uint32_t delay_us;
	uint32_t reserved;
};

struct dp_fabric_options {
	char device[DP_NAME_BYTES];
	uint32_t port;
	uint32_t gid_index;
	uint32_t mtu_cap_bytes; /* 256..4096 */
	uint32_t lanes_max;     /* 1..DP_LANES_MAX */
	uint32_t io_threads;    /* >= 1 */
	uint32_t spin_us;       /* polling before sleeping, only with work in flight */
	uint32_t slot_bytes;    /* longest piece a file is read and written in */
	uint32_t segment_bytes; /* longest WRITE or READ, but for dp_lane_write's one message */
	uint32_t receive_sge;   /* 1: receives carry an SGE over the lane's memory */
	uint32_t kind;          /* enum dp_fabric_kind; soft reads no device, port, gid_index */
	/* Of the soft fabric: our address, zeros for a free one of 127.0.0.0/8, and the networks
	 * of the peers that may be connected. */
	uint8_t address[DP_GID_BYTES];
	uint32_t network_count;
	struct dp_network networks[DP_NETWORKS_MAX];
	struct dp_faults faults; /* of packets: then auto means UDP */
	uint32_t carrier;        /* enum dp_carrier */
	uint32_t reserved;
};

struct dp_fabric_info {
	uint8_t gid[DP_GID_BYTES];
	uint32_t lid;
	uint32_t link;             /* enum dp_link */
	uint32_t mtu_bytes;        /* the path MTU that QPs get */
	uint32_t mtu_active_bytes; /* the port's */
	uint32_t message_max_bytes;
};

enum dp_health {
	DP_HEALTH_OK = 0,
	DP_HEALTH_PORT_DOWN = 1, /* may come back */
	DP_HEALTH_GONE = 2,      /* never */
};

enum dp_event_kind {
	DP_EVENT_NONE = 0,
	DP_EVENT_SENT = 1,     /* dp_lane_send */
	DP_EVENT_WRITTEN = 2,  /* dp_lane_write */
	DP_EVENT_READ = 3,     /* dp_lane_read */
	DP_EVENT_RECEIVED = 4, /* dp_lane_receive */
	DP_EVENT_DRAINED = 5,  /* dp_lane_abort: nothing of the lane is in flight any more */
	DP_EVENT_HEALTH = 6,   /* the fabric's health changed: ask dp_fabric_health */
	DP_EVENT_MOVED = 7,    /* dp_lane_move; the tag is the move's */
};

enum dp_event_flag {
	DP_EVENT_WRITE_IMM = 1, /* what came was a WRITE_WITH_IMM, and `imm` holds */
};

/* How something ended. */
struct dp_event {
	uint64_t tag;       /* of the lane, or of the move; 0 for DP_EVENT_HEALTH */
	uint64_t bytes;     /* acknowledged bytes; byte_len of a receive */
	uint32_t kind;      /* enum dp_event_kind */
	int32_t status;     /* 0; -EREMOTEIO: see wc_status; -ECANCELED: dp_lane_abort; -ENODATA:
			       a file is shorter than its extents; -EBADMSG: what it has is not
			       what was stored; -EPROTO: the device called a READ done whose data
			       it had not placed; else -errno of pread, post or getrandom */
	uint32_t wc_status; /* enum ibv_wc_status of the first completion that failed */
	uint32_t qp_state;  /* enum ibv_qp_state, asked after a failure; else 0 */
	uint32_t imm;       /* host order */
	uint32_t flags;     /* enum dp_event_flag */
};

/*
 * dp_fabric_open - open a device port: CQ, completion channel, threads and event ring.
 *
 * Returns 0, -EINVAL (an option is out of range, or the GID index is empty), -ENODEV (no such
 * device), -ENETDOWN (the port is not ACTIVE, or no interface that is up has the address),
 * -EPROTONOSUPPORT (iWARP: it has no WRITE_WITH_IMM), -EADDRINUSE (UDP port 4791 is taken),
 * -EADDRNOTAVAIL (not an address of this host), as dp_port_list, or the errno of the verb or
 * socket call that failed.
 */
int dp_fabric_open(const struct dp_fabric_options *options, struct dp_fabric **out);

void dp_fabric_query(const struct dp_fabric *fabric, struct dp_fabric_info *out);

/* An eventfd, readable while events wait; the fabric's own. */
int dp_fabric_fd(const struct dp_fabric *fabric);

/* Take up to @max events; returns how many. Clears the eventfd when it empties the ring. */
uint32_t dp_fabric_drain(struct dp_fabric *fabric, struct dp_event *events, uint32_t max);

uint32_t dp_fabric_health(const struct dp_fabric *fabric);

/* What a fabric counts from its opening on; in dp_counters.counts by these numbers. */
enum dp_counter {
	DP_COUNT_QUEUE_PAIRS = 0,   /* made, in place of others too */
	DP_COUNT_REGIONS = 1,       /* registered */
	DP_COUNT_ALLOCATIONS = 2,   /* of heap memory, by this library itself */
	DP_COUNT_POLLS = 3,         /* of the completion queue */
	DP_COUNT_WAKEUPS = 4,       /* of the thread that polls it, out of poll(2) */
	DP_COUNT_EVENTS = 5,        /* put into the ring */
	DP_COUNT_WRITES = 6,        /* WRITEs that the peer has acknowledged, */
	DP_COUNT_WRITTEN_BYTES = 7, /* and what they carried */
	DP_COUNT_READS = 8,
	DP_COUNT_READ_BYTES = 9,
	DP_COUNT_RECEIVES = 10, /* immediates of peers, */
	DP_COUNT_RECEIVED_BYTES = 11,
	/* Of the soft fabric; zeros of a device, which does this by itself. */
	DP_COUNT_PACKETS = 12, /* that came, and of these those that were dropped: */
	DP_COUNT_PACKETS_MALFORMED = 13,
	DP_COUNT_PACKETS_CORRUPT = 14,  /* by their ICRC */
	DP_COUNT_PACKETS_UNKNOWN = 15,  /* to no queue pair, or not from its peer */
	DP_COUNT_DATAGRAMS_UNSENT = 16, /* datagrams that the kernel refused */
	DP_COUNT_RETRANSMISSIONS = 17,  /* times that a lane went back to what it had sent */
	DP_COUNT_TIMEOUTS = 18,
	DP_COUNTERS = 19,
	DP_STATUSES = 23, /* enum ibv_wc_status, and at the end whatever is beyond it */
};

struct dp_counters {
	uint64_t counts[DP_COUNTERS];      /* by enum dp_counter; each only grows */
	uint64_t completions[DP_STATUSES]; /* polled, by wc_status */
};

/* dp_fabric_counters - each as it is now; together they are of no one moment. Any thread. */
void dp_fabric_counters(const struct dp_fabric *fabric, struct dp_counters *out);

/*
 * dp_fabric_close - stop the threads, then destroy lanes, CQ, channel and device, in that order.
 *
 * Waits for a pread in progress. Lanes' memory may be unmapped afterwards. Nulls *@fabric.
 */
void dp_fabric_close(struct dp_fabric **fabric);

/*
 * dp_slab_map - page-aligned, pre-touched memory for lanes; huge pages where the host has them.
 *
 * Rounds *@length_bytes up to what was mapped. Returns 0 or -errno of mmap.
 */
int dp_slab_map(uint64_t *length_bytes, void **out);

void dp_slab_unmap(void *slab, uint64_t length_bytes);

enum dp_access {
	DP_ACCESS_NONE = 0,
	DP_ACCESS_LOCAL_WRITE = 1,  /* we write into the memory: files, READ */
	DP_ACCESS_REMOTE_WRITE = 2, /* implies LOCAL_WRITE */
	DP_ACCESS_REMOTE_READ = 4,
};

/*
 * dp_domain_open - a protection domain whose lanes share its regions.
 *
 * Returns 0, -ENOMEM, or the errno of the verb that failed. dp_fabric_close ends what is left.
 */
int dp_domain_open(struct dp_fabric *fabric, struct dp_domain **out);

/* dp_domain_close - 0 and nulls *@domain, or -EBUSY while it has lanes or regions. */
int dp_domain_close(struct dp_domain **domain);

/*
 * dp_region_open - register [@memory, @memory + @length_bytes) in @domain.
 *
 * Borrows the memory until dp_region_close. Returns 0, -EINVAL (no bytes), -ENOSPC
 * (DP_REGIONS_MAX are open), or as dp_lane_open.
 */
int dp_region_open(struct dp_domain *domain, void *memory, uint64_t length_bytes, uint32_t access,
		   struct dp_region **out);

/*
 * dp_region_close - deregister: when it returns no peer reaches the memory any more.
 *
 * A message that a peer is in the middle of fails. No lane may have it as its staging. Nulls
 * *@region.
 */
void dp_region_close(struct dp_region **region);

uint32_t dp_region_rkey(const struct dp_region *region);

/*
 * dp_lane_join - a QP in @domain, in RESET: its moves go through @staging, a region of the same
 * domain, in slots that each move names; NULL for a lane that only serves its peer.
 *
 * Returns as dp_lane_open.
 */
int dp_lane_join(struct dp_domain *domain, struct dp_region *staging, uint64_t tag,
		 struct dp_lane **out);

/*
 * dp_lane_open - a domain with one region, and a lane in it that nothing else shares: PD, MR over
 * [@memory, @memory + @length_bytes), and a QP that rests in RESET.
 *
 * Borrows the memory until dp_lane_close. @access is the most that a use of the lane may grant.
 * Returns 0, -ENOSPC (lanes_max are open), -ENOMEM or -EPERM (pinning: RLIMIT_MEMLOCK), or
 * the errno of the verb that failed.
 */
int dp_lane_open(struct dp_fabric *fabric, void *memory, uint64_t length_bytes, uint32_t access,
		 uint64_t tag, struct dp_lane **out);

/*
 * dp_lane_close - destroy the QP and what dp_lane_open made for it. The memory is the caller's.
 *
 * Returns 0 and nulls *@lane, or -EBUSY while an I/O thread is in pread for it: its DRAINED
 * event (dp_lane_abort first) says when to come again. No event follows.
 */
int dp_lane_close(struct dp_lane **lane);

uint32_t dp_lane_qpn(const struct dp_lane *lane);
uint32_t dp_lane_rkey(const struct dp_lane *lane);

/* Live enum ibv_qp_state, or 0xff where the device does not answer. */
uint32_t dp_lane_qp_state(struct dp_lane *lane);

/* What carries this use's bytes: "verbs", "udp" or "local"; "" while it is open. Static text. */
const char *dp_lane_carrier(struct dp_lane *lane);

/*
 * dp_lane_prepare - RESET -> INIT for one use, granting the peer @access (a subset of open's).
 *
 * @psn: our first send PSN, 1..0xffffff: the one place it is kept is the lane.
 * Returns 0, -EINVAL (psn, access), -EBUSY (not in RESET), or modify_qp's errno.
 */
int dp_lane_prepare(struct dp_lane *lane, uint32_t psn, uint32_t access);

struct dp_peer {
	uint8_t gid[DP_GID_BYTES];
	uint32_t qpn;
	uint32_t psn;
	uint32_t lid;
};

/*
 * dp_lane_connect - INIT -> RTR (rq_psn = peer's) -> RTS (sq_psn = prepare's).
 *
 * Returns 0, -EINVAL (psn or qpn out of range), -EADDRNOTAVAIL (LID 0 on InfiniBand: packets
 * to it vanish without a trace), -EBUSY (not in INIT), of the soft fabric -EACCES (no
 * allowed network has the peer), -ENETUNREACH (loopback on one side only), -EAFNOSUPPORT (IPv4
 * here, IPv6 there), -ECONNREFUSED or -EHOSTUNREACH (DP_CARRIER_LOCAL: no soft fabric of this
 * host is there), or modify_qp's errno.
 */
int dp_lane_connect(struct dp_lane *lane, const struct dp_peer *peer);

/*
 * dp_lane_receive - post the one receive that the peer's immediate consumes; INIT or later.
 *
 * Returns the SGE's length in bytes (0: no SGE), -EBUSY (one is posted), -EPIPE (aborted).
 */
int64_t dp_lane_receive(struct dp_lane *lane);

/*
 * A run of bytes in an open file. Where @summed_bytes is not 0, so many bytes of the file have sums
 * behind them: a CRC-64/NVME, big-endian, for each DP_SUM_BLOCK_BYTES. What reads the extent holds
 * it against them; a block that is not what was stored ends it with -EBADMSG.
 */
struct dp_extent {
	int32_t fd;
	uint32_t reserved;
	uint64_t offset_bytes;
	uint64_t length_bytes;
	uint64_t summed_bytes; /* 0, or at least the extent's end */
};

struct dp_remote {
	uint64_t addr;
	uint64_t length_bytes;
	uint32_t rkey;
	uint32_t reserved;
};

enum dp_immediate {
	DP_IMM_ABSENT = 0,
	DP_IMM_PRESENT = 1,
};

/*
 * dp_lane_send - files through the lane's slots into the peer's memory, pipelined.
 *
 * The last WRITE carries @imm where @immediate says so. @extents is borrowed until the SENT
 * event. Returns 0, -EINVAL (no bytes), -EMSGSIZE (more than @to holds), -EBUSY (a transfer
 * runs), -ENOTCONN, -EPIPE (aborted).
 */
int dp_lane_send(struct dp_lane *lane, const struct dp_extent *extents, uint32_t count,
		 const struct dp_remote *to, uint32_t immediate, uint32_t imm);

/*
 * dp_lane_write - the lane's first @length_bytes as one WRITE_WITH_IMM.
 *
 * One message whatever the port's max_msg_sz, because the peer judges byte_len of the message
 * that carries the immediate. Returns as dp_lane_send; -EMSGSIZE also beyond the lane or 2^31.
 */
int dp_lane_write(struct dp_lane *lane, uint64_t length_bytes, const struct dp_remote *to,
		  uint32_t imm);

/* dp_lane_read - RDMA READ @length_bytes of @from into the lane's memory; as dp_lane_write. */
int dp_lane_read(struct dp_lane *lane, uint64_t length_bytes, const struct dp_remote *from);

enum dp_direction {
	DP_MOVE_SEND = 0,  /* files into the peer's memory, by WRITE */
	DP_MOVE_FETCH = 1, /* the peer's memory into one file, by READ */
};

/*
 * One move of a joined lane. Slots are offsets into the lane's staging; until the MOVED event
 * they are the move's alone, and so are the extents.
 *
 * Without extents its bytes are, or come to be, in its only slot: as many as @remote has.
 */
struct dp_move {
	uint64_t tag;
	uint32_t direction; /* enum dp_direction */
	uint32_t immediate; /* enum dp_immediate: on the last WRITE */
	uint32_t imm;
	uint32_t extent_count; /* FETCH: at most 1 */
	const struct dp_extent *extents;
	struct dp_remote remote;
	uint32_t slot_bytes;
	uint32_t slot_count; /* 1..DP_MOVE_SLOTS */
	uint64_t slots[DP_MOVE_SLOTS];
};

/*
 * dp_lane_move - begin a move; several of one lane run at once, in no order among them.
 *
 * A move that fails breaks the QP where its completion did, and so the others; the caller then
 * aborts the lane. Returns 0, -EINVAL (slots, extents, or a lane without staging), -EMSGSIZE
 * (more than the remote memory), -EBUSY (DP_MOVES_MAX run), -ENOTCONN, -EPIPE (aborted).
 */
int dp_lane_move(struct dp_lane *lane, const struct dp_move *move);

/*
 * dp_lane_abort - QP to ERR. Whatever runs ends with its event; then one DRAINED event comes.
 *
 * After it returns nothing new is posted, whatever an I/O thread is in the middle of.
 * Idempotent. Returns 0 or modify_qp's errno (then use dp_lane_replace).
 */
int dp_lane_abort(struct dp_lane *lane);

/* dp_lane_recycle - ERR -> RESET, ready for dp_lane_prepare. -EBUSY until DRAINED. */
int dp_lane_recycle(struct dp_lane *lane);

/*
 * dp_lane_replace - destroy a QP that does not drain and make another.
 *
 * Once the QP is gone the device no longer touches the memory; what was in flight ends with its
 * event, then DRAINED follows (after an I/O thread has left). Returns 0 or create_qp's errno:
 * then the lane is only good for dp_lane_close.
 */
int dp_lane_replace(struct dp_lane *lane);

/* dp_memory_store - pwrite all of @memory; 0 or -errno. Any thread; touches no fabric. */
int dp_memory_store(const void *memory, uint64_t length_bytes, int fd, uint64_t offset_bytes);

/*
 * dp_crc64nvme - CRC-64/NVME of consecutive stretches, as zlib does it: @crc is what the stretch
 * before returned, 0 for the first. Any thread; touches no fabric.
 */
uint64_t dp_crc64nvme(uint64_t crc, const void *data, uint64_t length_bytes);

/* Who is to blame for a failed completion, by wc.status alone. */
enum dp_class {
	DP_CLASS_NONE = 0,
	DP_CLASS_LOCAL = 1,
	DP_CLASS_REMOTE = 2,
	DP_CLASS_TRANSPORT = 3,
	DP_CLASS_FLUSH = 4,
};

uint32_t dp_wc_class(uint32_t wc_status);

/* "RETRY_EXC_ERR"; "UNKNOWN" beyond the table. Static text. */
const char *dp_wc_name(uint32_t wc_status);

/* "RTS"; "UNKNOWN" beyond the table. Static text. */
const char *dp_qp_state_name(uint32_t qp_state);

#endif
