/* soft_receive.c - one packet from the network: whose it is, whether it is intact, who handles it. */
#include <string.h>

#include "soft.h"

/* The lane whose QP it is for and whose peer sent it, locked; or NULL. */
static struct dp_lane *find(struct soft_nic *nic, const struct soft_flow *flow, uint32_t qpn)
{
	uint32_t index = qpn & ((1u << nic->index_bits) - 1);
	struct dp_lane *lane;

	if (index >= nic->options.lanes_max)
		return NULL;
	lane = &nic->fabric->lanes[index];
	pthread_mutex_lock(&lane->lock);
	if (lane->impl && lane->qpn == qpn && soft_qp_of(lane)->state == IBV_QPS_RTS &&
	    memcmp(soft_qp_of(lane)->peer_gid, flow->source, DP_GID_BYTES) == 0)
		return lane;
	pthread_mutex_unlock(&lane->lock);
	return NULL;
}

/*
 * soft_nic_take - @length bytes, any bytes, that came as one UDP payload.
 *
 * @id: the IPv4 identification that it probably had. The cheap questions come first, so that
 * what is not for us costs no checksum.
 */
void soft_nic_take(struct soft_nic *nic, const struct soft_flow *flow, uint16_t id,
		   const uint8_t *bytes, size_t length, uint64_t now_ns)
{
	struct soft_packet packet;
	struct dp_lane *lane;

	dp_count(nic->fabric, DP_COUNT_PACKETS, 1);
	if (soft_packet_parse(bytes, length, &packet)) {
		dp_count(nic->fabric, DP_COUNT_PACKETS_MALFORMED, 1);
		return;
	}
	lane = find(nic, flow, packet.qpn);
	if (!lane) {
		dp_count(nic->fabric, DP_COUNT_PACKETS_UNKNOWN, 1);
		return;
	}
	if (!soft_icrc_holds(flow, id, bytes, length)) {
		dp_count(nic->fabric, DP_COUNT_PACKETS_CORRUPT, 1);
	} else if (!soft_link_yields(lane)) {
		dp_count(nic->fabric, DP_COUNT_PACKETS_UNKNOWN, 1);
	} else {
		if (soft_traits(packet.opcode) & SOFT_IS_RESPONSE)
			soft_requester_answer(lane, &packet, now_ns);
		else
			soft_responder_request(lane, &packet);
		soft_nic_mark(lane);
	}
	pthread_mutex_unlock(&lane->lock);
}
