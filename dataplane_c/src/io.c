/* io.c - a few threads between files and slots, so that a slow disk never stalls the CQ. */
#include "core.h"

int dp_io_init(struct dp_io *io)
{
	*io = (struct dp_io){ 0 };
	pthread_mutex_init(&io->lock, NULL);
	return -pthread_cond_init(&io->work, NULL);
}

void dp_io_destroy(struct dp_io *io)
{
	pthread_cond_destroy(&io->work);
	pthread_mutex_destroy(&io->lock);
}

/* dp_io_stop - let every thread leave after the transfer it is busy with. */
void dp_io_stop(struct dp_io *io)
{
	pthread_mutex_lock(&io->lock);
	io->stop = true;
	pthread_cond_broadcast(&io->work);
	pthread_mutex_unlock(&io->lock);
}

/* dp_io_queue - send for a thread that pumps @transfer; once is enough. Lane's lock held. */
void dp_io_queue(struct dp_io *io, struct dp_transfer *transfer)
{
	if (transfer->queued)
		return;
	transfer->queued = true;
	transfer->io_next = NULL;
	pthread_mutex_lock(&io->lock);
	if (io->tail)
		io->tail->io_next = transfer;
	else
		io->head = transfer;
	io->tail = transfer;
	pthread_cond_signal(&io->work);
	pthread_mutex_unlock(&io->lock);
}

/* The longest waiting transfer; NULL when the threads are to stop. */
static struct dp_transfer *take(struct dp_io *io)
{
	struct dp_transfer *transfer = NULL;

	pthread_mutex_lock(&io->lock);
	while (!io->stop && !io->head)
		pthread_cond_wait(&io->work, &io->lock);
	if (!io->stop) {
		transfer = io->head;
		io->head = transfer->io_next;
		if (!io->head)
			io->tail = NULL;
	}
	pthread_mutex_unlock(&io->lock);
	return transfer;
}

void *dp_io_main(void *fabric)
{
	struct dp_io *io = &((struct dp_fabric *)fabric)->io;
	struct dp_transfer *transfer;

	while ((transfer = take(io))) {
		struct dp_lane *lane = transfer->lane;

		pthread_mutex_lock(&lane->lock);
		transfer->queued = false;
		dp_transfer_pump(transfer);
		dp_lane_settle(lane);
		pthread_mutex_unlock(&lane->lock);
	}
	return NULL;
}
