/* What a soft NIC puts on the wire: everybody's share, a peer that is overrun, IPv6. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <unistd.h>

#include "soft_pair.h"

#define LANES 8
#define LENGTH (1u << 20)
#define SHARE_LENGTH (1u << 20)
#define SHARE_JUDGED 3
#define SHARE_ATTEMPTS_MAX 30
#define WIRE_MTU 1024u
#define WIRE_WINDOW_BYTES (100u << 10) /* of a lane; more packets than a turn has */
#define WIRE_PSN 77u
#define WIRE_QPN 0x100u /* of the peer of the first lane */
#define SLOW_NS UINT64_C(1000000000)
#define SMALL_BUFFER_BYTES (64 << 10)
#define OVERRUN_LENGTH (4u << 20)
#define TIMEOUTS_MANY 8 /* a slow test may lose its CPU for as long as a timeout */

static struct soft_nic *nic_of(const struct end *end)
{
	return end->fabric->impl;
}

/* The peer of all lanes: the test itself, behind a socket that takes trains. */
struct wire {
	int fd;
	struct soft_flow flow; /* from the wire to the lanes */
	uint32_t arrived[LANES];
	bool finished[LANES];
	uint8_t datagram[SOFT_DATAGRAM_BYTES];
};

static void wire_open(struct wire *wire, const uint8_t *peer_gid)
{
	int one = 1, bytes = 4 << 20;

	memset(wire, 0, sizeof(*wire));
	wire->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(wire->fd >= 0);
	CHECK_EQUAL(setsockopt(wire->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)), 0);
	(void)setsockopt(wire->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	CHECK_EQUAL(soft_bind(wire->fd, wire->flow.source), 0);
	memcpy(wire->flow.target, peer_gid, sizeof(wire->flow.target));
	wire->flow.source_port = wire->flow.target_port = SOFT_PORT;
}

/* Acknowledge all that came for the peer of @lane. */
static void wire_acknowledge(struct wire *wire, const struct dp_lane *lane, uint32_t index)
{
	const struct soft_packet packet = {
		.opcode = SOFT_ACK,
		.syndrome = SOFT_SYNDROME_ACK,
		.qpn = lane->qpn,
		.psn = WIRE_PSN + wire->arrived[index] - 1,
	};
	uint8_t bytes[SOFT_HEAD_BYTES + SOFT_ICRC_BYTES];
	uint32_t length = soft_packet_head(&packet, bytes) + SOFT_ICRC_BYTES;
	uint32_t icrc = soft_icrc(&wire->flow, 0, bytes, length);
	union soft_address to;

	memcpy(bytes + length - SOFT_ICRC_BYTES, &icrc, SOFT_ICRC_BYTES);
	soft_address_set(&to, wire->flow.target, SOFT_PORT);
	CHECK_EQUAL(sendto(wire->fd, bytes, length, 0, &to.any, soft_address_length(&to)), length);
}

static void wire_take(struct wire *wire, struct dp_lane *const *lanes, const uint8_t *bytes,
		      size_t length)
{
	struct soft_packet packet;
	uint32_t index;

	CHECK_EQUAL(soft_packet_parse(bytes, length, &packet), 0);
	index = packet.qpn - WIRE_QPN;
	CHECK(index < LANES);
	if (packet.psn != WIRE_PSN + wire->arrived[index])
		return; /* again, because the test was slow */
	wire->arrived[index]++;
	wire->finished[index] = soft_traits(packet.opcode) & SOFT_ENDS;
	if (packet.ack_request)
		wire_acknowledge(wire, lanes[index], index);
}

/* One datagram, the packets of a train each on its own. */
static void wire_receive(struct wire *wire, struct dp_lane *const *lanes)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { wire->datagram, sizeof(wire->datagram) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t length = recvmsg(wire->fd, &message, 0);
	struct cmsghdr *at = CMSG_FIRSTHDR(&message);
	int segment = (int)length;

	CHECK(length > 0);
	if (at)
		memcpy(&segment, CMSG_DATA(at), sizeof(segment));
	for (ssize_t done = 0; done < length; done += segment)
		wire_take(wire, lanes, wire->datagram + done,
			  (size_t)(length - done < segment ? length - done : segment));
}

static bool one_has_finished(const struct wire *wire)
{
	for (int i = 0; i < LANES; i++) {
		if (wire->finished[i])
			return true;
	}
	return false;
}

static bool none_went_back(struct dp_lane *const *lanes)
{
	uint64_t recovered = 0;

	for (int i = 0; i < LANES; i++) {
		pthread_mutex_lock(&lanes[i]->lock);
		recovered |= soft_qp_of(lanes[i])->requester.recovery;
		pthread_mutex_unlock(&lanes[i]->lock);
	}
	return recovered == 0;
}

/*
 * Lanes of one NIC, a long WRITE each: when the first is through, all others are half through.
 *
 * False where timers, and not turns, had a say: the test was kept from its CPU.
 */
static bool share(void)
{
	const struct dp_fabric_options options = pair_options(WIRE_MTU);
	const struct dp_remote to = { .addr = 0x1000, .length_bytes = SHARE_LENGTH, .rkey = 7 };
	struct dp_lane *lanes[LANES];
	struct wire *wire = malloc(sizeof(*wire));
	struct end end;
	bool undisturbed;

	end_open(&end, &options, SHARE_LENGTH, WIRE_PSN);
	nic_of(&end)->window_bytes = WIRE_WINDOW_BYTES;
	wire_open(wire, nic_of(&end)->gid);
	lanes[0] = end.lane;
	for (uint32_t i = 0; i < LANES; i++) {
		struct dp_peer peer = { .qpn = WIRE_QPN + i, .psn = 1 };

		memcpy(peer.gid, wire->flow.source, sizeof(peer.gid));
		if (i)
			CHECK_EQUAL(dp_lane_open(end.fabric, end.memory, SHARE_LENGTH,
						 DP_ACCESS_NONE, i, &lanes[i]),
				    0);
		CHECK_EQUAL(dp_lane_prepare(lanes[i], WIRE_PSN, DP_ACCESS_NONE), 0);
		CHECK_EQUAL(dp_lane_connect(lanes[i], &peer), 0);
		soft_qp_of(lanes[i])->requester.round_trip_ns = SLOW_NS; /* a test may pause */
	}
	for (uint32_t i = 0; i < LANES; i++)
		CHECK_EQUAL(dp_lane_write(lanes[i], SHARE_LENGTH, &to, PAIR_COOKIE), 0);
	while (!one_has_finished(wire))
		wire_receive(wire, lanes);
	undisturbed = none_went_back(lanes);
	for (uint32_t i = 0; undisturbed && i < LANES; i++)
		CHECK(wire->arrived[i] >= SHARE_LENGTH / WIRE_MTU / 2);
	dp_fabric_close(&end.fabric);
	close(wire->fd);
	free(wire);
	free(end.memory);
	return undisturbed;
}

static void lanes_of_one_nic_share_it(void)
{
	int judged = 0, attempts = 0;

	for (; attempts < SHARE_ATTEMPTS_MAX && judged < SHARE_JUDGED; attempts++)
		judged += share();
	printf("   %d of %d attempts were undisturbed\n", judged, attempts);
	CHECK(judged > 0);
}

/*
 * The peer's socket holds a fraction of what we keep in flight, as where net.core.rmem_max is low:
 * much is sent twice, but nobody sits out timeouts.
 */
static void a_peer_that_is_overrun_is_served_without_timeouts(void)
{
	const struct dp_fabric_options options = pair_options(4096);
	struct pair pair;
	int bytes = SMALL_BUFFER_BYTES;

	end_open(&pair.ours, &options, OVERRUN_LENGTH, 5);
	end_open(&pair.peer, &options, OVERRUN_LENGTH, 6);
	for (uint32_t i = 0; i < OVERRUN_LENGTH; i++)
		pair.ours.memory[i] = (uint8_t)(i * 19 + i / 257);
	nic_of(&pair.ours)->window_bytes = SOFT_WINDOW_BYTES;
	CHECK_EQUAL(setsockopt(soft_socket_fd(nic_of(&pair.peer)), SOL_SOCKET, SO_RCVBUF, &bytes,
			       sizeof(bytes)),
		    0);
	pair_connect(&pair, DP_ACCESS_REMOTE_WRITE);
	for (int i = 0; i < 3; i++) {
		const struct dp_remote to = end_as_remote(&pair.peer);

		CHECK(dp_lane_receive(pair.peer.lane) >= 0);
		CHECK_EQUAL(dp_lane_write(pair.ours.lane, OVERRUN_LENGTH, &to, PAIR_COOKIE), 0);
		CHECK_EQUAL(next_event(&pair.ours).status, 0);
		CHECK_EQUAL(next_event(&pair.peer).bytes, OVERRUN_LENGTH);
		CHECK_EQUAL(memcmp(pair.ours.memory, pair.peer.memory, OVERRUN_LENGTH), 0);
	}
	printf("   went back %llu times, %llu timeouts\n",
	       (unsigned long long)counted(pair.ours.fabric, DP_COUNT_RETRANSMISSIONS),
	       (unsigned long long)counted(pair.ours.fabric, DP_COUNT_TIMEOUTS));
	CHECK(counted(pair.ours.fabric, DP_COUNT_TIMEOUTS) < TIMEOUTS_MANY);
	pair_close(&pair);
}

/* ::1 is one address with one port 4791: two lanes of one NIC, connected to each other. */
static void bytes_go_over_ipv6(void)
{
	struct dp_fabric_options options = pair_options(4096);
	struct pair pair = { .ours = { .length = LENGTH, .psn = 11 } };
	struct dp_remote remote;

	options.address[15] = 1;
	options.networks[0] = (struct dp_network){ .address = { [15] = 1 }, .prefix_bits = 128 };
	if (dp_fabric_open(&options, &pair.ours.fabric) == -EADDRNOTAVAIL) {
		printf("   skipped: this host has no ::1\n");
		return;
	}
	pair.peer = pair.ours;
	pair.peer.psn = 12;
	for (int i = 0; i < 2; i++) {
		struct end *end = i ? &pair.peer : &pair.ours;

		end->memory = malloc(LENGTH);
		CHECK_EQUAL(dp_lane_open(end->fabric, end->memory, LENGTH, PAIR_ACCESS, end->psn,
					 &end->lane),
			    0);
		memset(end->memory, 0x5a + i, LENGTH);
	}
	pair_connect(&pair, DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ);
	remote = end_as_remote(&pair.peer);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, LENGTH / 2, &remote, PAIR_COOKIE), 0);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(next_event(&pair.ours).status, 0); /* sent, and received, in either order */
	CHECK_EQUAL(next_event(&pair.ours).status, 0);
	CHECK_EQUAL(memcmp(pair.ours.memory, pair.peer.memory, LENGTH / 2), 0);
	CHECK_EQUAL(dp_lane_read(pair.ours.lane, LENGTH, &remote), 0);
	CHECK_EQUAL(next_event(&pair.ours).status, 0);
	CHECK_EQUAL(memcmp(pair.ours.memory, pair.peer.memory, LENGTH), 0);
	CHECK_EQUAL(counted(pair.ours.fabric, DP_COUNT_PACKETS_CORRUPT), 0);
	CHECK(counted(pair.ours.fabric, DP_COUNT_PACKETS) > LENGTH / 4096);
	pair.peer.fabric = NULL;
	pair_close(&pair);
}

int main(void)
{
	RUN(lanes_of_one_nic_share_it);
	RUN(a_peer_that_is_overrun_is_served_without_timeouts);
	RUN(bytes_go_over_ipv6);
	return 0;
}
