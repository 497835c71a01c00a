/* Who pairs on one host, who goes over UDP, and that whatever a stranger says changes nothing. */
#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "soft_pair.h"

#define LENGTH 200000u
#define SEED 1
#define USES 150
#define MESSAGES 40
#define QUIET_MS 3
#define ACCESS (DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ)

static struct dp_fabric_options options_of(uint32_t carrier)
{
	struct dp_fabric_options options = pair_options(4096);

	options.carrier = carrier;
	return options;
}

static void check_carrier(const struct end *end, const char *expected)
{
	CHECK(strcmp(dp_lane_carrier(end->lane), expected) == 0);
}

/* A packet, however right, is taken by a lane that goes by UDP only. */
static bool takes_packets(struct dp_lane *lane)
{
	bool takes;

	pthread_mutex_lock(&lane->lock);
	takes = soft_link_yields(lane);
	pthread_mutex_unlock(&lane->lock);
	return takes;
}

/* Two ends as they want it carry a message by @expected. */
static void check_pairing(const struct dp_fabric_options *ours,
			  const struct dp_fabric_options *theirs, const char *expected)
{
	struct pair pair;
	struct dp_remote to;

	end_open(&pair.ours, ours, LENGTH, 5);
	end_open(&pair.peer, theirs, LENGTH, 6);
	check_carrier(&pair.ours, "");
	pair_connect(&pair, DP_ACCESS_REMOTE_WRITE);
	to = end_as_remote(&pair.peer);
	CHECK(dp_lane_receive(pair.peer.lane) >= 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, LENGTH, &to, PAIR_COOKIE), 0);
	CHECK_EQUAL(next_event(&pair.ours).status, 0);
	CHECK_EQUAL(next_event(&pair.peer).imm, PAIR_COOKIE);
	check_carrier(&pair.ours, expected);
	check_carrier(&pair.peer, expected);
	CHECK_EQUAL(takes_packets(pair.peer.lane), strcmp(expected, "udp") == 0);
	pair_close(&pair);
}

static void lanes_of_one_host_pair_unless_one_does_not_want_to(void)
{
	const struct dp_fabric_options any = options_of(DP_CARRIER_AUTO);
	const struct dp_fabric_options udp = options_of(DP_CARRIER_UDP);
	struct dp_fabric_options faulty = any;

	faulty.faults.loss_ppm = 1;
	check_pairing(&any, &any, "local");
	check_pairing(&any, &udp, "udp");
	check_pairing(&udp, &any, "udp");
	check_pairing(&any, &faulty, "udp");
}

static void local_alone_refuses_who_is_not_here(void)
{
	const struct dp_fabric_options local = options_of(DP_CARRIER_LOCAL);
	const struct dp_fabric_options udp = options_of(DP_CARRIER_UDP);
	struct pair pair;
	struct dp_peer peer;

	end_open(&pair.ours, &local, LENGTH, 5);
	end_open(&pair.peer, &udp, LENGTH, 6);
	CHECK_EQUAL(dp_lane_prepare(pair.ours.lane, 5, DP_ACCESS_NONE), 0);
	peer = end_as_peer(&pair.peer);
	CHECK_EQUAL(dp_lane_connect(pair.ours.lane, &peer), -ECONNREFUSED);
	pair_close(&pair);
}

/* The peer's NIC listens, its lane never comes: as over UDP, in the end. */
static void a_peer_that_does_not_come_is_looked_for_over_udp(void)
{
	const struct dp_fabric_options any = options_of(DP_CARRIER_AUTO);
	struct pair pair;
	struct dp_peer peer;
	struct dp_remote to;
	struct dp_event event;

	end_open(&pair.ours, &any, LENGTH, 5);
	end_open(&pair.peer, &any, LENGTH, 6);
	CHECK_EQUAL(dp_lane_prepare(pair.ours.lane, 5, DP_ACCESS_NONE), 0);
	peer = end_as_peer(&pair.peer);
	to = end_as_remote(&pair.peer);
	CHECK_EQUAL(dp_lane_connect(pair.ours.lane, &peer), 0);
	CHECK_EQUAL(dp_lane_write(pair.ours.lane, 10, &to, PAIR_COOKIE), 0);
	event = next_event(&pair.ours);
	CHECK_EQUAL(event.wc_status, IBV_WC_RETRY_EXC_ERR);
	check_carrier(&pair.ours, "udp");
	pair_close(&pair);
}

/* The lane under attack, and a NIC whose name the attacker bears. */
static struct pair stage;
static uint8_t *before;

static uint32_t draw(uint32_t below)
{
	return (uint32_t)rand() % below;
}

/* The victim is connected to a lane that is not: it waits for who says to be that lane. */
static struct soft_greeting expose(void)
{
	struct dp_peer named = end_as_peer(&stage.ours);
	const struct dp_peer victim = end_as_peer(&stage.peer);
	struct soft_greeting hello = {
		.kind = SOFT_HELLO, .qpn = named.qpn, .peer_qpn = victim.qpn, .peer_psn = victim.psn
	};

	memcpy(hello.gid, named.gid, sizeof(hello.gid));
	CHECK_EQUAL(dp_lane_prepare(stage.peer.lane, stage.peer.psn, ACCESS), 0);
	CHECK_EQUAL(dp_lane_connect(stage.peer.lane, &named), 0);
	if (draw(2))
		CHECK(dp_lane_receive(stage.peer.lane) >= 0);
	return hello;
}

static void retire(void)
{
	struct dp_event event;

	CHECK_EQUAL(dp_lane_abort(stage.peer.lane), 0);
	do
		event = next_event(&stage.peer);
	while (event.kind != DP_EVENT_DRAINED);
	CHECK_EQUAL(dp_lane_recycle(stage.peer.lane), 0);
}

/* What is there to be read; a descriptor that comes along is closed. */
static ssize_t hear(int fd, void *out, size_t size, int limit_ms)
{
	struct pollfd ask = { .fd = fd, .events = POLLIN };
	int passed;
	ssize_t length;

	if (poll(&ask, 1, limit_ms) != 1)
		return -EAGAIN;
	length = soft_message_receive(fd, out, size, &passed);
	if (passed >= 0)
		close(passed);
	return length;
}

/* HELLO until the victim says WELCOME: before that it has to hear LATER from whom it dialled. */
static int introduce(const struct soft_greeting *hello)
{
	const struct dp_peer victim = end_as_peer(&stage.peer);

	for (int i = 0; i < 1000; i++) {
		struct soft_greeting answer;
		int fd = soft_local_connect(victim.gid);

		CHECK(fd >= 0);
		CHECK_EQUAL(soft_message_send(fd, hello, sizeof(*hello), -1), 0);
		if (hear(fd, &answer, sizeof(answer), 1000) == (ssize_t)sizeof(answer) &&
		    answer.kind == SOFT_WELCOME)
			return fd;
		close(fd);
	}
	CHECK(!"no WELCOME");
	return -1;
}

static struct soft_order hostile_order(void)
{
	static const uint8_t BYTES[LENGTH];
	const struct dp_lane *lane = stage.peer.lane;

	return (struct soft_order){
		.kind = draw(8) ? SOFT_REQUEST + draw(4) : draw(20),
		.what = draw(8) ? draw(3) : (uint32_t)rand(),
		.length = draw(4) ? draw(LENGTH) : (uint32_t)rand() * 2u,
		.rkey = dp_lane_rkey(lane) ^ (draw(4) == 0),
		.imm = draw(100),
		.remote = (uintptr_t)lane->memory + (draw(4) ? draw(100) : (uint32_t)rand()),
		.source = draw(4) ? (uintptr_t)BYTES : (uint64_t)rand() << draw(33),
	};
}

/* A peer that paired by the rules, and then breaks all of them. */
static void attack(int fd, bool by_ring)
{
	bool keyed = false;

	memcpy(before, stage.peer.memory, LENGTH);
	for (int i = 0; i < MESSAGES; i++) {
		struct soft_order order = hostile_order();
		size_t length = draw(16) ? sizeof(order) : draw(sizeof(order));

		keyed |= order.rkey == dp_lane_rkey(stage.peer.lane);
		if (soft_message_send(fd, &order, length, draw(16) ? -1 : STDIN_FILENO))
			break;
		while (hear(fd, &order, sizeof(order), by_ring && !draw(8) ? 1 : 0) > 0)
			;
	}
	while (hear(fd, &(struct soft_order){ 0 }, sizeof(struct soft_order), QUIET_MS) > 0)
		;
	if (!keyed)
		CHECK_EQUAL(memcmp(before, stage.peer.memory, LENGTH), 0);
}

static void confirm(int fd, const struct soft_greeting *hello, bool by_ring)
{
	struct soft_greeting last = *hello;
	int ring = by_ring ? soft_ring_make() : -1;

	last.kind = SOFT_CONFIRM;
	last.direct = !by_ring;
	CHECK_EQUAL(soft_message_send(fd, &last, sizeof(last), ring), 0);
	CHECK_EQUAL(hear(fd, &last, sizeof(last), 1000), sizeof(last));
	CHECK_EQUAL(last.kind, SOFT_READY);
	if (ring >= 0)
		close(ring);
}

static void open_stage(void)
{
	const struct dp_fabric_options any = options_of(DP_CARRIER_AUTO);

	end_open(&stage.ours, &any, LENGTH, 5);
	end_open(&stage.peer, &any, LENGTH, 6);
	CHECK_EQUAL(dp_lane_prepare(stage.ours.lane, 5, DP_ACCESS_NONE), 0);
	before = malloc(LENGTH);
}

static void close_stage(void)
{
	pair_close(&stage);
	free(before);
}

static void attack_all(bool by_ring)
{
	open_stage();
	if (by_ring)
		soft_local_refuse_direct(soft_nic_of(stage.peer.lane));
	for (int use = 0; use < USES; use++) {
		struct soft_greeting hello = expose();
		int fd;

		/* What is to be read at the probe: nothing of the attacker's is secret here. */
		hello.probe = (uintptr_t)&hello.nonce;
		hello.nonce = 0x1234;
		fd = introduce(&hello);
		confirm(fd, &hello, by_ring);
		attack(fd, by_ring);
		close(fd);
		retire();
	}
	close_stage();
}

static void hostile_orders_stay_within_the_region(void)
{
	attack_all(false);
	attack_all(true);
}

/* Any greeting, in any order, with any descriptor. */
static void hostile_greetings_leave_the_lane_to_its_peer(void)
{
	open_stage();
	for (int use = 0; use < USES; use++) {
		const struct soft_greeting hello = expose();
		const struct dp_peer victim = end_as_peer(&stage.peer);
		int fd = soft_local_connect(victim.gid);

		CHECK(fd >= 0);
		for (int i = 0; i < 6; i++) {
			struct soft_greeting greeting = hello;

			if (i || draw(2))
				greeting.kind = draw(12);
			greeting.direct = draw(2);
			greeting.qpn ^= draw(8) == 0;
			greeting.peer_psn ^= draw(8) == 0;
			greeting.probe = (uint64_t)rand() << draw(33);
			(void)soft_message_send(fd, &greeting,
						draw(8) ? sizeof(greeting) : draw(sizeof(greeting)),
						draw(3) ? -1 : STDIN_FILENO);
			(void)hear(fd, &greeting, sizeof(greeting), QUIET_MS);
		}
		close(fd);
		retire();
	}
	close_stage();
}

/* More connections than there is room for, none of which says anything. */
static void silent_connections_make_room_for_others(void)
{
	struct soft_greeting hello;
	int silent[3 * SOFT_PENDING_MAX];
	int fd;

	open_stage();
	hello = expose();
	for (int i = 0; i < 3 * SOFT_PENDING_MAX; i++)
		silent[i] = soft_local_connect(end_as_peer(&stage.peer).gid);
	fd = introduce(&hello);
	for (int i = 0; i < 3 * SOFT_PENDING_MAX; i++)
		close(silent[i]);
	close(fd);
	retire();
	close_stage();
}

static void a_ring_that_could_shrink_is_refused(void)
{
	struct soft_greeting hello;
	int fd, ring = memfd_create("unsealed", MFD_ALLOW_SEALING);

	CHECK_EQUAL(ftruncate(ring, SOFT_RING_BYTES), 0);
	CHECK(!soft_ring_sound(ring));
	open_stage();
	hello = expose();
	fd = introduce(&hello);
	hello.kind = SOFT_CONFIRM;
	CHECK_EQUAL(soft_message_send(fd, &hello, sizeof(hello), ring), 0);
	CHECK_EQUAL(hear(fd, &hello, sizeof(hello), 1000), 0);
	check_carrier(&stage.peer, "udp");
	close(fd);
	close(ring);
	retire();
	close_stage();
}

static uint32_t open_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	uint32_t count = 0;

	CHECK(all);
	while (readdir(all))
		count++;
	closedir(all);
	return count;
}

/* Leave room for @count more descriptors, or all again where it is negative. */
static void allow_descriptors(int count)
{
	static struct rlimit usual;
	struct rlimit few;
	int next = dup(STDIN_FILENO);

	close(next);
	if (count >= 0)
		CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &usual), 0);
	few = usual;
	if (count >= 0)
		few.rlim_cur = (rlim_t)(next + count);
	CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* With @room for as many more descriptors, what says HELLO hears the connection end. */
static void check_hung_up(int room, bool by_ring)
{
	struct soft_greeting hello;
	uint32_t settled;
	int fd;

	open_stage();
	if (by_ring)
		soft_local_refuse_direct(soft_nic_of(stage.peer.lane));
	settled = open_descriptors();
	hello = expose();
	while (open_descriptors() != settled) /* until its own call has had its LATER */
		CHECK(!event_within(stage.peer.fabric, 1, &(struct dp_event){ 0 }));
	allow_descriptors(room);
	fd = soft_local_connect(end_as_peer(&stage.peer).gid);
	CHECK(fd >= 0);
	(void)soft_message_send(fd, &hello, sizeof(hello), -1);
	CHECK_EQUAL(hear(fd, &hello, sizeof(hello), 1000), 0);
	allow_descriptors(-1);
	close(fd);
	retire();
	close_stage();
}

static void without_descriptors_who_calls_is_refused(void)
{
	check_hung_up(1, false);
}

static void without_memory_for_a_ring_the_lane_goes_by_udp(void)
{
	check_hung_up(2, true);
}

int main(void)
{
	uint32_t descriptors = open_descriptors();

	srand(SEED);
	RUN(lanes_of_one_host_pair_unless_one_does_not_want_to);
	RUN(local_alone_refuses_who_is_not_here);
	RUN(a_peer_that_does_not_come_is_looked_for_over_udp);
	RUN(hostile_orders_stay_within_the_region);
	RUN(hostile_greetings_leave_the_lane_to_its_peer);
	RUN(silent_connections_make_room_for_others);
	RUN(a_ring_that_could_shrink_is_refused);
	RUN(without_descriptors_who_calls_is_refused);
	RUN(without_memory_for_a_ring_the_lane_goes_by_udp);
	CHECK_EQUAL(open_descriptors(), descriptors);
	return 0;
}
