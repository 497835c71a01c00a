"""Connections: queue pairs that stay, over which the gateway moves many objects, several at once.

A connection has no memory that its peer could reach. Each move borrows slots of the staging that
all connections share, and they go back only with C's event: when nothing is on its way to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Buffer

from gateway.dataplane import binding
from gateway.dataplane.binding import Event, MoveDirection
from gateway.dataplane.failures import DamagedError
from gateway.dataplane.lane import Core, EngineLane, Home, outlast
from gateway.dataplane.outcomes import raise_failure, refusal
from gateway.dataplane.port import RemoteBuffer
from gateway.dataplane.slots import MOVE_SLOTS, SlotPool
from gateway.errors import BusyError, GatewayError, S3Code, TransportError
from gateway.wire.extent import FileExtent

_DOING = {
    MoveDirection.SEND: "send to the peer",
    MoveDirection.FETCH: "read from the peer",
}
_ITS_TURN = f"{binding.MOVES_MAX} moves run already on this connection; use more connections"
_STAGING = "rdma.connection_staging_bytes"
_SLOTS = f"other transfers have it ({_STAGING}), or this key has its share (limits.staging_bytes)"


@dataclass(frozen=True, slots=True)
class Staging:
    """What all connections of a fabric share: a region of slots, lent by `pool`.

    Attributes:
        memory: the slots' bytes, kept alive.
        region: C's handle of their registration.
        slot_bytes: of each slot.
        piece_bytes: the most that one work request carries, at most a slot's length.
    """

    memory: memoryview
    region: Any
    pool: SlotPool
    slot_bytes: int
    piece_bytes: int

    def slot(self, number: int, length_bytes: int) -> memoryview:
        """The first bytes of a slot."""
        start = number * self.slot_bytes
        return self.memory[start : start + length_bytes]


@dataclass(frozen=True, slots=True)
class _Order:
    """One move.

    Attributes:
        extents: files at our end; () where `data` is.
        data: as long as `remote`: what is sent, or what a fetch fills.
    """

    direction: MoveDirection
    remote: RemoteBuffer
    owner: str
    cookie: int | None = None
    extents: Sequence[FileExtent] = ()
    data: Buffer = b""

    @property
    def length_bytes(self) -> int:
        if self.extents:
            return sum(extent.length_bytes for extent in self.extents)
        return self.remote.length_bytes


class EngineConnection(EngineLane):
    """One use of a joined lane; keeps the contract of ``port.Connection``."""

    __slots__ = ("_depth", "_staging")

    def __init__(self, home: Home, core: Core, psn: int, staging: Staging) -> None:
        super().__init__(home, core, psn)
        self._staging = staging
        self._depth = asyncio.Semaphore(binding.MOVES_MAX)

    async def send(
        self,
        extents: Sequence[FileExtent],
        to: RemoteBuffer,
        *,
        owner: str,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        order = _Order(MoveDirection.SEND, to, owner, cookie, extents)
        return await self._move(order, deadline_s)

    async def fetch(
        self, source: RemoteBuffer, into: FileExtent, *, owner: str, deadline_s: float
    ) -> int:
        order = _Order(MoveDirection.FETCH, source, owner, extents=(into,))
        return await self._move(order, deadline_s)

    @property
    def max_piece_bytes(self) -> int:
        return self._staging.piece_bytes

    async def send_bytes(
        self,
        data: Buffer,
        to: RemoteBuffer,
        *,
        owner: str,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        self._check_piece(to.length_bytes)
        order = _Order(MoveDirection.SEND, to, owner, cookie, data=data)
        return await self._move(order, deadline_s)

    async def fetch_bytes(
        self, source: RemoteBuffer, *, owner: str, deadline_s: float
    ) -> bytearray:
        self._check_piece(source.length_bytes)
        data = bytearray(source.length_bytes)
        await self._move(_Order(MoveDirection.FETCH, source, owner, data=data), deadline_s)
        return data

    def _check_piece(self, length_bytes: int) -> None:
        """For what is longer would run into another's slot."""
        if not 0 < length_bytes <= self.max_piece_bytes:
            raise ValueError(f"a piece has 1 to {self.max_piece_bytes} bytes, not {length_bytes}")

    async def _move(self, order: _Order, deadline_s: float) -> int:
        """The move's bytes, once all of them are where they belong.

        However it ends, neither files nor slots are touched after it: a move that is cut short
        ends the connection, and this returns only when C is done with it. One that is still
        waiting for its slots at its deadline was never begun, and is BusyError.
        """
        deadline = asyncio.get_running_loop().time() + deadline_s
        doing = _DOING[order.direction]
        waits_for: str | None = _ITS_TURN
        try:
            async with asyncio.timeout_at(deadline), self._depth:
                waits_for = _SLOTS
                ended = await self._begin(order)
                waits_for = None
                try:
                    event = await asyncio.shield(ended)
                except asyncio.CancelledError:
                    self.begin_close()
                    await outlast(ended)
                    raise
        except TimeoutError as error:
            if waits_for is not None:  # nothing was begun: the connection is as good as before
                raise BusyError(
                    f"RDMA staging was busy for {deadline_s:g} s: {waits_for}; retry.",
                    limit=_STAGING if waits_for is _SLOTS else "",
                ) from error
            raise TransportError(
                f"RDMA {doing}: not finished within {deadline_s:g} s; the peer or the "
                "path to it does not answer.",
                code=S3Code.RDMA_TRANSFER_TIMEOUT,
            ) from error
        return self._judge(doing, event)

    async def _begin(self, order: _Order) -> asyncio.Future[Event]:
        """Start the move; the future is C's event for it."""
        staging = self._staging
        first_bytes = min(staging.slot_bytes, binding.FIRST_PIECE_BYTES)
        wanted = min(MOVE_SLOTS, -(-order.length_bytes // first_bytes)) if order.extents else 1
        slots = await staging.pool.take(order.owner, wanted)
        try:
            self._check_open()
            ended = self._start(order, slots)
        except OSError as error:
            staging.pool.give_back(slots)
            raise refusal(_DOING[order.direction], error) from error
        except BaseException:
            staging.pool.give_back(slots)
            raise
        ended.add_done_callback(lambda event: self._ended(order, slots, event.result()))
        return ended

    def _start(self, order: _Order, slots: tuple[int, ...]) -> asyncio.Future[Event]:
        staging, remote = self._staging, order.remote
        if order.direction is MoveDirection.SEND and not order.extents:
            staging.slot(slots[0], remote.length_bytes)[:] = order.data
        return self._core.begin_move(
            direction=order.direction,
            extents=order.extents,
            remote=(remote.addr, remote.rkey, remote.length_bytes),
            imm=order.cookie,
            slot_bytes=staging.slot_bytes,
            slots=[slot * staging.slot_bytes for slot in slots],
        )

    def _ended(self, order: _Order, slots: tuple[int, ...], event: Event) -> None:
        """C is done with the slots: what came into one is taken out before they are lent again."""
        if order.direction is MoveDirection.FETCH and not order.extents and not event.status:
            memoryview(order.data)[:] = self._staging.slot(slots[0], order.remote.length_bytes)
        self._staging.pool.give_back(slots)

    def _judge(self, doing: str, event: Event) -> int:
        try:
            raise_failure(event, doing)
        except DamagedError:  # it was found before it was posted: the queue pair is as good as new
            raise
        except GatewayError:
            self.begin_close()  # it is in error, or soon would be
            raise
        self._debug("%s: %d bytes", doing, event.bytes_done)
        return event.bytes_done
