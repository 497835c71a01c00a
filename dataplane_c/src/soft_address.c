/* soft_address.c - where a soft NIC lives: its address, the MTU of its way, and whom it talks to. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "soft.h"

#define LOOPBACK_TRIES 64
#define UDP_BYTES 8u
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define MTU_LEAST 256u
#define MTU_MOST 4096u

void soft_address_set(union soft_address *address, const uint8_t *gid, uint16_t port)
{
	memset(address, 0, sizeof(*address));
	if (soft_address_is_ipv4(gid)) {
		address->v4.sin_family = AF_INET;
		address->v4.sin_port = htons(port);
		memcpy(&address->v4.sin_addr, gid + 12, 4);
	} else {
		address->v6.sin6_family = AF_INET6;
		address->v6.sin6_port = htons(port);
		memcpy(&address->v6.sin6_addr, gid, DP_GID_BYTES);
	}
}

socklen_t soft_address_length(const union soft_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

static int bind_to(int fd, const uint8_t *gid)
{
	union soft_address address;

	soft_address_set(&address, gid, SOFT_PORT);
	return bind(fd, &address.any, soft_address_length(&address)) < 0 ? -errno : 0;
}

/*
 * soft_bind - @fd to port 4791 of @gid; of a free address of 127.0.0.0/8 where @gid is zero.
 *
 * Returns 0, -EADDRINUSE (the kernel's Soft-RoCE holds the port on every address), or bind's
 * errno. On success @gid is the address.
 */
int soft_bind(int fd, uint8_t *gid)
{
	static const uint8_t ANY[DP_GID_BYTES];
	int error = -EADDRINUSE;

	if (memcmp(gid, ANY, sizeof(ANY)) != 0)
		return bind_to(fd, gid);
	for (int i = 0; i < LOOPBACK_TRIES && error == -EADDRINUSE; i++) {
		uint8_t drawn[DP_GID_BYTES] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

		if (getrandom(drawn + 13, 3, 0) != 3)
			return -errno;
		drawn[15] |= 1;    /* neither the network's own address */
		drawn[13] &= 0x7f; /* nor its broadcast */
		error = bind_to(fd, drawn);
		if (!error)
			memcpy(gid, drawn, sizeof(drawn));
	}
	return error;
}

/* Whether the interface's address @at covers @gid: equal, or on loopback in the same network. */
static bool covers(const struct ifaddrs *at, const uint8_t *gid)
{
	const union soft_address *address = (const union soft_address *)at->ifa_addr;
	const union soft_address *mask = (const union soft_address *)at->ifa_netmask;
	uint32_t ours;

	if (!address || !mask || !(at->ifa_flags & IFF_UP))
		return false;
	if (!soft_address_is_ipv4(gid))
		return address->any.sa_family == AF_INET6 &&
		       memcmp(&address->v6.sin6_addr, gid, DP_GID_BYTES) == 0;
	if (address->any.sa_family != AF_INET)
		return false;
	memcpy(&ours, gid + 12, sizeof(ours));
	if (!(at->ifa_flags & IFF_LOOPBACK))
		return ours == address->v4.sin_addr.s_addr;
	return ((ours ^ address->v4.sin_addr.s_addr) & mask->v4.sin_addr.s_addr) == 0;
}

static uint32_t mtu_of(const char *interface)
{
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result;

	if (fd < 0)
		return 0;
	memcpy(request.ifr_name, interface, strnlen(interface, sizeof(request.ifr_name) - 1));
	result = ioctl(fd, SIOCGIFMTU, &request);
	close(fd);
	return result < 0 || request.ifr_mtu < 0 ? 0 : (uint32_t)request.ifr_mtu;
}

/*
 * soft_path_mtu - the longest payload, 256 to 4096, that fits a packet of @gid's interface.
 *
 * 0 where no interface that is up has the address, or its packets are too short.
 */
uint32_t soft_path_mtu(const uint8_t *gid)
{
	uint32_t overhead = (soft_address_is_ipv4(gid) ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES +
			    SOFT_HEAD_BYTES + SOFT_ICRC_BYTES;
	struct ifaddrs *all;
	uint32_t room = 0, mtu;

	if (getifaddrs(&all) < 0)
		return 0;
	for (const struct ifaddrs *at = all; at && !room; at = at->ifa_next) {
		if (covers(at, gid))
			room = mtu_of(at->ifa_name);
	}
	freeifaddrs(all);
	for (mtu = MTU_MOST; mtu >= MTU_LEAST && mtu + overhead > room; mtu /= 2)
		;
	return mtu >= MTU_LEAST ? mtu : 0;
}

static bool within(const struct dp_network *network, const uint8_t *gid)
{
	uint32_t whole = network->prefix_bits / 8, rest = network->prefix_bits % 8;

	if (memcmp(network->address, gid, whole) != 0)
		return false;
	return rest == 0 || (network->address[whole] ^ gid[whole]) >> (8 - rest) == 0;
}

/* soft_allowed - whether @gid lies in one of the networks that the options allow. */
bool soft_allowed(const struct dp_fabric_options *options, const uint8_t *gid)
{
	for (uint32_t i = 0; i < options->network_count; i++) {
		if (within(&options->networks[i], gid))
			return true;
	}
	return false;
}
