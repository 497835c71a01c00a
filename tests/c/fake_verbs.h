/*
 * fake_verbs.h - a libibverbs without a device, which does what a test tells it to.
 *
 * ibv_post_send and its kind are inline functions through ibv_context.ops, so a context with ops
 * of its own is enough; the rest is struct dp_verbs. "Remote" addresses are this process's.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include "verbs.h"

#define FAKE_LOG 512

struct fake_send {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	bool completed;
};

struct fake_receive {
	uint64_t wr_id;
	int num_sge;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	bool completed;
};

struct fake_modify {
	struct ibv_qp_attr attr;
	int mask;
};

struct fake {
	/* What a test may set, before the fabric is opened or under fake_lock. */
	bool manual;         /* sends complete by fake_complete only */
	bool swallow_flush;  /* a QP moved to ERR flushes nothing */
	int no_list_errno;   /* get_device_list returns NULL with it */
	int register_errno;  /* register_mr fails with it */
	int create_qp_errno; /* create_qp fails with it */
	int modify_errno;    /* modify_qp to ERR fails with it */
	int post_errno_at;   /* the post of this number (from 1) fails with ENOMEM */
	uint32_t unplaced;   /* bytes at a READ's end that its success does not place */
	struct ibv_device device;
	struct ibv_port_attr port;
	struct ibv_gid_entry gids[4];

	/* What it saw. */
	struct fake_send sends[FAKE_LOG];
	int send_count;
	struct fake_receive receives[FAKE_LOG];
	int receive_count;
	struct fake_modify modifies[FAKE_LOG];
	int modify_count;
	int live; /* objects that were made and not destroyed */
	int last_access;
};

extern struct fake fake;

/* Back to an idle RoCE port named "fake0", MTU 4096, with an IPv4 GID at index 1. */
void fake_reset(void);
const struct dp_verbs *fake_verbs(void);

struct dp_fabric_options fake_options(void);
struct dp_fabric *fake_open(void);

void fake_lock(void);
void fake_unlock(void);

/* Until @count sends were posted since fake_reset. */
void fake_wait_sends(int count);
void fake_complete(int send, enum ibv_wc_status status);
/* The peer's WRITE_WITH_IMM into receive number @receive. */
void fake_arrive(int receive, uint32_t imm, uint32_t byte_len, enum ibv_wc_opcode opcode);
void fake_fail_receive(int receive, enum ibv_wc_status status);
/* A completion with this wr_id, whatever was posted. */
void fake_stray(uint64_t wr_id);
void fake_async(enum ibv_event_type type);

/* The next event, within seconds, and that no other follows at once. */
struct dp_event fake_event(struct dp_fabric *fabric);
bool fake_quiet(struct dp_fabric *fabric);

#endif
