/*
 * core.h - what the parts of the core share: fabric, lane, transfer, and the table of functions
 * that a fabric (verbs, later others) implements below them.
 *
 * Lock order: lane->lock, then ring or io lock. No lock is held across pread or poll.
 */
#ifndef DP_CORE_H
#define DP_CORE_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dataplane.h"
#include "ring.h"

#define DP_PSN_MAX 0xffffffu
#define DP_QPN_MAX 0xffffffu
#define DP_MESSAGE_MAX (UINT64_C(1) << 31) /* IBTA: the longest RC message */
#define DP_POLLFDS 4                       /* wake, and up to three of the fabric below */

/* A completion as the generic part sees it. On failure only wr_id and status hold. */
struct dp_completion {
	uint64_t wr_id;
	uint32_t status; /* enum ibv_wc_status */
	uint32_t byte_len;
	uint32_t imm; /* host order */
	bool write_imm;
};

enum dp_opcode {
	DP_OP_WRITE,
	DP_OP_WRITE_IMM,
	DP_OP_READ,
};

/* One send-queue work request. */
struct dp_segment {
	uint64_t wr_id;
	enum dp_opcode opcode;
	uint64_t offset; /* in the lane's memory */
	uint32_t length;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t imm; /* host order */
};

/*
 * The fabric below. Lane functions run under the lane's lock; poll, arm and serve on the
 * progress thread only. 0 or -errno.
 *
 * region_close is called once no lane finds the region any more; region_revoke, under each
 * lane's lock and before it, ends what that lane is doing with the region for its peer.
 */
struct dp_fabric_ops {
	int (*domain_open)(struct dp_domain *domain);
	void (*domain_close)(struct dp_domain *domain);
	int (*region_open)(struct dp_region *region);
	void (*region_revoke)(struct dp_lane *lane, const struct dp_region *region);
	void (*region_close)(struct dp_region *region);
	int (*lane_open)(struct dp_lane *lane);
	void (*lane_close)(struct dp_lane *lane);
	int (*lane_prepare)(struct dp_lane *lane, uint32_t access);
	int (*lane_connect)(struct dp_lane *lane, const struct dp_peer *peer);
	int (*lane_error)(struct dp_lane *lane);
	int (*lane_reset)(struct dp_lane *lane);
	int (*lane_replace)(struct dp_lane *lane);
	uint32_t (*lane_state)(struct dp_lane *lane);
	const char *(*lane_carrier)(struct dp_lane *lane);
	int (*post)(struct dp_lane *lane, const struct dp_segment *segment);
	int (*post_receive)(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length);
	int (*poll)(struct dp_fabric *fabric, struct dp_completion *out, int max);
	int (*arm)(struct dp_fabric *fabric);
	int (*pollfds)(struct dp_fabric *fabric, struct pollfd *out); /* how many it added */
	void (*serve)(struct dp_fabric *fabric); /* something of pollfds became readable */
	void (*close)(struct dp_fabric *fabric);
};

/*
 * Something that a lane's send queue is doing; idle where kind is DP_EVENT_NONE.
 *
 * A slot is free, in flight (posted), or holds bytes that have to go to the file (arrived).
 */
struct dp_transfer {
	struct dp_lane *lane;
	struct dp_transfer *io_next;
	uint32_t first_slot; /* of its slots' numbers in wr_ids */
	enum dp_event_kind kind;
	uint64_t tag;
	bool pumping; /* a thread is in dp_transfer_pump, perhaps in pread */
	bool queued;  /* it waits for an I/O thread */
	bool fetch;   /* from the peer, into the file */
	bool has_imm;
	uint32_t imm;
	const struct dp_extent *extents; /* where there are files; borrowed from the caller */
	uint32_t extent_index;
	uint64_t extent_done;
	uint64_t block_crc; /* of what was read of a block with a sum, so far */
	struct dp_remote remote;
	uint64_t total;
	uint64_t issued;
	uint64_t done;   /* acknowledged, and stored where it was fetched */
	uint32_t piece;  /* bytes of one WR, the last may be shorter */
	uint32_t slots;  /* how many it may use */
	uint32_t posted; /* bit sets of slots */
	uint32_t arrived;
	uint64_t slot_at[DP_SLOTS_MAX];   /* in the lane's memory */
	uint64_t slot_from[DP_SLOTS_MAX]; /* in the transfer */
	uint32_t slot_lengths[DP_SLOTS_MAX];
	uint64_t slot_marks[DP_SLOTS_MAX]; /* of READs */
	int32_t status;
	uint32_t wc_status;
};

/* Memory that the lanes of a domain can use; a private lane's domain has one. */
struct dp_region {
	struct dp_domain *domain;
	uint8_t *memory;
	uint64_t length;
	uint32_t access;
	uint32_t rkey;
	uint32_t index; /* in the domain's table */
	void *impl;     /* the fabric's own */
};

struct dp_domain {
	struct dp_fabric *fabric;
	struct dp_domain *next; /* of the fabric's, for dp_fabric_close */
	pthread_mutex_t lock;   /* of the table; taken inside a lane's lock */
	uint32_t lanes;         /* under the fabric's lanes_lock */
	uint32_t region_count;
	uint32_t regions_max;
	void *impl;                  /* the fabric's own */
	struct dp_region *regions[]; /* regions_max; NULL where one is free */
};

enum dp_lane_state {
	DP_LANE_CLOSED, /* the slot in fabric->lanes is free */
	DP_LANE_RESET,
	DP_LANE_INIT,
	DP_LANE_READY,   /* RTS */
	DP_LANE_ABORTED, /* no new work; flushes are coming in */
	DP_LANE_DRAINED,
};

struct dp_lane {
	pthread_mutex_t lock;
	struct dp_fabric *fabric;
	uint32_t index;
	uint32_t generation; /* of the QP: a completion of an older one is not counted */
	enum dp_lane_state state;
	uint64_t tag;
	struct dp_domain *domain;
	struct dp_region *staging; /* NULL of a lane that only serves its peer */
	uint8_t *memory;           /* the staging's */
	uint64_t length;
	bool joined;          /* the domain is shared, and moves are what the lane does */
	uint32_t access;      /* the most that a use may grant */
	uint32_t slot_length; /* of a private lane's memory */
	uint32_t slot_count;
	uint32_t psn;
	uint32_t qpn;
	bool receiving;
	struct dp_transfer transfers[DP_MOVES_MAX]; /* a private lane uses the first */
	void *impl;                                 /* the fabric's own */
};

struct dp_io {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct dp_transfer *head;
	struct dp_transfer *tail;
	bool stop;
};

struct dp_fabric {
	const struct dp_fabric_ops *ops;
	void *impl;
	struct dp_fabric_options options;
	struct dp_fabric_info info;
	struct dp_ring ring;
	struct dp_io io;
	atomic_uint in_flight; /* send-queue WRs of all lanes: while > 0, spinning may pay */
	atomic_uint health;
	atomic_bool stop;
	atomic_ulong counts[DP_COUNTERS]; /* dp_fabric_counters */
	atomic_ulong completions[DP_STATUSES];
	int wake_fd;
	pthread_t *threads; /* the first is the progress thread */
	uint32_t threads_started;
	pthread_mutex_t lanes_lock; /* opening and closing, of domains too */
	struct dp_domain *domains;
	struct dp_lane *lanes;
};

/* wr_id: lane 16 | generation 32 | slot 16; enough to find the lane when nothing else holds. */
#define DP_SLOT_RECEIVE 0xffffu

static inline uint64_t dp_wr_id(const struct dp_lane *lane, uint32_t slot)
{
	return (uint64_t)lane->index << 48 | (uint64_t)lane->generation << 16 | slot;
}

static inline uint64_t dp_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* counters.c */
void dp_count(struct dp_fabric *fabric, enum dp_counter counter, uint64_t by);
void dp_count_completion(struct dp_fabric *fabric, uint32_t wc_status);
void *dp_fabric_alloc(struct dp_fabric *fabric, size_t length);

/* fabric.c */
int dp_fabric_start(const struct dp_fabric_options *options, const struct dp_fabric_ops *ops,
		    void *impl, const struct dp_fabric_info *info, struct dp_fabric **out);
void dp_fabric_emit(struct dp_fabric *fabric, const struct dp_event *event);
void dp_fabric_set_health(struct dp_fabric *fabric, enum dp_health health);

/* domain.c; under lanes_lock */
int dp_domain_private(struct dp_fabric *fabric, void *memory, uint64_t length, uint32_t access,
		      struct dp_region **out);
void dp_domain_discard(struct dp_region *region);
void dp_domains_end(struct dp_fabric *fabric);

/* lane.c */
void dp_lane_complete(struct dp_fabric *fabric, const struct dp_completion *completion);
void dp_lane_settle(struct dp_lane *lane);

/* transfer.c; all but the first with the lane's lock held */
int dp_transfer_begin(struct dp_lane *lane, struct dp_transfer *wanted);
void dp_transfers_reset(struct dp_lane *lane);
void dp_transfer_pump(struct dp_transfer *transfer);
void dp_transfers_complete(struct dp_lane *lane, uint32_t slot, uint32_t wc_status);
void dp_transfers_forget(struct dp_lane *lane);
void dp_transfers_fail(struct dp_lane *lane, int32_t status);
bool dp_transfers_threaded(const struct dp_lane *lane);
bool dp_transfers_settle(struct dp_lane *lane);

/* progress.c */
void *dp_progress_main(void *fabric);
uint32_t dp_progress_poll(struct dp_fabric *fabric);

/* io.c */
int dp_io_init(struct dp_io *io);
void dp_io_destroy(struct dp_io *io);
void dp_io_stop(struct dp_io *io);
void dp_io_queue(struct dp_io *io, struct dp_transfer *transfer);
void *dp_io_main(void *fabric);

/* mark.c */
int dp_mark_put(uint8_t *place, uint32_t length, uint64_t *mark);
bool dp_mark_left(const uint8_t *place, uint32_t length, uint64_t mark);

/* staging.c */
int dp_read_fully(int fd, uint8_t *out, uint64_t length, uint64_t offset);
int dp_extents_read(struct dp_transfer *transfer, uint8_t *out, uint32_t length);
void dp_slots_cut(struct dp_lane *lane, uint32_t longest);

/* sums.c */
int dp_sums_check(const struct dp_extent *extent, const uint8_t *bytes, uint64_t length,
		  uint64_t offset, uint64_t *crc);

#endif
