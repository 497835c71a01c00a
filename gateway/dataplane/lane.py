"""A lane as the event loop sees it: C's events become results of coroutines.

`Core` is one queue pair with its memory, as long as C has it; `EngineLane` is one use of it, from
lease or attach to close. Only the event loop's thread touches either.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from gateway.dataplane import binding
from gateway.dataplane.binding import Event, EventKind
from gateway.dataplane.networks import Networks
from gateway.dataplane.outcomes import raise_failure, refusal
from gateway.dataplane.port import FabricInfo, QpAddress, RemoteBuffer
from gateway.dataplane.route import check_route
from gateway.dataplane.staging import Arena
from gateway.errors import InternalError, S3Code, TransportError
from gateway.wire.extent import FileExtent

log = logging.getLogger("gateway.dataplane")

MOVE_TAG_BITS = 32
MOVE_TAG_MASK = (1 << MOVE_TAG_BITS) - 1
"""A move's tag in C: the lane's above these bits, its own number within them."""

_NO_MEMORY = memoryview(b"")
_DOING = {
    EventKind.SENT: "send to the peer",
    EventKind.WRITTEN: "write to the peer",
    EventKind.READ: "read from the peer",
    EventKind.RECEIVED: "receive from the peer",
}


class Core:
    """One C lane: its handle, its memory, and what is awaited of it.

    Attributes:
        handle: C's lane.
        tag: names the lane in C's events.
        pointer: C's address of the memory, which it keeps alive and in place.
        memory: the same bytes.
        home: the arena it goes back to after a use; None where it is closed with it.
        owner: whose bytes may be in the memory; None while it is all zeros.
        rkey: of the memory, as long as it is registered.
    """

    __slots__ = (
        "_borrowed",
        "_jobs",
        "_move_count",
        "_moves",
        "drained",
        "handle",
        "home",
        "memory",
        "owner",
        "pending",
        "pointer",
        "rkey",
        "tag",
    )

    def __init__(
        self, handle: Any, tag: int, pointer: Any = None, memory: memoryview = _NO_MEMORY
    ) -> None:
        self.handle = handle
        self.tag = tag
        self.pointer = pointer
        self.memory = memory
        self.home: Arena[Core] | None = None
        self.owner: str | None = None
        self.rkey = binding.lane_rkey(handle)
        self.pending: dict[EventKind, asyncio.Future[Event]] = {}
        self.drained: asyncio.Future[Event] | None = None
        self._borrowed: dict[EventKind, Any] = {}
        self._jobs: set[asyncio.Future[object]] = set()
        self._moves: dict[int, tuple[asyncio.Future[Event], Any]] = {}
        self._move_count = 0

    @property
    def address(self) -> int:
        return binding.address(self.pointer)

    def expect(self, kind: EventKind, borrowed: Any = None) -> None:
        """A transfer or receive was accepted by C; keep `borrowed` alive until its event."""
        self.pending[kind] = asyncio.get_running_loop().create_future()
        self._borrowed[kind] = borrowed

    def begin_move(self, **move: Any) -> asyncio.Future[Event]:
        """Begin a move (`binding.lane_move`); its event ends the future, whatever becomes of it.

        The caller may cancel its own waiting, never the future. Raises OSError.
        """
        self._move_count += 1
        tag = self.tag << MOVE_TAG_BITS | self._move_count & MOVE_TAG_MASK
        borrowed = binding.lane_move(self.handle, tag=tag, **move)
        ended: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._moves[tag] = ended, borrowed
        return ended

    def dispatch(self, event: Event) -> None:
        """One of C's events of this lane."""
        if event.kind is EventKind.MOVED:
            ended, _ = self._moves.pop(event.tag)
            ended.set_result(event)
            return
        self._borrowed.pop(event.kind, None)
        future = self.drained if event.kind is EventKind.DRAINED else self.pending.get(event.kind)
        if future is not None and not future.done():
            future.set_result(event)

    def lose(self) -> None:
        """The port is gone: what is awaited ends now; C's own events may still come."""
        for kind, future in self.pending.items():
            if not future.done():
                future.set_result(Event(self.tag, kind, status=-errno.ENETDOWN))

    def abort(self) -> asyncio.Future[Event]:
        """QP to ERR: from here on nothing is posted. Idempotent; the result is DRAINED's.

        Where the device refuses, nothing drains by itself: `replace` the queue pair.
        """
        if self.drained is None:
            self.drained = asyncio.get_running_loop().create_future()
            try:
                binding.lane_abort(self.handle)
            except OSError as error:
                log.warning("lane %d: QP to ERR refused: %s", self.tag, error)
        return self.drained

    async def store(self, fd: int, file_offset_bytes: int, length_bytes: int) -> None:
        """Write to a file, in a thread."""
        await self._in_thread(
            binding.memory_store, self.pointer, length_bytes, fd, file_offset_bytes
        )

    async def dedicate(self, owner: str) -> None:
        """See ``port.Lane``; a thread overwrites."""
        if self.owner not in (None, owner):
            await self._in_thread(ctypes.memset, self.address, 0, self.memory.nbytes)
        self.owner = owner

    async def settled(self) -> None:
        """Until no thread is at the memory any more."""
        if self._jobs:
            await asyncio.wait(self._jobs)

    async def _in_thread(self, work: Callable[..., object], *args: object) -> None:
        """Do it without the loop and the GIL, to the end even where the caller is cancelled.

        For then the caller's next step is to close its file, and the lane's to lend the memory on.
        """
        job = asyncio.ensure_future(asyncio.to_thread(work, *args))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        try:
            await asyncio.shield(job)
        except asyncio.CancelledError:
            await outlast(job)
            raise

    def let_go(self) -> None:
        """C no longer knows the memory: it is its owner's again.

        Not left to the garbage collector, which crashes on a memoryview in a cycle that is still
        exported (python/cpython#77894).
        """
        if self.pointer is not None:
            binding.release(self.pointer)

    def renew(self) -> None:
        """Ready for another use."""
        self.pending.clear()
        self.drained = None


async def outlast(future: asyncio.Future[Any]) -> None:
    """Until `future` is done, however often the caller is cancelled meanwhile."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({future})


class Home(Protocol):
    """Where a lane goes when it is closed: the fabric."""

    @property
    def info(self) -> FabricInfo: ...

    @property
    def allowed(self) -> Networks | None:
        """Where peers may be; None for anywhere."""

    @property
    def close_limit_s(self) -> float:
        """How long closing a lane may keep its caller; the teardown itself goes on."""

    async def retire(self, core: Core) -> None:
        """Abort, drain, and recycle or destroy. Once per use."""


class EngineLane:
    """One use of a lane; keeps the contract of ``port.Lane``."""

    __slots__ = ("_carrier", "_closing", "_core", "_home", "_local")

    def __init__(self, home: Home, core: Core, psn: int) -> None:
        self._home = home
        self._core = core
        self._closing: asyncio.Task[None] | None = None
        self._carrier = ""
        info = home.info
        self._local = QpAddress(binding.lane_qpn(core.handle), psn, info.gid, info.lid)

    @property
    def local(self) -> QpAddress:
        return self._local

    @property
    def buffer(self) -> RemoteBuffer:
        self._check_open()
        core = self._core
        return RemoteBuffer(core.address, core.rkey, core.memory.nbytes)

    @property
    def usable(self) -> bool:
        """False from the moment its end begins."""
        return self._closing is None

    @property
    def gone(self) -> bool:
        """True once its end is over."""
        return self._closing is not None and self._closing.done()

    @property
    def carrier(self) -> str:
        if self._closing is None:
            self._carrier = binding.lane_carrier(self._core.handle)
        return self._carrier

    @property
    def memory(self) -> memoryview:
        return self._core.memory

    async def dedicate(self, owner: str) -> None:
        self._check_open()
        await self._core.dedicate(owner)

    def connect(self, peer: QpAddress) -> None:
        self._check_open()
        info = self._home.info
        check_route(info, peer, self._home.allowed)
        try:
            binding.lane_connect(
                self._core.handle, gid=peer.gid, qpn=peer.qpn, psn=peer.psn, lid=peer.lid
            )
        except OSError as error:
            raise refusal("connect to the peer", error) from error
        # The peer's MTU is not announced: where they differ, packets vanish (PROTOCOL 5.4).
        self._debug(
            "RTR and RTS, path MTU %d of the port's %d", info.mtu_bytes, info.mtu_active_bytes
        )

    def post_receive(self) -> None:
        self._check_open()
        try:
            sge_bytes = binding.lane_receive(self._core.handle)
        except OSError as error:
            raise refusal("post a receive", error) from error
        self._core.expect(EventKind.RECEIVED)
        self._debug("receive posted, SGE of %d bytes", sge_bytes)

    async def received(self, cookie: int, length_bytes: int | None, deadline_s: float) -> int:
        event = await self._outcome(EventKind.RECEIVED, deadline_s)
        self._debug("data received, immediate %08x, %d bytes", event.imm, event.bytes_done)
        if not event.write_imm:
            raise TransportError("The peer sent a message that is no RDMA WRITE with immediate.")
        if event.imm != cookie:
            raise TransportError("The immediate that came is not this session's cookie.")
        if length_bytes is not None and event.bytes_done != length_bytes:
            raise TransportError(
                f"The peer wrote {event.bytes_done} bytes where {length_bytes} were announced."
            )
        return event.bytes_done

    async def send_extents(
        self,
        extents: Sequence[FileExtent],
        to: RemoteBuffer,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        self._check_open()
        try:
            borrowed = binding.lane_send(self._core.handle, extents, _triple(to), cookie)
        except OSError as error:
            raise refusal("send to the peer", error) from error
        return await self._transferred(EventKind.SENT, deadline_s, borrowed)

    async def write(
        self, length_bytes: int, to: RemoteBuffer, cookie: int, deadline_s: float
    ) -> None:
        self._check_open()
        try:
            binding.lane_write(self._core.handle, length_bytes, _triple(to), cookie)
        except OSError as error:
            raise refusal("write to the peer", error) from error
        await self._transferred(EventKind.WRITTEN, deadline_s)

    async def read(self, length_bytes: int, source: RemoteBuffer, deadline_s: float) -> None:
        self._check_open()
        try:
            binding.lane_read(self._core.handle, length_bytes, _triple(source))
        except OSError as error:
            raise refusal("read from the peer", error) from error
        await self._transferred(EventKind.READ, deadline_s)

    async def store(self, fd: int, file_offset_bytes: int, length_bytes: int) -> None:
        self._check_open()
        if not 0 <= length_bytes <= self._core.memory.nbytes:
            raise ValueError("the lane is shorter than what is to be stored")
        try:
            await self._core.store(fd, file_offset_bytes, length_bytes)
        except OSError as error:
            raise InternalError(f"storing received data: {error}") from error

    def begin_close(self) -> asyncio.Task[None]:
        """Start the teardown, once; it runs to its end by itself."""
        if self._closing is None:
            self._debug("teardown, carrier %s", self.carrier or "none")
            self._closing = asyncio.ensure_future(self._teardown())
        return self._closing

    async def _teardown(self) -> None:
        await self._home.retire(self._core)

    async def close(self) -> None:
        # The caller's cancellation or a disk that hangs in pread does not stop the teardown.
        done, _ = await asyncio.wait({self.begin_close()}, timeout=self._home.close_limit_s)
        for task in done:
            task.result()

    async def _transferred(self, kind: EventKind, deadline_s: float, borrowed: Any = None) -> int:
        """The transfer's bytes, once all are acknowledged.

        However it ends, nothing more is sent after it: the caller may close its files.
        """
        self._core.expect(kind, borrowed)
        try:
            event = await self._outcome(kind, deadline_s)
        except BaseException:
            self._core.abort()
            raise
        self._debug("%s: %d bytes", _DOING[kind], event.bytes_done)
        return event.bytes_done

    async def _outcome(self, kind: EventKind, deadline_s: float) -> Event:
        """C's event for `kind`, if it tells of success; else the error that it means."""
        future = self._core.pending.get(kind)
        if future is None:
            raise RuntimeError(f"nothing was posted to {_DOING[kind]}")
        try:
            async with asyncio.timeout(deadline_s):
                event = await asyncio.shield(future)
        except TimeoutError as error:
            raise TransportError(
                f"RDMA {_DOING[kind]}: not finished within {deadline_s:g} s; the peer or the path "
                "to it does not answer.",
                code=S3Code.RDMA_TRANSFER_TIMEOUT,
            ) from error
        raise_failure(event, _DOING[kind])
        return event

    def _check_open(self) -> None:
        if self._closing is not None:
            raise TransportError("The RDMA session is closed.")

    def _debug(self, message: str, *args: object) -> None:
        log.debug("lane %d, QP %d: " + message, self._core.tag, self._local.qpn, *args)


def _triple(remote: RemoteBuffer) -> tuple[int, int, int]:
    return remote.addr, remote.rkey, remote.length_bytes
