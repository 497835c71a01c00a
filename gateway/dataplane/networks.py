"""`rdma.allowed_networks`: where peers may be, by the IP address that a RoCE GID is."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network

from gateway.dataplane.port import FabricUnavailable

Networks = tuple[IPv6Network, ...]
"""IPv4 as mapped IPv6, as GIDs have it."""

_IPV4_MAPPED_BITS = 96


def parse_networks(texts: Sequence[str]) -> Networks:
    """The setting as networks. Raises FabricUnavailable: one is malformed."""
    return tuple(_network(text) for text in texts)


def mapped(text: str) -> IPv6Address:
    """An IP address as a GID has it. Raises ValueError."""
    address = ip_address(text)
    return address if isinstance(address, IPv6Address) else IPv6Address(f"::ffff:{address}")


def is_within(gid: bytes, networks: Networks) -> bool:
    """Whether a RoCE GID's address is in one of them."""
    address = IPv6Address(gid)
    return any(address in network for network in networks)


def _network(text: str) -> IPv6Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise FabricUnavailable(
            f"rdma.allowed_networks: {text!r} is no network", "write them as in 10.0.0.0/8,fd00::/8"
        ) from error
    if isinstance(network, IPv6Network):
        return network
    bits = _IPV4_MAPPED_BITS + network.prefixlen
    return IPv6Network((mapped(str(network.network_address)), bits))
