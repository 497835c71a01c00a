/* Windows, timers and gaps of a soft lane by a clock of our own: no packet leaves the test. */
#include "soft_pair.h"

#define T_NS (UINT64_C(4096) << 14) /* timeout 14: 4.096 us * 2^14 */
#define WINDOW_MAX 256u
#define FLIGHT 100u
#define MS UINT64_C(1000000)
#define PEER_PSN 1000u

/* A connected lane of a NIC that has no thread. */
struct desk {
	struct soft_nic nic;
	struct dp_fabric fabric;
	struct dp_lane lane;
	atomic_ulong active;
	uint8_t memory[4096];
};

static struct desk *desk_open(void)
{
	struct desk *desk = calloc(1, sizeof(*desk));
	struct soft_qp *qp;

	desk->nic.mtu = 1024;
	desk->nic.active = &desk->active;
	CHECK_EQUAL(soft_socket_open(&desk->nic), 0);
	desk->fabric.impl = &desk->nic;
	desk->nic.fabric = &desk->fabric;
	desk->lane.fabric = &desk->fabric;
	desk->lane.memory = desk->memory;
	desk->lane.length = sizeof(desk->memory);
	desk->lane.access = DP_ACCESS_REMOTE_WRITE;
	CHECK_EQUAL(soft_lane_open(&desk->lane), 0);
	qp = soft_qp_of(&desk->lane);
	qp->state = IBV_QPS_RTS;
	qp->access = DP_ACCESS_REMOTE_WRITE;
	memcpy(qp->out.target, desk->nic.gid, sizeof(qp->out.target)); /* to ourselves: unread */
	soft_requester_start(&qp->requester, 1, WINDOW_MAX);
	soft_responder_start(&qp->responder, PEER_PSN);
	return desk;
}

static void desk_close(struct desk *desk)
{
	soft_lane_close(&desk->lane);
	soft_socket_close(&desk->nic);
	free(desk);
}

static struct soft_requester *requester_of(struct desk *desk)
{
	return &soft_qp_of(&desk->lane)->requester;
}

static struct soft_responder *responder_of(struct desk *desk)
{
	return &soft_qp_of(&desk->lane)->responder;
}

/* As if FLIGHT more packets had been posted and sent at @now_ns. */
static void fly(struct desk *desk, uint64_t now_ns)
{
	struct soft_requester *requester = requester_of(desk);

	requester->end += FLIGHT;
	requester->nxt = requester->end;
	soft_recovery_sent(requester, now_ns);
}

static void all_acknowledged(struct desk *desk, uint64_t now_ns)
{
	soft_recovery_progress(requester_of(desk), requester_of(desk)->sent, now_ns);
}

/* A round trip of @ms milliseconds is known. */
static void know_round_trip(struct desk *desk, uint64_t ms)
{
	fly(desk, 0);
	all_acknowledged(desk, ms * MS);
}

static void a_dead_peer_costs_eight_timeouts_between_one_and_four_long(void)
{
	struct desk *desk = desk_open();
	uint64_t now_ns = 5 * T_NS, last_ns = now_ns, timeouts = 0;

	fly(desk, now_ns);
	while (soft_qp_of(&desk->lane)->state == IBV_QPS_RTS) {
		now_ns = soft_requester_deadline(requester_of(desk));
		CHECK(now_ns != SOFT_NEVER);
		(void)soft_recovery_turn(&desk->lane, now_ns);
		requester_of(desk)->nxt = requester_of(desk)->sent; /* sent again */
		if (counted(&desk->fabric, DP_COUNT_TIMEOUTS) == timeouts)
			continue;
		timeouts++;
		CHECK(now_ns - last_ns >= T_NS);
		CHECK(now_ns - last_ns <= 4 * T_NS);
		last_ns = now_ns;
	}
	CHECK_EQUAL(timeouts, 8); /* retry_cnt 7, and the first */
	CHECK(now_ns - 5 * T_NS <= 32 * T_NS);
	CHECK_EQUAL(soft_requester_deadline(requester_of(desk)), SOFT_NEVER);
	desk_close(desk);
}

static void silence_is_probed_long_before_the_timeout(void)
{
	struct desk *desk = desk_open();
	struct soft_requester *requester = requester_of(desk);
	uint64_t first_ns, second_ns;

	know_round_trip(desk, 2);
	fly(desk, 100 * MS);
	first_ns = soft_requester_deadline(requester);
	CHECK(first_ns > 102 * MS);
	CHECK(first_ns < 110 * MS);
	CHECK(soft_recovery_turn(&desk->lane, first_ns));
	CHECK_EQUAL(requester->nxt, requester->una);
	CHECK_EQUAL(requester->window, SOFT_WINDOW_MIN);
	CHECK_EQUAL(requester->retries, 0);
	second_ns = soft_requester_deadline(requester);
	CHECK_EQUAL(second_ns - first_ns, 2 * (first_ns - 100 * MS)); /* ever later */
	CHECK_EQUAL(counted(&desk->fabric, DP_COUNT_TIMEOUTS), 0);
	desk_close(desk);
}

static void a_probe_of_a_peer_that_was_only_away_costs_no_window(void)
{
	struct desk *desk = desk_open();
	struct soft_requester *requester = requester_of(desk);
	uint32_t window;

	know_round_trip(desk, 1);
	window = requester->window;
	fly(desk, 10 * MS);
	for (int i = 0; i < 3; i++) {
		(void)soft_recovery_turn(&desk->lane, soft_requester_deadline(requester));
		requester->nxt += SOFT_WINDOW_MIN; /* that go out again */
	}
	all_acknowledged(desk, 50 * MS);
	CHECK(requester->window >= window);
	CHECK_EQUAL(requester->threshold, WINDOW_MAX);
	fly(desk, 60 * MS);
	(void)soft_recovery_turn(&desk->lane, soft_requester_deadline(requester));
	requester->nxt += SOFT_WINDOW_MIN;
	soft_recovery_progress(requester, requester->una + SOFT_WINDOW_MIN, 70 * MS);
	CHECK(requester->window < window); /* what lay behind them was lost */
	desk_close(desk);
}

static void what_was_sent_twice_measures_no_round_trip(void)
{
	struct desk *desk = desk_open();
	uint64_t known_ns;

	know_round_trip(desk, 2);
	known_ns = requester_of(desk)->round_trip_ns;
	CHECK_EQUAL(known_ns, 2 * MS);
	fly(desk, 10 * MS);
	soft_recovery_gap(&desk->lane, 11 * MS);
	all_acknowledged(desk, 60 * MS);
	CHECK_EQUAL(requester_of(desk)->round_trip_ns, known_ns);
	desk_close(desk);
}

static void a_loss_halves_the_window_once_a_window(void)
{
	struct desk *desk = desk_open();
	struct soft_requester *requester = requester_of(desk);

	fly(desk, 0);
	all_acknowledged(desk, MS);
	fly(desk, MS);
	all_acknowledged(desk, 2 * MS);
	CHECK_EQUAL(requester->window, 2 * FLIGHT + 16); /* slow start from 16 */
	fly(desk, 2 * MS);
	soft_recovery_gap(&desk->lane, 3 * MS);
	CHECK_EQUAL(requester->window, FLIGHT + 8);
	soft_recovery_progress(requester, requester->una + 1, 4 * MS);
	soft_recovery_gap(&desk->lane, 5 * MS); /* another one of the same flight */
	CHECK_EQUAL(requester->window, FLIGHT + 8);
	desk_close(desk);
}

static void the_window_never_passes_its_limit(void)
{
	struct desk *desk = desk_open();

	for (uint64_t i = 0; i < 100; i++) {
		fly(desk, i * MS);
		all_acknowledged(desk, (i + 1) * MS);
		CHECK(requester_of(desk)->window <= WINDOW_MAX);
	}
	CHECK_EQUAL(requester_of(desk)->window, WINDOW_MAX);
	desk_close(desk);
}

static void gaps_without_progress_are_retries(void)
{
	struct desk *desk = desk_open();
	struct soft_requester *requester = requester_of(desk);
	uint64_t now_ns = 100 * MS;

	know_round_trip(desk, 1);
	fly(desk, now_ns);
	for (uint32_t retries = 1; retries <= 7; retries++, now_ns += 2 * MS) {
		soft_recovery_gap(&desk->lane, now_ns);
		soft_recovery_gap(&desk->lane, now_ns + MS / 2); /* tells of the same gap */
		CHECK_EQUAL(requester->retries, retries);
	}
	soft_recovery_gap(&desk->lane, now_ns);
	CHECK_EQUAL(soft_qp_of(&desk->lane)->state, IBV_QPS_ERR);
	desk_close(desk);
}

static void a_peer_that_is_not_ready_is_waited_for_without_retries(void)
{
	struct desk *desk = desk_open();
	struct soft_requester *requester = requester_of(desk);

	for (uint64_t now_ns = MS; now_ns < 100 * MS; now_ns += MS) {
		fly(desk, now_ns);
		soft_recovery_wait(requester, now_ns + MS / 2);
		CHECK_EQUAL(soft_requester_deadline(requester), now_ns + MS / 2);
		CHECK(!soft_recovery_turn(&desk->lane, now_ns + MS / 4));
		CHECK(soft_recovery_turn(&desk->lane, now_ns + MS / 2));
		CHECK_EQUAL(requester->retries, 0);
	}
	desk_close(desk);
}

/* A packet of a WRITE that comes @ahead of the first; the syndrome that becomes due, or 0. */
static uint8_t answer_to(struct desk *desk, uint32_t ahead)
{
	const struct soft_packet packet = {
		.opcode = SOFT_WRITE_MIDDLE,
		.psn = PEER_PSN + ahead,
		.payload = desk->memory,
		.length = 1024,
	};
	uint8_t due;

	soft_responder_request(&desk->lane, &packet);
	due = responder_of(desk)->nak;
	responder_of(desk)->nak = 0;
	return due;
}

static void a_gap_is_told_once_and_again_when_the_peer_went_back_in_vain(void)
{
	struct desk *desk = desk_open();

	CHECK_EQUAL(answer_to(desk, 5), SOFT_SYNDROME_SEQUENCE);
	CHECK_EQUAL(answer_to(desk, 6), 0);
	CHECK_EQUAL(answer_to(desk, 9), 0);
	CHECK_EQUAL(answer_to(desk, 1), SOFT_SYNDROME_SEQUENCE); /* the first is lost again */
	CHECK_EQUAL(answer_to(desk, 2), 0);
	CHECK_EQUAL(answer_to(desk, 10), 0);
	desk_close(desk);
}

static void a_gap_is_told_when_what_lies_behind_it_is_drained(void)
{
	struct desk *desk = desk_open();
	const struct soft_packet packet = { .opcode = SOFT_WRITE_MIDDLE, .psn = PEER_PSN + 1 };
	uint32_t budget = SOFT_TURN_PACKETS;

	desk->nic.backlog = true;
	for (int i = 0; i < 10; i++) {
		soft_responder_request(&desk->lane, &packet);
		CHECK(soft_responder_turn(&desk->lane, &budget)); /* more of it is to be expected */
		CHECK_EQUAL(responder_of(desk)->nak, SOFT_SYNDROME_SEQUENCE);
	}
	CHECK(!soft_responder_turn(&desk->lane, &budget)); /* others' packets don't hold it up */
	CHECK_EQUAL(responder_of(desk)->nak, 0);
	soft_socket_flush(&desk->nic, soft_qp_of(&desk->lane));
	desk_close(desk);
}

int main(void)
{
	RUN(a_dead_peer_costs_eight_timeouts_between_one_and_four_long);
	RUN(silence_is_probed_long_before_the_timeout);
	RUN(a_probe_of_a_peer_that_was_only_away_costs_no_window);
	RUN(what_was_sent_twice_measures_no_round_trip);
	RUN(a_loss_halves_the_window_once_a_window);
	RUN(the_window_never_passes_its_limit);
	RUN(gaps_without_progress_are_retries);
	RUN(a_peer_that_is_not_ready_is_waited_for_without_retries);
	RUN(a_gap_is_told_once_and_again_when_the_peer_went_back_in_vain);
	RUN(a_gap_is_told_when_what_lies_behind_it_is_drained);
	return 0;
}
