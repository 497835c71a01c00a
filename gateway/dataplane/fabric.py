"""A fabric in the event loop: one eventfd, events → futures.

One fabric lives in one event loop and is touched by its thread only. What blocks (recycling or
destroying a queue pair, closing the device) goes to a thread.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from typing import Any, TypeVar

from typing_extensions import Buffer

from gateway.config import RdmaConfig
from gateway.dataplane import binding, soft
from gateway.dataplane.binding import Event, EventKind
from gateway.dataplane.census import FabricCounters, FabricUsage, Occupancy
from gateway.dataplane.connection import EngineConnection, Staging
from gateway.dataplane.domain import EngineDomain
from gateway.dataplane.failures import not_pinned
from gateway.dataplane.lane import MOVE_TAG_BITS, Core, EngineLane
from gateway.dataplane.networks import Networks
from gateway.dataplane.port import Connection, FabricInfo, Lane, Need
from gateway.dataplane.slots import MOVE_SLOTS, SlotPool
from gateway.dataplane.staging import Arena
from gateway.errors import BusyError, TransportError

L = TypeVar("L", bound=EngineLane)

log = logging.getLogger("gateway.dataplane")

_PAGE_BYTES = 4096
_RING_SLOTS = 4  # what a GET by a lane keeps busy; more slots would only lie idle
_RING_BYTES = 8 * 1024 * 1024  # nor are long slots worth a lane that a longer PUT could have
_PSN_SPACE = 1 << 24


def arena_lanes(config: RdmaConfig) -> int:
    """How many lanes a gateway has: the arena's, and one for each connection."""
    return sum(lane.count for lane in config.lanes) + config.connections


class EngineFabric:
    """An opened device port; keeps the contract of ``port.Fabric``.

    Attributes:
        allowed: where peers may be; None for anywhere, or where C looks after it.
    """

    def __init__(self, config: RdmaConfig, handle: Any, info: FabricInfo) -> None:
        self._config = config
        self._handle = handle
        self._info = info
        self._healthy = True
        self.allowed: Networks | None = None
        self._closing: asyncio.Task[None] | None = None
        self._tags = itertools.count(1)
        self._cores: dict[int, Core] = {}
        self._in_use: dict[int, EngineLane] = {}
        self._domains: list[EngineDomain] = []
        self._arena: Arena[Core] | None = None
        self._connections: Arena[Core] | None = None
        self._staging: Staging | None = None
        self._event_rows = binding.event_rows()
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
    def staging_in_use(self) -> int:
        """Slots of the connections' staging that are lent."""
        return self._staging.pool.in_use if self._staging is not None else 0

    @property
    def close_limit_s(self) -> float:
        return 2 * self._config.drain_timeout_s

    def lease(self, need: Need, length_bytes: int) -> Lane:
        self._check_healthy()
        if self._arena is None:
            raise RuntimeError("this fabric was opened without an arena")
        core = self._arena.take(need, length_bytes)
        core.home = self._arena
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
            core = self._open_core(pointer, memory, access)
        except OSError as error:
            memory.release()
            binding.release(pointer)
            raise not_pinned(error) from error
        return self._begin(core, access)

    def accept(self) -> Connection:
        self._check_healthy()
        if self._connections is None or self._staging is None:
            raise BusyError("This gateway has no RDMA connections (rdma.connections).")
        core = self._connections.take(Need.SEND, 0)
        core.home = self._connections
        connection = EngineConnection(self, core, _draw_psn(), self._staging)
        return self._use(connection, core, binding.ACCESS_NONE)

    def domain(self) -> EngineDomain:
        self._check_healthy()
        try:
            handle = binding.domain_open(self._handle)
        except OSError as error:
            raise not_pinned(error) from error
        domain = EngineDomain(handle, self._dial)
        self._domains = [*(other for other in self._domains if not other.closed), domain]
        return domain

    def counters(self) -> FabricCounters:
        return binding.fabric_counters(self._handle)

    def limit_staging(self, max_bytes: int) -> None:
        if self._staging is not None:
            self._staging.pool.per_owner = -(-max_bytes // self._staging.slot_bytes)

    def usage(self) -> FabricUsage:
        staging = self._staging
        return FabricUsage(
            lanes=_occupancy(self._arena),
            connections=_occupancy(self._connections),
            slots_in_use=self.staging_in_use,
            slots_total=staging.pool.count if staging else 0,
            slot_bytes=staging.slot_bytes if staging else 0,
            slot_waiters=staging.pool.waiters if staging else {},
        )

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    def make_arena(self) -> None:
        """Map the configured lanes, once. Raises OSError: the memory can't be had or pinned."""
        lengths = [
            -(-lane.length_bytes // _PAGE_BYTES) * _PAGE_BYTES
            for lane in self._config.lanes
            for _ in range(lane.count)
        ]
        slab, whole = self._map(sum(lengths))
        access = binding.ACCESS_LOCAL_WRITE | binding.ACCESS_REMOTE_WRITE
        lanes, offset = [], 0
        for length in lengths:
            memory = whole[offset : offset + length]
            lanes.append((length, self._open_core(slab + offset, memory, access)))
            offset += length
        self._arena = Arena(
            lanes,
            ring_bytes=min(_RING_SLOTS * self._config.slot_bytes, _RING_BYTES),
            quarantine_s=self._config.quarantine_s,
            clock=time.monotonic,
        )

    def make_connections(self) -> None:
        """Pin the connections' staging and make their queue pairs, once; as `make_arena`."""
        count = self._config.connections
        if count == 0:
            return
        slot_bytes = _slot_bytes(self._config)
        slots = self._config.connection_staging_bytes // slot_bytes
        length_bytes = slots * slot_bytes
        slab, memory = self._map(length_bytes)
        domain = binding.domain_open(self._handle)
        region = binding.region_open(domain, slab, length_bytes, binding.ACCESS_LOCAL_WRITE)
        pool = SlotPool(slots, self._config.max_waiting)
        piece_bytes = min(slot_bytes, self._config.write_bytes, self._info.max_message_bytes)
        self._staging = Staging(memory, region, pool, slot_bytes, piece_bytes)
        self._connections = Arena(
            [(0, self._join_core(domain, region)) for _ in range(count)],
            ring_bytes=0,
            quarantine_s=self._config.quarantine_s,
            clock=time.monotonic,
            exhausted="All RDMA connections are in use (rdma.connections); retry.",
        )

    def _map(self, length_bytes: int) -> tuple[Any, memoryview]:
        """C's address of fresh zeros, and a view that keeps them alive.

        A device is to find every page in place; the soft fabric takes them as they are first used.
        """
        if self._info.kind == soft.NAME:
            return soft.map_zeros(length_bytes)
        slab = binding.slab_map(length_bytes)
        return slab, binding.view(slab, length_bytes)

    def abandon(self) -> None:
        """Close a fabric that never carried anything; blocks, but not for long."""
        self._loop.remove_reader(binding.fabric_fd(self._handle))
        binding.fabric_close(self._handle)

    async def retire(self, core: Core) -> None:
        """End a use of `core`: QP to ERR, drain, then rest in the arena or be destroyed."""
        await core.settled()
        drained = core.abort()
        await asyncio.wait({drained}, timeout=self._config.drain_timeout_s)
        if not drained.done():
            log.warning("lane %d does not drain; its queue pair is destroyed", core.tag)
        if core.home is not None or not drained.done():
            # Each use gets a queue pair of its own: an old peer that retries for ever would find
            # the next session behind its QPN, and Soft-RoCE keeps the route to it beyond RESET.
            await self._replace(core)
        await drained  # an I/O thread may still be in pread
        if core.home is not None:
            await self._recycle(core, core.home)
        else:
            await asyncio.to_thread(binding.lane_close, core.handle)
            core.let_go()
            del self._cores[core.tag]
        del self._in_use[core.tag]

    def _open_core(self, pointer: Any, memory: memoryview, access: int) -> Core:
        tag = next(self._tags)
        handle = binding.lane_open(self._handle, pointer, memory.nbytes, access, tag)
        core = self._cores[tag] = Core(handle, tag, pointer, memory)
        return core

    def _join_core(self, domain: Any, region: Any | None) -> Core:
        """A lane of a shared domain; without a region, its peer's server."""
        tag = next(self._tags)
        core = self._cores[tag] = Core(binding.lane_join(domain, region, tag), tag)
        return core

    def _dial(self, domain: Any) -> EngineLane:
        self._check_healthy()
        try:
            core = self._join_core(domain, None)
        except OSError as error:
            raise not_pinned(error) from error
        return self._begin(core, binding.ACCESS_REMOTE_WRITE | binding.ACCESS_REMOTE_READ)

    def _begin(self, core: Core, access: int) -> EngineLane:
        """A new use of `core`: QP in INIT, with a PSN drawn for it."""
        return self._use(EngineLane(self, core, _draw_psn()), core, access)

    def _use(self, lane: L, core: Core, access: int) -> L:
        self._in_use[core.tag] = lane
        try:
            binding.lane_prepare(core.handle, lane.local.psn, access)
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

    async def _recycle(self, core: Core, arena: Arena[Core]) -> None:
        """Back to RESET and to the arena; a lane that can't be is lost to it."""
        try:
            await asyncio.to_thread(binding.lane_recycle, core.handle)
        except OSError as error:
            log.warning("lane %d is lost to the arena: %s", core.tag, error.strerror)
            arena.lose()
            return
        core.renew()
        arena.give_back(core.memory.nbytes, core)

    def _check_healthy(self) -> None:
        if not self.healthy:
            raise BusyError(
                f"RDMA is down: {self._info.device} port {self._info.port} is not active."
            )

    def _on_events(self) -> None:
        """The eventfd is readable: hand each event to its lane."""
        count = binding.DRAIN_BATCH
        while count == binding.DRAIN_BATCH:
            events = binding.fabric_drain(self._handle, self._event_rows)
            count = len(events)
            for event in events:
                self._on_event(event)

    def _on_event(self, event: Event) -> None:
        if event.kind is EventKind.HEALTH:
            self._on_health()
            return
        tag = event.tag >> MOVE_TAG_BITS if event.kind is EventKind.MOVED else event.tag
        if tag in self._cores:
            self._cores[tag].dispatch(event)

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
            for lane in self._in_use.values():
                if isinstance(lane, EngineConnection):
                    lane.begin_close()  # its moves end as it drains

    async def _close(self) -> None:
        await asyncio.gather(*(lane.close() for lane in tuple(self._in_use.values())))
        await asyncio.gather(*(domain.close() for domain in self._domains))
        self._loop.remove_reader(binding.fabric_fd(self._handle))
        await asyncio.to_thread(binding.fabric_close, self._handle)


def _slot_bytes(config: RdmaConfig) -> int:
    """Of connections. Shorter than asked for where the staging would not do for one move."""
    most = config.connection_staging_bytes // MOVE_SLOTS // _PAGE_BYTES * _PAGE_BYTES
    return min(config.slot_bytes, most)


def _occupancy(arena: Arena[Core] | None) -> Occupancy:
    return arena.occupancy() if arena is not None else Occupancy(0, 0, 0)


def _draw_psn() -> int:
    return 1 + secrets.randbelow(_PSN_SPACE - 1)
