/* What the device is told: every attribute of PROTOCOL.md section 2, and what is refused before. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "check.h"
#include "fake_verbs.h"

static const struct dp_peer PEER = {
	.gid = { [10] = 0xff, 0xff, 10, 77, 0, 2 }, .qpn = 0xabcdef, .psn = 0xfedcba, .lid = 33
};
static uint8_t memory[4 << 20];

static struct dp_lane *open_lane(struct dp_fabric *fabric)
{
	struct dp_lane *lane;

	CHECK_EQUAL(dp_lane_open(fabric, memory, sizeof(memory),
				 DP_ACCESS_REMOTE_WRITE | DP_ACCESS_REMOTE_READ, 1, &lane),
		    0);
	return lane;
}

static void goes_to_rts_with_the_protocols_attributes(void)
{
	struct dp_fabric *fabric;
	struct dp_lane *lane;
	const struct ibv_qp_attr *init = &fake.modifies[0].attr, *rtr = &fake.modifies[1].attr,
				 *rts = &fake.modifies[2].attr;

	fake_reset();
	fabric = fake_open();
	lane = open_lane(fabric);
	CHECK_EQUAL(dp_lane_prepare(lane, 0x123456, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(lane, &PEER), 0);
	CHECK_EQUAL(fake.modify_count, 3);

	CHECK_EQUAL(init->qp_state, IBV_QPS_INIT);
	CHECK_EQUAL(init->port_num, 1);
	CHECK_EQUAL(init->qp_access_flags, 0);

	CHECK_EQUAL(rtr->qp_state, IBV_QPS_RTR);
	CHECK_EQUAL(rtr->path_mtu, IBV_MTU_4096);
	CHECK_EQUAL(rtr->dest_qp_num, 0xabcdef);
	CHECK_EQUAL(rtr->rq_psn, 0xfedcba);
	CHECK_EQUAL(rtr->max_dest_rd_atomic, 1);
	CHECK_EQUAL(rtr->min_rnr_timer, 12);
	CHECK_EQUAL(rtr->ah_attr.is_global, 1);
	CHECK_EQUAL(rtr->ah_attr.dlid, 0); /* Ethernet ignores LIDs */
	CHECK_EQUAL(rtr->ah_attr.grh.hop_limit, 64);
	CHECK_EQUAL(rtr->ah_attr.grh.sgid_index, 1);
	CHECK_EQUAL(memcmp(rtr->ah_attr.grh.dgid.raw, PEER.gid, sizeof(PEER.gid)), 0);

	CHECK_EQUAL(rts->qp_state, IBV_QPS_RTS);
	CHECK_EQUAL(rts->sq_psn, 0x123456);
	CHECK_EQUAL(rts->timeout, 14);
	CHECK_EQUAL(rts->retry_cnt, 7);
	CHECK_EQUAL(rts->rnr_retry, 7);
	CHECK_EQUAL(rts->max_rd_atomic, 1);
	CHECK_EQUAL(dp_lane_qp_state(lane), IBV_QPS_RTS);
	dp_fabric_close(&fabric);
}

static void routes_by_lid_on_infiniband(void)
{
	struct dp_peer unrouted = PEER;
	struct dp_fabric_info info;
	struct dp_fabric *fabric;
	struct dp_lane *lane;

	fake_reset();
	fake.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	fabric = fake_open();
	dp_fabric_query(fabric, &info);
	CHECK_EQUAL(info.lid, 9);
	lane = open_lane(fabric);
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_NONE), 0);
	unrouted.lid = 0;
	CHECK_EQUAL(dp_lane_connect(lane, &unrouted), -EADDRNOTAVAIL);
	CHECK_EQUAL(dp_lane_connect(lane, &PEER), 0);
	CHECK_EQUAL(fake.modifies[1].attr.ah_attr.dlid, 33);
	CHECK_EQUAL(fake.modifies[1].attr.ah_attr.is_global, 1);
	dp_fabric_close(&fabric);
}

static void caps_the_mtu(void)
{
	static const struct {
		uint32_t cap;
		enum ibv_mtu active, path;
	} ROWS[] = {
		{ 4096, IBV_MTU_1024, IBV_MTU_1024 }, { 1024, IBV_MTU_4096, IBV_MTU_1024 },
		{ 1500, IBV_MTU_4096, IBV_MTU_1024 }, { 256, IBV_MTU_2048, IBV_MTU_256 },
		{ 1, IBV_MTU_2048, IBV_MTU_256 },
	};

	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct dp_fabric_options options = fake_options();
		struct dp_fabric_info info;
		struct dp_fabric *fabric;

		fake_reset();
		fake.port.active_mtu = ROWS[i].active;
		options.mtu_cap_bytes = ROWS[i].cap;
		CHECK_EQUAL(dp_verbs_fabric_open(fake_verbs(), &options, &fabric), 0);
		dp_fabric_query(fabric, &info);
		CHECK_EQUAL(info.mtu_bytes, 128 << ROWS[i].path);
		CHECK_EQUAL(info.mtu_active_bytes, 128 << ROWS[i].active);
		dp_fabric_close(&fabric);
	}
}

static void refuses_psns_and_qpns_beyond_24_bits_and_zero(void)
{
	static const uint32_t BAD[] = { 0, 0x1000000, UINT32_MAX };
	struct dp_fabric *fabric;
	struct dp_lane *lane;

	fake_reset();
	fabric = fake_open();
	lane = open_lane(fabric);
	for (size_t i = 0; i < 3; i++)
		CHECK_EQUAL(dp_lane_prepare(lane, BAD[i], DP_ACCESS_NONE), -EINVAL);
	CHECK_EQUAL(dp_lane_prepare(lane, 0xffffff, DP_ACCESS_NONE), 0);
	for (size_t i = 0; i < 3; i++) {
		struct dp_peer peer = PEER;

		peer.psn = BAD[i];
		CHECK_EQUAL(dp_lane_connect(lane, &peer), -EINVAL);
		peer = PEER;
		peer.qpn = BAD[i];
		CHECK_EQUAL(dp_lane_connect(lane, &peer), -EINVAL);
	}
	CHECK_EQUAL(fake.modify_count, 1);
	dp_fabric_close(&fabric);
}

static void grants_what_a_use_asks_for_and_no_more(void)
{
	struct dp_fabric *fabric;
	struct dp_lane *lane;

	fake_reset();
	fabric = fake_open();
	CHECK_EQUAL(dp_lane_open(fabric, memory, 4096, DP_ACCESS_REMOTE_WRITE, 1, &lane), 0);
	CHECK_EQUAL(fake.last_access, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_REMOTE_READ), -EINVAL);
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_REMOTE_WRITE), 0);
	CHECK_EQUAL(fake.modifies[0].attr.qp_access_flags & IBV_ACCESS_REMOTE_READ, 0);
	CHECK(fake.modifies[0].attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE);
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_NONE), -EBUSY);
	CHECK_EQUAL(dp_lane_close(&lane), 0);
	CHECK_EQUAL(dp_lane_open(fabric, memory, 4096, DP_ACCESS_NONE, 1, &lane), 0);
	CHECK_EQUAL(fake.last_access, 0); /* so a read-only buffer can be registered */
	dp_fabric_close(&fabric);
	CHECK_EQUAL(fake.live, 0);
}

static void carries_the_immediate_big_endian(void)
{
	const struct dp_remote to = { .addr = (uintptr_t)memory + 100, .length_bytes = 50 };
	static const uint8_t WIRE[] = { 0xc0, 0x0c, 0x1e, 0x01 };
	struct dp_fabric *fabric;
	struct dp_event event;
	struct dp_lane *lane;

	fake_reset();
	fabric = fake_open();
	lane = open_lane(fabric);
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(lane, &PEER), 0);
	CHECK_EQUAL(dp_lane_write(lane, 50, &to, 0xc00c1e01), 0);
	CHECK_EQUAL(fake_event(fabric).bytes, 50);
	CHECK_EQUAL(fake.sends[0].wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	CHECK_EQUAL(memcmp(&fake.sends[0].wr.imm_data, WIRE, 4), 0);

	CHECK_EQUAL(dp_lane_receive(lane), 0);
	CHECK_EQUAL(dp_lane_receive(lane), -EBUSY);
	CHECK_EQUAL(fake.receives[0].num_sge, 0);
	fake_arrive(0, 0xc00c1e01, 77, IBV_WC_RECV_RDMA_WITH_IMM);
	event = fake_event(fabric);
	CHECK_EQUAL(event.kind, DP_EVENT_RECEIVED);
	CHECK_EQUAL(event.imm, 0xc00c1e01);
	CHECK_EQUAL(event.bytes, 77);
	CHECK_EQUAL(event.flags, DP_EVENT_WRITE_IMM);

	CHECK_EQUAL(dp_lane_receive(lane), 0); /* a SEND is no WRITE, immediate or not */
	fake_arrive(1, 0xc00c1e01, 0, IBV_WC_RECV);
	CHECK_EQUAL(fake_event(fabric).flags, 0);
	dp_fabric_close(&fabric);
}

static void gives_the_receive_an_sge_where_told_to(void)
{
	struct dp_fabric_options options = fake_options();
	struct dp_fabric *fabric;
	struct dp_lane *lane;

	fake_reset();
	options.receive_sge = 1;
	CHECK_EQUAL(dp_verbs_fabric_open(fake_verbs(), &options, &fabric), 0);
	lane = open_lane(fabric);
	CHECK_EQUAL(dp_lane_prepare(lane, 1, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_receive(lane), sizeof(memory));
	CHECK_EQUAL(fake.receives[0].num_sge, 1);
	CHECK_EQUAL(fake.receives[0].sge.length, sizeof(memory));
	CHECK_EQUAL(fake.receives[0].sge.addr, (uintptr_t)memory);
	dp_fabric_close(&fabric);
}

static void keeps_each_lane_in_a_protection_domain_of_its_own(void)
{
	struct dp_lane *lanes[5];
	struct dp_fabric *fabric;

	fake_reset();
	fabric = fake_open();
	for (int i = 0; i < 4; i++)
		lanes[i] = open_lane(fabric);
	CHECK_EQUAL(fake.live, 3 + 4 * 3); /* device, channel, CQ; PD, MR, QP each */
	CHECK_EQUAL(dp_lane_open(fabric, memory, 1, 0, 1, &lanes[4]), -ENOSPC);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(dp_lane_receive(lanes[i]), -EPIPE); /* RESET takes no receive */
	CHECK_EQUAL(dp_lane_close(&lanes[2]), 0);
	CHECK(!lanes[2]);
	CHECK_EQUAL(fake.live, 3 + 3 * 3);
	lanes[2] = open_lane(fabric);
	dp_fabric_close(&fabric);
	CHECK_EQUAL(fake.live, 0);
}

static void keeps_the_errno_of_what_could_not_be_made(void)
{
	struct dp_fabric *fabric;
	struct dp_lane *lane = NULL;

	fake_reset();
	fabric = fake_open();
	fake.register_errno = ENOMEM; /* RLIMIT_MEMLOCK */
	CHECK_EQUAL(dp_lane_open(fabric, memory, 4096, 0, 1, &lane), -ENOMEM);
	fake.register_errno = 0;
	fake.create_qp_errno = EPERM;
	CHECK_EQUAL(dp_lane_open(fabric, memory, 4096, 0, 1, &lane), -EPERM);
	CHECK(!lane);
	CHECK_EQUAL(fake.live, 3);
	dp_fabric_close(&fabric);
}

int main(void)
{
	RUN(goes_to_rts_with_the_protocols_attributes);
	RUN(routes_by_lid_on_infiniband);
	RUN(caps_the_mtu);
	RUN(refuses_psns_and_qpns_beyond_24_bits_and_zero);
	RUN(grants_what_a_use_asks_for_and_no_more);
	RUN(carries_the_immediate_big_endian);
	RUN(gives_the_receive_an_sge_where_told_to);
	RUN(keeps_each_lane_in_a_protection_domain_of_its_own);
	RUN(keeps_the_errno_of_what_could_not_be_made);
	return 0;
}
