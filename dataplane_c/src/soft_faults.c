/*
 * soft_faults.c - a bad network on demand, by seed: loss, duplication, reordering, corruption, delay.
 *
 * What is held back lies in a table of fixed length; where that is full, packets are lost, which
 * is a fault too. Without faults nothing of this exists.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft.h"

#define HELD_MAX 512
#define PACKET_MAX 4224 /* headers, 4096, pad and ICRC */
#define MILLION 1000000u
#define REORDER_NS UINT64_C(200000) /* others overtake for so long */

struct held {
	uint64_t release_ns; /* SOFT_NEVER: the place is free */
	union soft_address to;
	uint32_t length;
	uint8_t bytes[PACKET_MAX];
};

struct soft_faults {
	struct dp_faults options;
	uint64_t random;
	struct held held[HELD_MAX];
};

bool soft_has_faults(const struct dp_faults *faults)
{
	return faults->loss_ppm || faults->duplicate_ppm || faults->reorder_ppm ||
	       faults->corrupt_ppm || faults->delay_us;
}

int soft_faults_open(const struct dp_faults *options, struct soft_faults **out)
{
	struct soft_faults *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->options = *options;
	self->random = options->seed;
	for (int i = 0; i < HELD_MAX; i++)
		self->held[i].release_ns = SOFT_NEVER;
	*out = self;
	return 0;
}

void soft_faults_close(struct soft_faults *self)
{
	free(self);
}

/* splitmix64 (S. Vigna, public domain algorithm): equal seeds, equal faults. */
static uint64_t draw(struct soft_faults *self)
{
	uint64_t z = self->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool happens(struct soft_faults *self, uint32_t ppm)
{
	return draw(self) % MILLION < ppm;
}

static void hold(struct soft_faults *self, const struct held *packet, uint64_t release_ns)
{
	for (int i = 0; i < HELD_MAX; i++) {
		struct held *place = &self->held[i];

		if (place->release_ns != SOFT_NEVER)
			continue;
		place->to = packet->to;
		place->length = packet->length;
		memcpy(place->bytes, packet->bytes, packet->length);
		place->release_ns = release_ns;
		return;
	}
}

static void send_now(int fd, const struct held *packet)
{
	(void)sendto(fd, packet->bytes, packet->length, 0, &packet->to.any,
		     soft_address_length(&packet->to));
}

static void send_or_hold(struct soft_faults *self, int fd, const struct held *packet,
			 uint64_t now_ns)
{
	uint64_t delay_ns = self->options.delay_us * UINT64_C(1000);

	if (happens(self, self->options.reorder_ppm))
		delay_ns += REORDER_NS;
	if (delay_ns)
		hold(self, packet, now_ns + delay_ns);
	else
		send_now(fd, packet);
}

/* soft_faults_send - one packet, or none, or two; now or later; as it was or a bit different. */
void soft_faults_send(struct soft_faults *self, int fd, const struct msghdr *message,
		      uint64_t now_ns)
{
	struct held packet = { .length = 0 };

	memcpy(&packet.to, message->msg_name, message->msg_namelen);
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];

		memcpy(packet.bytes + packet.length, part->iov_base, part->iov_len);
		packet.length += (uint32_t)part->iov_len;
	}
	if (happens(self, self->options.loss_ppm))
		return;
	if (happens(self, self->options.duplicate_ppm))
		send_or_hold(self, fd, &packet, now_ns);
	if (happens(self, self->options.corrupt_ppm)) {
		uint64_t bit = draw(self) % (packet.length * UINT64_C(8));

		packet.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	send_or_hold(self, fd, &packet, now_ns);
}

/* soft_faults_release - send what was held long enough; when to come again. */
uint64_t soft_faults_release(struct soft_faults *self, int fd, uint64_t now_ns)
{
	uint64_t next_ns = SOFT_NEVER;

	for (int i = 0; i < HELD_MAX; i++) {
		struct held *packet = &self->held[i];

		if (packet->release_ns <= now_ns) {
			send_now(fd, packet);
			packet->release_ns = SOFT_NEVER;
		}
		next_ns = soft_earlier(next_ns, packet->release_ns);
	}
	return next_ns;
}
