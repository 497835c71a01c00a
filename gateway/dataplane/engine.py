"""Opening a fabric: which one, and why, and what to do where none can be had."""

from __future__ import annotations

import errno
from typing import Any

from gateway.config import RdmaConfig
from gateway.dataplane import binding, soft
from gateway.dataplane.devices import (
    DeviceInfo,
    Gid,
    GidType,
    choose_port,
    list_devices,
    unavailable,
)
from gateway.dataplane.fabric import EngineFabric, arena_lanes
from gateway.dataplane.failures import MEMLOCK_REMEDY
from gateway.dataplane.networks import Networks, parse_networks
from gateway.dataplane.port import FabricInfo, FabricUnavailable

_SOFT_PORT = DeviceInfo("soft", port=1)  # what the soft fabric shows where a device is meant


def open_fabric(config: RdmaConfig, *, arena: bool) -> EngineFabric:
    """Open the configured fabric, in the running event loop: a device's port, or the soft one.

    "auto" takes a device that can do all that is asked, the arena's pinning included, else the
    soft fabric; `info.because` says why.

    Args:
        config: `lanes` is made here where `arena`; else up to `max_sessions` buffers of the
            caller can be attached.
        arena: the gateway's side (lease), or a client's (attach).

    Raises:
        FabricUnavailable: with the reason and the remedy.
    """
    if config.fabric == soft.NAME:
        return _open_soft(config, "rdma.fabric asks for it", arena=arena)
    try:
        return _open_device(config, arena=arena)
    except FabricUnavailable as no_device:
        if not soft.may_stand_in(config):
            raise
        try:
            return _open_soft(config, no_device.reason, arena=arena)
        except FabricUnavailable as no_soft:
            raise FabricUnavailable(
                f"{no_device.reason}, and {no_soft.reason}", no_soft.remedy
            ) from no_soft


def _open_device(config: RdmaConfig, *, arena: bool) -> EngineFabric:
    allowed = parse_networks(config.allowed_networks)
    device, gid = choose_port(list_devices(), config.device, config.port, config.gid_index)
    try:
        handle = binding.fabric_open(
            kind=binding.FABRIC_VERBS,
            device=device.device.encode(),
            port=device.port,
            gid_index=gid.index,
            **_common(config, arena=arena),
        )
    except OSError as error:
        raise _not_opened(device, error) from error
    because = "rdma.device names it" if config.device else "it is the first that can be used"
    info = _info("verbs", handle, device, gid, because)
    return _started(config, handle, info, allowed, arena=arena)


def _open_soft(config: RdmaConfig, because: str, *, arena: bool) -> EngineFabric:
    common, own = _common(config, arena=arena), soft.options(config)
    try:
        handle = binding.fabric_open(kind=binding.FABRIC_SOFT, **common, **own)
    except OSError as error:
        raise soft.unavailable(config, error) from error
    gid = Gid(0, b"", GidType.ROCE_V2)
    return _started(config, handle, _info(soft.NAME, handle, _SOFT_PORT, gid, because), arena=arena)


def _common(config: RdmaConfig, *, arena: bool) -> dict[str, Any]:
    """What every fabric wants to know: fields of struct dp_fabric_options."""
    return {
        "mtu_cap_bytes": config.mtu_cap_bytes,
        "lanes_max": arena_lanes(config) if arena else config.max_sessions,
        "io_threads": config.io_threads,
        "spin_us": config.spin_us,
        "slot_bytes": config.slot_bytes,
        "segment_bytes": config.write_bytes,
        "receive_sge": int(config.receive_sge),
    }


def _started(
    config: RdmaConfig,
    handle: Any,
    info: FabricInfo,
    allowed: Networks | None = None,
    *,
    arena: bool,
) -> EngineFabric:
    fabric = EngineFabric(config, handle, info)
    if arena:
        fabric.allowed = allowed
        try:
            fabric.make_arena()
            fabric.make_connections()
        except OSError as error:
            fabric.abandon()
            raise _no_arena(config, info, error) from error
    return fabric


def _not_opened(info: DeviceInfo, error: OSError) -> FabricUnavailable:
    if error.errno in (errno.ENOSYS, errno.ELIBACC, errno.ELIBBAD):
        return unavailable(error)
    if error.errno == errno.E2BIG:
        return FabricUnavailable(
            f"{info.device} has no completion queue for as many lanes and connections",
            "configure fewer (rdma.connections, rdma.lanes, or rdma.max_sessions of a client)",
        )
    return FabricUnavailable(
        f"{info.device} port {info.port} can't be opened ({error.strerror})",
        "see dmesg; if it says memory, " + MEMLOCK_REMEDY,
    )


def _no_arena(config: RdmaConfig, info: FabricInfo, error: OSError) -> FabricUnavailable:
    arena = (
        f"the arena of {config.staging_bytes >> 20} MiB "
        "(rdma.lanes and rdma.connection_staging_bytes)"
    )
    if info.kind == soft.NAME:
        return FabricUnavailable(
            f"{arena} can't be mapped ({error.strerror})",
            "raise the limit on address space (ulimit -v), or configure fewer lanes",
        )
    return FabricUnavailable(
        f"{arena} can't be pinned ({error.strerror})", MEMLOCK_REMEDY + ", or configure fewer lanes"
    )


def _info(kind: str, handle: Any, device: DeviceInfo, gid: Gid, because: str) -> FabricInfo:
    opened = binding.fabric_query(handle)
    return FabricInfo(
        kind=kind,
        device=device.device,
        port=device.port,
        gid=binding.raw(opened.gid),
        gid_index=gid.index,
        lid=opened.lid,
        link_layer=device.link_layer,
        mtu_bytes=opened.mtu_bytes,
        max_message_bytes=opened.message_max_bytes,
        mtu_active_bytes=opened.mtu_active_bytes,
        because=because,
    )
