"""The soft fabric as configured: its own address, whom it talks to, and why it can't open.

RoCE v2 in user space over UDP, in C; here are only the words and numbers around it.
"""

from __future__ import annotations

import errno
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from gateway.config import RdmaConfig
from gateway.dataplane import binding
from gateway.dataplane.port import FabricUnavailable

NAME = "soft"
_PORT = 4791  # UDP destination port of RoCE v2 (IANA "roce")
_IPV4_MAPPED_BITS = 96


def options(config: RdmaConfig) -> dict[str, Any]:
    """The soft fabric's fields of struct dp_fabric_options.

    Raises:
        FabricUnavailable: rdma.soft_address or rdma.allowed_networks is malformed.
    """
    networks = [_network(text) for text in config.allowed_networks]
    if len(networks) > binding.NETWORKS_MAX:
        raise FabricUnavailable(
            f"rdma.allowed_networks names {len(networks)} networks, at most "
            f"{binding.NETWORKS_MAX} can be",
            "write fewer and wider ones",
        )
    return {
        "address": _address(config.soft_address),
        "network_count": len(networks),
        "networks": [
            {"address": network.network_address.packed, "prefix_bits": network.prefixlen}
            for network in networks
        ],
    }


def problem(config: RdmaConfig) -> str:
    """Why the soft fabric can't be opened on this host; "" where it can."""
    try:
        handle = binding.fabric_open(
            kind=binding.FABRIC_SOFT,
            mtu_cap_bytes=config.mtu_cap_bytes,
            lanes_max=1,
            io_threads=1,
            slot_bytes=config.slot_bytes,
            segment_bytes=config.write_bytes,
            **options(config),
        )
    except OSError as error:
        return str(unavailable(config, error))
    binding.fabric_close(handle)
    return ""


def unavailable(config: RdmaConfig, error: OSError) -> FabricUnavailable:
    """Why the soft fabric could not be opened, and the remedy."""
    where = config.soft_address or "127.0.0.0/8"
    match error.errno:
        case errno.EADDRINUSE:
            return FabricUnavailable(
                f"UDP port {_PORT} of {where} is taken",
                "another process has this rdma.soft_address, or the kernel's Soft-RoCE holds the "
                "port on every address: use its device (rdma.fabric = verbs) or "
                "modprobe -r rdma_rxe",
            )
        case errno.EADDRNOTAVAIL | errno.ENETDOWN:
            return FabricUnavailable(
                f"{where} is no address of an interface that is up",
                "set rdma.soft_address to one that `ip address` shows",
            )
        case _:
            return FabricUnavailable(
                f"the soft fabric can't be opened on {where} ({error.strerror})",
                "set rdma.fabric = off to serve HTTP alone",
            )


def _address(text: str) -> bytes:
    """16 bytes, IPv4 mapped; zeros where C is to choose."""
    if not text:
        return bytes(16)
    try:
        return _mapped(text).packed
    except ValueError as error:
        raise FabricUnavailable(
            f"rdma.soft_address {text!r} is no IP address", "write one, as in 192.0.2.7"
        ) from error


def _mapped(text: str) -> IPv6Address:
    address = ip_address(text)
    return address if isinstance(address, IPv6Address) else IPv6Address(f"::ffff:{address}")


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
    return IPv6Network((_mapped(str(network.network_address)), bits))
