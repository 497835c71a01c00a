/* Ports, GIDs, refusals at opening, and a device that goes away. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "fake_verbs.h"

static int open_result(const struct dp_fabric_options *options)
{
	struct dp_fabric *fabric = NULL;
	int result = dp_verbs_fabric_open(fake_verbs(), options, &fabric);

	CHECK_EQUAL(!fabric, result != 0);
	dp_fabric_close(&fabric);
	CHECK_EQUAL(fake.live, 0);
	return result;
}

static void lists_ports_and_gids(void)
{
	struct dp_port port;
	struct dp_gid gids[4];

	fake_reset();
	CHECK_EQUAL(dp_port_list_with(fake_verbs(), &port, 1), 1);
	CHECK_EQUAL(strcmp(port.device, "fake0"), 0);
	CHECK_EQUAL(strcmp(port.firmware, "1.2.3"), 0);
	CHECK_EQUAL(port.link, DP_LINK_ETHERNET);
	CHECK_EQUAL(port.lid, 0); /* whatever an Ethernet port says */
	CHECK_EQUAL(port.mtu_bytes, 4096);
	CHECK_EQUAL(port.state, IBV_PORT_ACTIVE);
	CHECK_EQUAL(dp_port_list_with(fake_verbs(), NULL, 0), 1);
	CHECK_EQUAL(dp_gid_list_with(fake_verbs(), "fake0", 1, gids, 4), 2);
	CHECK_EQUAL(gids[1].index, 1);
	CHECK_EQUAL(gids[1].type, DP_GID_ROCE_V2);
	CHECK_EQUAL(dp_gid_list_with(fake_verbs(), "fake0", 1, gids, 1), 2);
	CHECK_EQUAL(dp_gid_list_with(fake_verbs(), "fake0", 9, gids, 4), -EINVAL);
	CHECK_EQUAL(dp_gid_list_with(fake_verbs(), "other", 1, gids, 4), -ENODEV);
	CHECK_EQUAL(fake.live, 0);
}

static void tells_no_rdma_from_no_device(void)
{
	struct dp_fabric_options options = fake_options();
	struct dp_port port;

	fake_reset();
	fake.no_list_errno = ENOSYS; /* NULL: the kernel has no RDMA */
	CHECK_EQUAL(dp_port_list_with(fake_verbs(), &port, 1), -ENOSYS);
	CHECK_EQUAL(open_result(&options), -ENOSYS);
	fake.no_list_errno = 0;
	fake.device.name[0] = '\0'; /* an empty list */
	CHECK_EQUAL(dp_port_list_with(fake_verbs(), &port, 1), 0);
	CHECK_EQUAL(open_result(&options), -ENODEV);
}

static void refuses_ports_it_cannot_use(void)
{
	struct dp_fabric_options options = fake_options();

	fake_reset();
	fake.device.node_type = IBV_NODE_RNIC;
	CHECK_EQUAL(open_result(&options), -EPROTONOSUPPORT);
	fake_reset();
	fake.device.transport_type = IBV_TRANSPORT_IWARP;
	CHECK_EQUAL(open_result(&options), -EPROTONOSUPPORT);
	fake_reset();
	fake.port.state = IBV_PORT_DOWN;
	CHECK_EQUAL(open_result(&options), -ENETDOWN);
	fake_reset();
	options.gid_index = 2; /* an empty entry */
	CHECK_EQUAL(open_result(&options), -EINVAL);
	options = fake_options();
	options.port = 2;
	CHECK_EQUAL(open_result(&options), -EINVAL);
	options.port = 0;
	CHECK_EQUAL(open_result(&options), -EINVAL);
	options = fake_options();
	options.lanes_max = 0;
	CHECK_EQUAL(open_result(&options), -EINVAL);
	options = fake_options();
	options.io_threads = 0;
	CHECK_EQUAL(open_result(&options), -EINVAL);
}

static void follows_the_port_and_never_trusts_a_dead_device(void)
{
	struct dp_fabric *fabric;

	fake_reset();
	fabric = fake_open();
	CHECK_EQUAL(dp_fabric_health(fabric), DP_HEALTH_OK);
	fake_async(IBV_EVENT_PORT_ERR);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_HEALTH);
	CHECK_EQUAL(dp_fabric_health(fabric), DP_HEALTH_PORT_DOWN);
	fake_async(IBV_EVENT_GID_CHANGE);
	fake_async(IBV_EVENT_PORT_ERR);
	CHECK(fake_quiet(fabric));
	fake_async(IBV_EVENT_PORT_ACTIVE);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_HEALTH);
	CHECK_EQUAL(dp_fabric_health(fabric), DP_HEALTH_OK);
	fake_async(IBV_EVENT_DEVICE_FATAL);
	CHECK_EQUAL(fake_event(fabric).kind, DP_EVENT_HEALTH);
	fake_async(IBV_EVENT_PORT_ACTIVE);
	CHECK(fake_quiet(fabric));
	CHECK_EQUAL(dp_fabric_health(fabric), DP_HEALTH_GONE);
	dp_fabric_close(&fabric);
	CHECK(!fabric);
}

static void blames_by_status_alone(void)
{
	CHECK_EQUAL(dp_wc_class(IBV_WC_SUCCESS), DP_CLASS_NONE);
	CHECK_EQUAL(dp_wc_class(IBV_WC_LOC_LEN_ERR), DP_CLASS_LOCAL);
	CHECK_EQUAL(dp_wc_class(IBV_WC_LOC_QP_OP_ERR), DP_CLASS_LOCAL);
	CHECK_EQUAL(dp_wc_class(IBV_WC_REM_ACCESS_ERR), DP_CLASS_REMOTE);
	CHECK_EQUAL(dp_wc_class(IBV_WC_REM_OP_ERR), DP_CLASS_REMOTE);
	CHECK_EQUAL(dp_wc_class(IBV_WC_RETRY_EXC_ERR), DP_CLASS_TRANSPORT);
	CHECK_EQUAL(dp_wc_class(IBV_WC_RNR_RETRY_EXC_ERR), DP_CLASS_TRANSPORT);
	CHECK_EQUAL(dp_wc_class(IBV_WC_WR_FLUSH_ERR), DP_CLASS_FLUSH);
	CHECK_EQUAL(dp_wc_class(9999), DP_CLASS_LOCAL);
	CHECK_EQUAL(strcmp(dp_wc_name(IBV_WC_RETRY_EXC_ERR), "RETRY_EXC_ERR"), 0);
	CHECK_EQUAL(strcmp(dp_wc_name(9999), "UNKNOWN"), 0);
	CHECK_EQUAL(strcmp(dp_qp_state_name(IBV_QPS_ERR), "ERR"), 0);
	CHECK_EQUAL(strcmp(dp_qp_state_name(0xff), "UNKNOWN"), 0);
}

int main(void)
{
	RUN(lists_ports_and_gids);
	RUN(tells_no_rdma_from_no_device);
	RUN(refuses_ports_it_cannot_use);
	RUN(follows_the_port_and_never_trusts_a_dead_device);
	RUN(blames_by_status_alone);
	return 0;
}
