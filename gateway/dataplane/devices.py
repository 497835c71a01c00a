"""Which RDMA ports this host has, which of them can be used, and by which GID.

`list_devices` asks the library; everything else is pure choice over the frozen values it returns,
for `open_fabric` and for ``s3rdma doctor`` alike.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gateway.dataplane import binding
from gateway.dataplane.port import FabricUnavailable, LinkLayer

_PORT_ACTIVE = 4  # enum ibv_port_state
_PORT_STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
_IPV4_MAPPED = bytes(10) + b"\xff\xff"
_LINK_LOCAL = b"\xfe\x80"


class GidType(Enum):
    """enum ibv_gid_type_sysfs; mlx5 lists v1 before v2 with the same bytes (PROTOCOL 5.2)."""

    IB = 0
    ROCE_V1 = 1
    ROCE_V2 = 2


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table; `raw` is 16 bytes in network order."""

    index: int
    raw: bytes
    type: GidType

    @property
    def ipv4_mapped(self) -> bool:
        return self.raw.startswith(_IPV4_MAPPED)

    @property
    def link_local(self) -> bool:
        return self.raw.startswith(_LINK_LOCAL)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One port of one device.

    Attributes:
        port: from 1; 0 where the device could not even be opened.
        lid: 0 on Ethernet.
        gids: the non-empty entries, by index.
        problem: why the gateway can't use this port, in plain words; "" where it can.
    """

    device: str
    port: int = 0
    firmware: str = ""
    link_layer: LinkLayer = LinkLayer.ETHERNET
    state: str = "NOP"
    lid: int = 0
    mtu_bytes: int = 0
    mtu_max_bytes: int = 0
    max_message_bytes: int = 0
    max_qps: int = 0
    max_cqes: int = 0
    max_mrs: int = 0
    gids: tuple[Gid, ...] = ()
    problem: str = ""


def list_devices() -> tuple[DeviceInfo, ...]:
    """Every port of every RDMA device, usable or not; () where there is none.

    Raises:
        FabricUnavailable: libibverbs or the kernel's RDMA support is missing.
    """
    try:
        return tuple(binding.port_list(_describe))
    except OSError as error:
        raise unavailable(error) from error


def unavailable(error: OSError) -> FabricUnavailable:
    """What keeps RDMA as a whole from working, and the remedy."""
    match error.errno:
        case errno.ELIBACC:
            return FabricUnavailable(
                "libibverbs is not installed",
                "install libibverbs1 and ibverbs-providers (Debian) or rdma-core (RHEL)",
            )
        case errno.ELIBBAD:
            return FabricUnavailable("libibverbs is too old", "install rdma-core 32 or later")
        case errno.ENOSYS:
            return FabricUnavailable(
                "the kernel has no RDMA devices",
                "load the NIC's RDMA driver (mlx5_ib, irdma, …), or Soft-RoCE: "
                "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev <interface>",
            )
        case _:
            return FabricUnavailable(
                f"RDMA devices can't be listed ({os.strerror(error.errno or 0)})",
                "see dmesg and `ibv_devinfo`",
            )


def choose_port(
    devices: tuple[DeviceInfo, ...], device: str, port: int, gid_index: int
) -> tuple[DeviceInfo, Gid]:
    """The first usable port that the configuration admits, and its GID.

    Args:
        devices: as `list_devices` found them.
        device: a device's name; "" admits every one.
        port: from 1.
        gid_index: -1 chooses.

    Raises:
        FabricUnavailable: none is usable; the reason is that of the likeliest candidate.
    """
    wanted = [info for info in devices if device in ("", info.device)]
    ports = [info for info in wanted if info.port in (0, port)]
    reasons = []
    for info in ports:
        if info.problem:
            reasons.append(f"{info.device} port {info.port}: {info.problem}")
            continue
        gid = choose_gid(info, gid_index)
        if gid is not None:
            return info, gid
        reasons.append(f"{info.device} port {info.port}: it has no usable GID")
    if reasons:
        raise FabricUnavailable("; ".join(reasons), "see `s3rdma doctor`")
    if wanted:
        raise FabricUnavailable(f"{wanted[0].device} has no port {port}", "set rdma.port")
    if devices:
        names = ", ".join(sorted({info.device for info in devices}))
        raise FabricUnavailable(f"there is no RDMA device {device!r}", f"set rdma.device: {names}")
    raise FabricUnavailable("there is no RDMA device", "see `s3rdma doctor`")


def choose_gid(info: DeviceInfo, gid_index: int) -> Gid | None:
    """A configured index wins. On Ethernet RoCE v2: IPv4 before IPv6, link-local last."""
    if gid_index >= 0:
        return next((gid for gid in info.gids if gid.index == gid_index), None)
    kind = GidType.ROCE_V2 if info.link_layer is LinkLayer.ETHERNET else GidType.IB
    return min(
        (gid for gid in info.gids if gid.type is kind),
        key=lambda gid: (not gid.ipv4_mapped, gid.link_local, gid.index),
        default=None,
    )


def _gid(row: Any) -> Gid:
    return Gid(row.index, binding.raw(row.gid), GidType(row.type))


def _describe(row: Any) -> DeviceInfo:
    """One row of C's list as a value, with its GIDs and what is wrong with it."""
    device = binding.text(row.device)
    if row.error:
        reason = os.strerror(-row.error)
        return DeviceInfo(device, problem=f"it can't be opened: {reason} (/dev/infiniband)")
    ethernet = row.link == binding.LINK_ETHERNET
    gids = tuple(binding.gid_list(device, row.port, _gid))
    return DeviceInfo(
        device=device,
        port=row.port,
        firmware=binding.text(row.firmware),
        link_layer=LinkLayer.ETHERNET if ethernet else LinkLayer.INFINIBAND,
        state=_PORT_STATES[row.state] if row.state < len(_PORT_STATES) else str(row.state),
        lid=row.lid,
        mtu_bytes=row.mtu_bytes,
        mtu_max_bytes=row.mtu_max_bytes,
        max_message_bytes=row.message_max_bytes,
        max_qps=row.qp_max,
        max_cqes=row.cqe_max,
        max_mrs=row.mr_max,
        gids=gids,
        problem=_problem(row, gids),
    )


def _problem(row: Any, gids: tuple[Gid, ...]) -> str:
    if row.transport == binding.TRANSPORT_IWARP:
        return "it is iWARP, which has no WRITE_WITH_IMM; use InfiniBand or RoCE"
    if row.transport != binding.TRANSPORT_IB:
        return "its transport is neither InfiniBand nor RoCE"
    if row.state != _PORT_ACTIVE:
        return "the port is not ACTIVE: check the cable, `ip link`, and on InfiniBand the SM"
    if row.link == binding.LINK_INFINIBAND and row.lid == 0:
        return "it has no LID: is a subnet manager running?"
    if row.link == binding.LINK_ETHERNET and all(gid.type is not GidType.ROCE_V2 for gid in gids):
        return "it has no RoCE v2 GID: give the interface an IP address"
    return ""
