"""The asyncio shell over the C core: one eventfd in the loop, events → futures.

One fabric lives in one event loop and is touched by its thread only. What blocks (recycling or
destroying a queue pair, closing the device) goes to a thread.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import secrets
import time
from typing import Any

from typing_extensions import Buffer

from gateway.config import RdmaConfig
from gateway.dataplane import binding, soft
from gateway.dataplane.binding import EventKind
from gateway.dataplane.devices import (
    DeviceInfo,
    Gid,
    GidType,
    choose_port,
    list_devices,
    unavailable,
)
from gateway.dataplane.lane import Core, EngineLane
from gateway.dataplane.port import FabricInfo, FabricUnavailable, Lane, Need
from gateway.dataplane.staging import Arena
from gateway.errors import BusyError, TransportError

log = logging.getLogger("gateway.dataplane")

_PAGE_BYTES = 4096
_RING_SLOTS = 4  # what a GET keeps busy; more slots would only lie idle
_PSN_SPACE = 1 << 24
_SOFT_PORT = DeviceInfo("soft", port=1)  # what the soft fabric shows where a device is meant
_MEMLOCK = (
    "raise the limit on locked memory: ulimit -l unlimited, LimitMEMLOCK=infinity in the systemd "
    "unit, --ulimit memlock=-1 for a container, or grant CAP_IPC_LOCK"
)


def open_fabric(config: RdmaConfig, *, arena: bool) -> EngineFabric:
    """Open the configured fabric, in the running event loop: a device's port, or the soft one.

    Args:
        config: `lanes` is pinned here where `arena`; else up to `max_sessions` buffers of the
            caller can be attached.
        arena: the gateway's side (lease), or a client's (attach).

    Raises:
        FabricUnavailable: with the reason and the remedy.
    """
    handle, opened = _open_handle(config, arena=arena)
    fabric = EngineFabric(config, handle, opened)
    if arena:
        try:
            fabric.make_arena()
        except OSError as error:
            fabric.abandon()
            raise _not_pinned(config, error) from error
    return fabric


def _open_handle(config: RdmaConfig, *, arena: bool) -> tuple[Any, FabricInfo]:
    """C's fabric; of "auto" the soft one only where no device can be used."""
    common = {
        "mtu_cap_bytes": config.mtu_cap_bytes,
        "lanes_max": sum(lane.count for lane in config.lanes) if arena else config.max_sessions,
        "io_threads": config.io_threads,
        "spin_us": config.spin_us,
        "slot_bytes": config.slot_bytes,
        "segment_bytes": config.write_bytes,
        "receive_sge": int(config.receive_sge),
    }
    if config.fabric == soft.NAME:
        return _open_soft(config, common)
    try:
        port, gid = choose_port(list_devices(), config.device, config.port, config.gid_index)
    except FabricUnavailable as no_device:
        # A device that was named is wanted, and no other.
        if config.fabric != "auto" or config.device:
            raise
        log.debug("no RDMA device, hence the soft fabric: %s", no_device)
        return _open_soft(config, common)
    return _open_port(port, gid, common)


def _open_soft(config: RdmaConfig, common: dict[str, Any]) -> tuple[Any, FabricInfo]:
    try:
        handle = binding.fabric_open(kind=binding.FABRIC_SOFT, **common, **soft.options(config))
    except OSError as error:
        raise soft.unavailable(config, error) from error
    return handle, _fabric_info(handle, soft.NAME, _SOFT_PORT, Gid(0, b"", GidType.ROCE_V2))


def _open_port(info: DeviceInfo, gid: Gid, common: dict[str, Any]) -> tuple[Any, FabricInfo]:
    try:
        handle = binding.fabric_open(
            kind=binding.FABRIC_VERBS,
            device=info.device.encode(),
            port=info.port,
            gid_index=gid.index,
            **common,
        )
    except OSError as error:
        raise _not_opened(info, error) from error
    return handle, _fabric_info(handle, "verbs", info, gid)


def _not_opened(info: DeviceInfo, error: OSError) -> FabricUnavailable:
    if error.errno in (errno.ENOSYS, errno.ELIBACC, errno.ELIBBAD):
        return unavailable(error)
    return FabricUnavailable(
        f"{info.device} port {info.port} can't be opened ({error.strerror})",
        "see dmesg; if it says memory, " + _MEMLOCK,
    )


def _not_pinned(config: RdmaConfig, error: OSError) -> FabricUnavailable:
    return FabricUnavailable(
        f"the arena of {config.staging_bytes >> 20} MiB (rdma.lanes) can't be pinned "
        f"({error.strerror})",
        _MEMLOCK + ", or configure fewer lanes",
    )


def _fabric_info(handle: Any, kind: str, device: DeviceInfo, gid: Gid) -> FabricInfo:
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
    )


class EngineFabric:
    """An opened device port; keeps the contract of ``port.Fabric``."""

    def __init__(self, config: RdmaConfig, handle: Any, info: FabricInfo) -> None:
        self._config = config
        self._handle = handle
        self._info = info
        self._healthy = True
        self._closing: asyncio.Task[None] | None = None
        self._tags = itertools.count(1)
        self._cores: dict[int, Core] = {}
        self._in_use: dict[int, EngineLane] = {}
        self._arena: Arena[Core] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(binding.fabric_fd(handle), self._on_events)

    @property
    def info(self) -> FabricInfo:
        return self._info

    @property
    def healthy(self) -> bool:
        return self._healthy and self._closing is None

    @property
    def idle_lanes(self) -> int:
        """Lanes of the arena that are free or resting: all of them where nothing goes on."""
        return len(self._arena) if self._arena is not None else 0

    @property
    def close_limit_s(self) -> float:
        return 2 * self._config.drain_timeout_s

    def lease(self, need: Need, length_bytes: int) -> Lane:
        self._check_healthy()
        if self._arena is None:
            raise RuntimeError("this fabric was opened without an arena")
        core = self._arena.take(need, length_bytes)
        access = binding.ACCESS_REMOTE_WRITE if need is Need.RECEIVE else binding.ACCESS_NONE
        return self._begin(core, access)

    def attach(self, buffer: Buffer, *, remote_write: bool, remote_read: bool = False) -> Lane:
        self._check_healthy()
        access = binding.ACCESS_NONE
        if remote_write:
            access |= binding.ACCESS_REMOTE_WRITE
        if remote_read:
            access |= binding.ACCESS_REMOTE_READ
        pointer = binding.borrow(buffer, writable=remote_write)
        memory = memoryview(buffer).cast("B")
        try:
            core = self._open_core(pointer, memory, access, pooled=False)
        except OSError as error:
            memory.release()
            binding.release(pointer)
            raise _not_attached(error) from error
        return self._begin(core, access)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    def make_arena(self) -> None:
        """Pin the configured lanes, once. Raises OSError: the memory can't be had or pinned."""
        lengths = [
            -(-lane.length_bytes // _PAGE_BYTES) * _PAGE_BYTES
            for lane in self._config.lanes
            for _ in range(lane.count)
        ]
        slab = binding.slab_map(sum(lengths))
        whole = binding.view(slab, sum(lengths))
        access = binding.ACCESS_LOCAL_WRITE | binding.ACCESS_REMOTE_WRITE
        lanes, offset = [], 0
        for length in lengths:
            memory = whole[offset : offset + length]
            lanes.append((length, self._open_core(slab + offset, memory, access, pooled=True)))
            offset += length
        self._arena = Arena(
            lanes,
            ring_bytes=_RING_SLOTS * self._config.slot_bytes,
            quarantine_s=self._config.quarantine_s,
            clock=time.monotonic,
        )

    def abandon(self) -> None:
        """Close a fabric that never carried anything; blocks, but not for long."""
        self._loop.remove_reader(binding.fabric_fd(self._handle))
        binding.fabric_close(self._handle)

    async def retire(self, core: Core) -> None:
        """End a use of `core`: QP to ERR, drain, then rest in the arena or be destroyed."""
        await core.stored()
        drained = core.abort()
        await asyncio.wait({drained}, timeout=self._config.drain_timeout_s)
        if not drained.done():
            log.warning("lane %d does not drain; its queue pair is destroyed", core.tag)
        if core.pooled or not drained.done():
            # Each use gets a queue pair of its own: an old peer that retries for ever would find
            # the next session behind its QPN, and Soft-RoCE keeps the route to it beyond RESET.
            await self._replace(core)
        await drained  # an I/O thread may still be in pread
        if core.pooled:
            await self._recycle(core)
        else:
            await asyncio.to_thread(binding.lane_close, core.handle)
            # Not left to the garbage collector: it crashes on a memoryview in a cycle that is
            # still exported (python/cpython#77894).
            binding.release(core.pointer)
            del self._cores[core.tag]
        del self._in_use[core.tag]

    def _open_core(self, pointer: Any, memory: memoryview, access: int, *, pooled: bool) -> Core:
        tag = next(self._tags)
        handle = binding.lane_open(self._handle, pointer, memory.nbytes, access, tag)
        core = self._cores[tag] = Core(handle, tag, pointer, memory, pooled=pooled)
        return core

    def _begin(self, core: Core, access: int) -> Lane:
        """A new use of `core`: QP in INIT, with a PSN drawn for it."""
        psn = 1 + secrets.randbelow(_PSN_SPACE - 1)
        lane = self._in_use[core.tag] = EngineLane(self, core, psn)
        try:
            binding.lane_prepare(core.handle, psn, access)
        except OSError as error:
            # The closing task is the lane's own, so it runs to its end by itself.
            lane.begin_close()
            raise TransportError(f"A queue pair can't be prepared: {error.strerror}.") from error
        return lane

    async def _replace(self, core: Core) -> None:
        try:
            await asyncio.to_thread(binding.lane_replace, core.handle)
        except OSError as error:
            log.warning("lane %d gets no new queue pair: %s", core.tag, error.strerror)

    async def _recycle(self, core: Core) -> None:
        """Back to RESET and to the arena; a lane that can't be is lost to it."""
        try:
            await asyncio.to_thread(binding.lane_recycle, core.handle)
        except OSError as error:
            log.warning("lane %d is lost to the arena: %s", core.tag, error.strerror)
            return
        core.renew()
        if self._arena is not None:
            self._arena.give_back(core.memory.nbytes, core)

    def _check_healthy(self) -> None:
        if not self.healthy:
            raise BusyError(
                f"RDMA is down: {self._info.device} port {self._info.port} is not active."
            )

    def _on_events(self) -> None:
        """The eventfd is readable: hand each event to its lane."""
        while events := binding.fabric_drain(self._handle):
            for event in events:
                if event.kind is EventKind.HEALTH:
                    self._on_health()
                elif event.tag in self._cores:
                    self._cores[event.tag].dispatch(event)

    def _on_health(self) -> None:
        was, self._healthy = (
            self._healthy,
            (binding.fabric_health(self._handle) == binding.HEALTH_OK),
        )
        if self._healthy == was:
            return
        state = "active again" if self._healthy else "gone"
        log.warning("RDMA port %s/%d is %s", self._info.device, self._info.port, state)
        if not self._healthy:
            for core in self._cores.values():
                core.lose()

    async def _close(self) -> None:
        await asyncio.gather(*(lane.close() for lane in tuple(self._in_use.values())))
        self._loop.remove_reader(binding.fabric_fd(self._handle))
        await asyncio.to_thread(binding.fabric_close, self._handle)


def _not_attached(error: OSError) -> Exception:
    match error.errno:
        case errno.ENOSPC:
            return BusyError("All RDMA sessions are in use (rdma.max_sessions); retry.")
        case errno.ENOMEM | errno.EPERM | errno.EAGAIN:
            return TransportError(f"The buffer can't be pinned ({error.strerror}): {_MEMLOCK}.")
        case _:
            return TransportError(f"The buffer can't be registered: {error.strerror}.")
