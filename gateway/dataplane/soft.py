"""The soft fabric as configured: its own address, whom it talks to, and why it can't open.

RoCE v2 in user space over UDP, or within one host without packets, in C; here are only the words
and numbers around it.
"""

from __future__ import annotations

import errno
import mmap
from contextlib import suppress
from typing import Any

from gateway.config import RdmaConfig
from gateway.dataplane import binding
from gateway.dataplane.networks import mapped, parse_networks
from gateway.dataplane.port import FabricUnavailable

NAME = "soft"
PORT = 4791  # UDP destination port of RoCE v2 (IANA "roce")
_LOOPBACK = "127.0.0.0/8"
_KERNEL_HAS_PORT = (
    "the kernel's Soft-RoCE has it: use its device (rdma.fabric = verbs), or modprobe -r rdma_rxe"
)


def options(config: RdmaConfig) -> dict[str, Any]:
    """The soft fabric's fields of struct dp_fabric_options.

    Raises:
        FabricUnavailable: rdma.soft_address or rdma.allowed_networks is malformed.
    """
    networks = parse_networks(config.allowed_networks)
    if len(networks) > binding.NETWORKS_MAX:
        raise FabricUnavailable(
            f"rdma.allowed_networks names {len(networks)} networks, at most "
            f"{binding.NETWORKS_MAX} can be",
            "write fewer and wider ones",
        )
    return {
        "address": _address(config.soft_address),
        "carrier": binding.CARRIERS[config.soft_carrier],
        "network_count": len(networks),
        "networks": [
            {"address": network.network_address.packed, "prefix_bits": network.prefixlen}
            for network in networks
        ],
    }


def map_zeros(length_bytes: int) -> tuple[Any, memoryview]:
    """Memory for lanes of which no page exists before it is written to: no device pins it.

    Returns:
        C's address, and a view that keeps the mapping alive. All of it reads as zeros.

    Raises:
        OSError: there is no address space for it.
    """
    zeros = mmap.mmap(-1, length_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a wish, for fewer faults; some kernels have no huge pages
        zeros.madvise(mmap.MADV_HUGEPAGE)
    return binding.borrow(zeros, writable=True), memoryview(zeros)


def may_stand_in(config: RdmaConfig) -> bool:
    """Whether it is taken where no device will do: one that was named is wanted, and no other."""
    return config.fabric == "auto" and not config.device


def problem(config: RdmaConfig) -> FabricUnavailable | None:
    """Why the soft fabric can't be opened on this host; None where it can."""
    try:
        own = options(config)
        handle = binding.fabric_open(
            kind=binding.FABRIC_SOFT,
            mtu_cap_bytes=config.mtu_cap_bytes,
            lanes_max=1,
            io_threads=1,
            slot_bytes=config.slot_bytes,
            segment_bytes=config.write_bytes,
            **own,
        )
    except FabricUnavailable as malformed:
        return malformed
    except OSError as error:
        return unavailable(config, error)
    binding.fabric_close(handle)
    return None


def unavailable(config: RdmaConfig, error: OSError) -> FabricUnavailable:
    """Why the soft fabric could not be opened, and the remedy."""
    where = config.soft_address or _LOOPBACK
    match error.errno:
        case errno.EADDRINUSE if config.soft_address:
            return FabricUnavailable(
                f"UDP port {PORT} of {where} is taken",
                "give each process a rdma.soft_address of its own; if none has this one, "
                + _KERNEL_HAS_PORT,
            )
        case errno.EADDRINUSE:
            return FabricUnavailable(f"UDP port {PORT} is taken on every address", _KERNEL_HAS_PORT)
        case errno.EADDRNOTAVAIL | errno.ENETDOWN | errno.EAFNOSUPPORT if config.soft_address:
            return FabricUnavailable(
                f"{where} is no address of an interface that is up",
                "set rdma.soft_address to one that `ip address` shows",
            )
        case errno.EADDRNOTAVAIL | errno.ENETDOWN | errno.EAFNOSUPPORT:
            return FabricUnavailable(
                f"this host has no address of {_LOOPBACK}",
                "bring loopback up (ip link set lo up); on a host without IPv4 set "
                "rdma.soft_address to one of its IPv6 addresses, another for each process",
            )
        case errno.EACCES | errno.EPERM:
            return FabricUnavailable(
                "this process may not open UDP sockets",
                "let its sandbox (seccomp profile, RestrictAddressFamilies) allow AF_INET and "
                "AF_INET6, or set rdma.fabric = off",
            )
        case errno.EMFILE | errno.ENFILE:
            return FabricUnavailable(
                "too many files are open",
                "raise the limit: ulimit -n 65536 (systemd: LimitNOFILE; containers: "
                "--ulimit nofile=65536)",
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
        return mapped(text).packed
    except ValueError as error:
        raise FabricUnavailable(
            f"rdma.soft_address {text!r} is no IP address", "write one, as in 192.0.2.7"
        ) from error
