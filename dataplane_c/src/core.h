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
#define DP_POLLFDS 3                       /* wake, completion channel, async events */

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
 */
struct dp_fabric_ops {
	int (*lane_open)(struct dp_lane *lane);
	void (*lane_close)(struct dp_lane *lane);
	int (*lane_prepare)(struct dp_lane *lane, uint32_t access);
	int (*lane_connect)(struct dp_lane *lane, const struct dp_peer *peer);
	int (*lane_error)(struct dp_lane *lane);
	int (*lane_reset)(struct dp_lane *lane);
	int (*lane_replace)(struct dp_lane *lane);
	uint32_t (*lane_state)(struct dp_lane *lane);
	int (*post)(struct dp_lane *lane, const struct dp_segment *segment);
	int (*post_receive)(struct dp_lane *lane, uint64_t wr_id, uint32_t sge_length);
	int (*poll)(struct dp_fabric *fabric, struct dp_completion *out, int max);
	int (*arm)(struct dp_fabric *fabric);
	int (*pollfds)(struct dp_fabric *fabric, struct pollfd *out); /* how many it added */
	void (*serve)(struct dp_fabric *fabric); /* something of pollfds became readable */
	void (*close)(struct dp_fabric *fabric);
};

/* What a lane's send queue is doing; idle where kind is DP_EVENT_NONE. */
struct dp_transfer {
	enum dp_event_kind kind;
	bool pumping; /* a thread is in dp_transfer_pump, perhaps in pread */
	bool queued;  /* it waits for an I/O thread */
	bool has_imm;
	uint32_t imm;
	const struct dp_extent *extents; /* SENT only; borrowed from the caller */
	uint32_t extent_index;
	uint64_t extent_done;
	struct dp_remote remote;
	uint64_t total;
	uint64_t issued;
	uint64_t acked;
	uint32_t piece;  /* bytes of one WR, the last may be shorter */
	uint32_t posted; /* bit set of the slots in flight */
	uint32_t slot_lengths[DP_SLOTS_MAX];
	int32_t status;
	uint32_t wc_status;
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
	uint8_t *memory;
	uint64_t length;
	uint32_t access;
	uint32_t slot_length;
	uint32_t slot_count;
	uint32_t psn;
	uint32_t qpn;
	uint32_t rkey;
	bool receiving;
	struct dp_transfer transfer;
	struct dp_lane *io_next;
	void *impl; /* the fabric's own */
};

struct dp_io {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct dp_lane *head;
	struct dp_lane *tail;
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
	int wake_fd;
	pthread_t *threads; /* the first is the progress thread */
	uint32_t threads_started;
	pthread_mutex_t lanes_lock; /* opening and closing */
	struct dp_lane *lanes;
};

/* wr_id: lane 16 | generation 32 | slot 16; enough to find the lane when nothing else holds. */
#define DP_SLOT_RECEIVE 0xffffu

static inline uint64_t dp_wr_id(const struct dp_lane *lane, uint32_t slot)
{
	return (uint64_t)lane->index << 48 | (uint64_t)lane->generation << 16 | slot;
}

/* fabric.c */
int dp_fabric_start(const struct dp_fabric_options *options, const struct dp_fabric_ops *ops,
		    void *impl, const struct dp_fabric_info *info, struct dp_fabric **out);
void dp_fabric_emit(struct dp_fabric *fabric, const struct dp_event *event);
void dp_fabric_set_health(struct dp_fabric *fabric, enum dp_health health);

/* lane.c */
void dp_lane_complete(struct dp_fabric *fabric, const struct dp_completion *completion);
void dp_lane_settle(struct dp_lane *lane);

/* transfer.c; all with the lane's lock held */
void dp_transfer_pump(struct dp_lane *lane);
void dp_transfer_complete(struct dp_lane *lane, uint32_t slot, uint32_t wc_status);
void dp_transfer_forget(struct dp_lane *lane);
void dp_transfer_fail(struct dp_transfer *transfer, int32_t status, uint32_t wc_status);
bool dp_transfer_settle(struct dp_lane *lane);

/* progress.c */
void *dp_progress_main(void *fabric);
uint32_t dp_progress_poll(struct dp_fabric *fabric);

/* io.c */
int dp_io_init(struct dp_io *io);
void dp_io_destroy(struct dp_io *io);
void dp_io_stop(struct dp_io *io);
void dp_io_queue(struct dp_io *io, struct dp_lane *lane);
void *dp_io_main(void *fabric);

/* staging.c */
int dp_extents_read(struct dp_transfer *transfer, uint8_t *out, uint32_t length);
void dp_slots_cut(struct dp_lane *lane, uint32_t longest);

#endif
