"""Connections: queue pairs that stay, over which the gateway moves many objects, several at once.

A connection has no memory that its peer could reach. Each move borrows slots of the staging that
all connections share, and they go back only with C's event: when nothing is on its way to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.dataplane import binding
from gateway.dataplane.binding import Event, MoveDirection
from gateway.dataplane.lane import Core, EngineLane, Home, outlast
from gateway.dataplane.outcomes import raise_failure, refusal
from gateway.dataplane.port import RemoteBuffer
from gateway.dataplane.slots import MOVE_SLOTS, SlotPool
from gateway.errors import S3Code, TransportError
from gateway.wire.extent import FileExtent

_DOING = {
    MoveDirection.SEND: "send to the peer",
    MoveDirection.FETCH: "read from the peer",
}


@dataclass(frozen=True, slots=True)
class Staging:
    """What all connections of a fabric share: a region of slots, lent by `pool`.

    Attributes:
        memory: the slots' bytes, kept alive.
        region: C's handle of their registration.
        slot_bytes: of each slot.
    """

    memory: Any
    region: Any
    pool: SlotPool
    slot_bytes: int


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
        return await self._move(MoveDirection.SEND, extents, to, owner, cookie, deadline_s)

    async def fetch(
        self, source: RemoteBuffer, into: FileExtent, *, owner: str, deadline_s: float
    ) -> int:
        return await self._move(MoveDirection.FETCH, (into,), source, owner, None, deadline_s)

    async def _move(
        self,
        direction: MoveDirection,
        extents: Sequence[FileExtent],
        remote: RemoteBuffer,
        owner: str,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        """The move's bytes, once all of them are where they belong.

        However it ends, neither files nor slots are touched after it: a move that is cut short
        ends the connection, and this returns only when C is done with it.
        """
        deadline = asyncio.get_running_loop().time() + deadline_s
        total_bytes = sum(extent.length_bytes for extent in extents)
        try:
            async with asyncio.timeout_at(deadline), self._depth:
                ended = await self._begin(direction, extents, remote, owner, cookie, total_bytes)
                try:
                    event = await asyncio.shield(ended)
                except asyncio.CancelledError:
                    self.begin_close()
                    await outlast(ended)
                    raise
        except TimeoutError as error:
            raise TransportError(
                f"RDMA {_DOING[direction]}: not finished within {deadline_s:g} s; the peer or the "
                "path to it does not answer.",
                code=S3Code.RDMA_TRANSFER_TIMEOUT,
            ) from error
        return self._judge(direction, event)

    async def _begin(
        self,
        direction: MoveDirection,
        extents: Sequence[FileExtent],
        remote: RemoteBuffer,
        owner: str,
        cookie: int | None,
        total_bytes: int,
    ) -> asyncio.Future[Event]:
        """Start the move; the future is C's event for it."""
        staging = self._staging
        wanted = min(MOVE_SLOTS, -(-total_bytes // staging.slot_bytes))
        slots = await staging.pool.take(owner, max(1, wanted))
        try:
            self._check_open()
            ended = self._core.begin_move(
                direction=direction,
                extents=extents,
                remote=(remote.addr, remote.rkey, remote.length_bytes),
                imm=cookie,
                slot_bytes=staging.slot_bytes,
                slots=[slot * staging.slot_bytes for slot in slots],
            )
        except OSError as error:
            staging.pool.give_back(slots)
            raise refusal(_DOING[direction], error) from error
        except BaseException:
            staging.pool.give_back(slots)
            raise
        ended.add_done_callback(lambda _: staging.pool.give_back(slots))
        return ended

    def _judge(self, direction: MoveDirection, event: Event) -> int:
        if event.status:
            self.begin_close()  # the queue pair is in error, or soon would be
            raise_failure(event, _DOING[direction])
        self._debug("%s: %d bytes", _DOING[direction], event.bytes_done)
        return event.bytes_done
