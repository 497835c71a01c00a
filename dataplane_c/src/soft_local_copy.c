/* soft_local_copy.c - bytes between two processes: from the peer's memory, or through a memfd. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "soft.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static ssize_t read_peer(pid_t pid, void *target, uint64_t source, size_t length)
{
	struct iovec to = { target, length };
	struct iovec from = { (void *)(uintptr_t)source, length };
	ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);

	return got < 0 ? -errno : got;
}

/*
 * soft_copy_probe - whether we can read the peer's memory: @nonce is there at @address.
 *
 * Only between processes of one user: one that may do more than its peer must not be talked into
 * reading on its behalf.
 */
bool soft_copy_probe(const struct soft_link *link, uint64_t address, uint64_t nonce)
{
	uint64_t found;

	return link->same_user && link->pid > 0 &&
	       read_peer(link->pid, &found, address, sizeof(found)) == (ssize_t)sizeof(found) &&
	       found == nonce;
}

/* soft_ring_make - a ring of ours to hand over; a descriptor or -errno. */
int soft_ring_make(void)
{
	int fd = memfd_create("soft-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, SOFT_RING_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* soft_ring_sound - a memfd of the right size for good: reading it neither fails nor blocks. */
bool soft_ring_sound(int fd)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &status) == 0 &&
	       status.st_size == (off_t)SOFT_RING_BYTES;
}

static off_t slot_offset(enum soft_stream_name name, uint32_t counter)
{
	return (off_t)((name * SOFT_RING_SLOTS + counter % SOFT_RING_SLOTS) * SOFT_SLOT_BYTES);
}

/* While it copies, the NIC does without the lane's lock: soft_link_close waits for its end. */
static void begin_copy(struct dp_lane *lane)
{
	soft_qp_of(lane)->copying = true;
	pthread_mutex_unlock(&lane->lock);
}

static void end_copy(struct dp_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	soft_qp_of(lane)->copying = false;
	pthread_cond_broadcast(&soft_qp_of(lane)->copied);
}

/* soft_copy_outlast - until no piece is being copied; gives up the lane's lock meanwhile. */
void soft_copy_outlast(struct dp_lane *lane)
{
	struct soft_qp *qp = soft_qp_of(lane);

	while (qp->copying)
		pthread_cond_wait(&qp->copied, &lane->lock);
}

static ssize_t fetch_direct(struct dp_lane *lane, uint8_t *target, uint64_t source, uint64_t left)
{
	size_t length = left < SOFT_PIECE_BYTES ? (size_t)left : SOFT_PIECE_BYTES;
	pid_t pid = soft_qp_of(lane)->link.pid;
	ssize_t got;

	begin_copy(lane);
	got = read_peer(pid, target, source, length);
	end_copy(lane);
	return got;
}

static ssize_t fetch_slot(struct dp_lane *lane, enum soft_stream_name name, uint8_t *target,
			  uint64_t left)
{
	struct soft_link *link = &soft_qp_of(lane)->link;
	struct soft_stream *stream = &link->in[name];
	const struct soft_order taken = { .kind = SOFT_TAKEN, .what = name };
	uint32_t length = stream->lengths[stream->taken % SOFT_RING_SLOTS];
	off_t offset = slot_offset(name, stream->taken);
	int ring = link->ring_theirs;
	ssize_t got;

	if (stream->taken == stream->sent)
		return 0;
	if (length > left)
		return -EPROTO;
	begin_copy(lane);
	got = pread(ring, target, length, offset);
	end_copy(lane);
	if (!soft_link_works(lane))
		return 0;
	if (got != (ssize_t)length || soft_message_send(link->fd, &taken, sizeof(taken), -1))
		return -EPROTO;
	stream->taken++;
	return got;
}

/*
 * soft_copy_fetch - the next piece of what the peer offers, to @target in the lane's memory.
 *
 * Gives up the lane's lock meanwhile: look at the QP's state afterwards. @source: in the peer's
 * memory; @left: bytes of the message, > 0. Returns how many came; 0 (no slot is full), -EPROTO
 * (the peer broke the rules), or process_vm_readv's -errno.
 */
ssize_t soft_copy_fetch(struct dp_lane *lane, enum soft_stream_name name, uint8_t *target,
			uint64_t source, uint64_t left)
{
	if (soft_qp_of(lane)->link.direct)
		return fetch_direct(lane, target, source, left);
	return fetch_slot(lane, name, target, left);
}

/* Fill one slot; 0, or -errno where the peer is to be given up. Gives up the lock meanwhile. */
static int push_slot(struct dp_lane *lane, enum soft_stream_name name, const uint8_t *source,
		     uint32_t length)
{
	struct soft_link *link = &soft_qp_of(lane)->link;
	struct soft_stream *stream = &link->out[name];
	const struct soft_order piece = { .kind = SOFT_PIECE, .what = name, .length = length };
	off_t offset = slot_offset(name, stream->sent);
	int ring = link->ring_ours;
	ssize_t put;

	begin_copy(lane);
	put = pwrite(ring, source, length, offset);
	end_copy(lane);
	if (!soft_link_works(lane))
		return -ECANCELED;
	if (put != (ssize_t)length)
		return -EIO;
	stream->sent++;
	return soft_message_send(link->fd, &piece, sizeof(piece), -1);
}

/*
 * soft_copy_push - the next piece of @source's @length bytes into our ring; @done counts them.
 *
 * Loses the link where it can't; look at the QP's state afterwards.
 */
enum soft_step soft_copy_push(struct dp_lane *lane, enum soft_stream_name name,
			      const uint8_t *source, uint64_t length, uint64_t *done)
{
	const struct soft_stream *stream = &soft_qp_of(lane)->link.out[name];
	uint64_t left = length - *done;
	uint32_t piece = left < SOFT_SLOT_BYTES ? (uint32_t)left : SOFT_SLOT_BYTES;
	int error;

	if (left == 0)
		return SOFT_STEP_DONE;
	if (stream->sent - stream->taken == SOFT_RING_SLOTS)
		return SOFT_STEP_WAIT;
	error = push_slot(lane, name, source + *done, piece);
	if (error == -ECANCELED)
		return SOFT_STEP_WAIT;
	if (error) {
		soft_link_lose(lane);
		return SOFT_STEP_WAIT;
	}
	*done += piece;
	return *done == length ? SOFT_STEP_DONE : SOFT_STEP_MORE;
}
