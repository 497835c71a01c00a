"""An object's bytes over a connection: fetched into a staged file (PUT), sent from an open object.

Any length goes through the connection's bounded staging, window by window. While one window moves
(in C, without Python), the one before it is hashed from the file's pages, which are still warm.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypedDict

from gateway.dataplane.port import Connection, RemoteBuffer
from gateway.errors import BusyError, InternalError
from gateway.rdma.aio import to_the_end
from gateway.rdma.movement import conclude, named, windows_of
from gateway.s3.body import Poured
from gateway.s3.digest import Digester
from gateway.s3.integrity import Declared
from gateway.storage.port import ObjectReader, PassingStaged, Staged, StreamedReader
from gateway.telemetry.traces import span
from gateway.wire.checksums import Algorithm
from gateway.wire.extent import Extent, FileExtent

WINDOW_BYTES = 16 * 1024 * 1024
"""Moved by one call into C, within `transfer_timeout_s`; a multiple of any page size."""

WINDOWS_AT_ONCE = 2
"""The wire has something to do when one ends, and two threads are in the file."""

_SHORTEST_WINDOW_BYTES = 4 * 1024 * 1024

_INLINE_BYTES = 64 * 1024  # hashed, or taken from the reader, at once: a thread would cost more


class FetchedBody:
    """The body of a PUT that the gateway reads out of its peer's buffer: keeps ``s3.body.Body``.

    Args:
        connection: connected; not closed here.
        source: the peer's buffer; exactly as long as the object.
        owner: the access key that staging is counted for.
        declared: the digests that the client signed for.
        window_timeout_s: for each window.
    """

    def __init__(
        self,
        connection: Connection,
        source: RemoteBuffer,
        owner: str,
        declared: Declared,
        *,
        window_timeout_s: float,
    ) -> None:
        self._connection = connection
        self._source = source
        self._owner = owner
        self._declared = declared
        self._window_timeout_s = window_timeout_s

    @property
    def length_bytes(self) -> int:
        return self._source.length_bytes

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        """Fetch, store and hash all of it.

        Raises:
            TransportError: not all of it came.
            ClientError: BadDigest.
        """
        named = also | self._declared.checksums.keys()
        digester = Digester(named | {Algorithm.CRC64NVME})
        if self.length_bytes:
            with span("data", path="rc"):
                await self._fetch(staged, digester)
        return conclude(self._declared, digester, named)

    async def read(self, limit_bytes: int) -> bytes:
        """No operation with an XML body moves by RDMA."""
        raise InternalError(f"an RDMA body was read as a document of up to {limit_bytes} bytes")

    async def _fetch(self, staged: Staged, digester: Digester) -> None:
        fd = staged.fileno()
        if fd is not None:
            await self._fetch_windows(staged, fd, digester)
            return
        for piece in Extent(0, self.length_bytes).split(self._connection.max_piece_bytes):
            data = await self._connection.fetch_bytes(
                _part(self._source, piece), owner=self._owner, deadline_s=self._window_timeout_s
            )
            await _hash_bytes(digester, data)
            await staged.write(data)

    async def _fetch_windows(self, staged: Staged, fd: int, digester: Digester) -> None:
        hashed: asyncio.Future[int] | None = None
        windows = [*Extent(0, self.length_bytes).split(_window_bytes(self.length_bytes))]
        at_once = 1 if isinstance(staged, PassingStaged) else WINDOWS_AT_ONCE  # it has little room
        try:
            async with aclosing(_moved(partial(self._move, fd), windows, at_once)) as moved:
                async for window in moved:
                    if hashed is not None:
                        await _account(staged, hashed)
                    hashed = asyncio.ensure_future(_hash(digester, fd, window))
            if hashed is not None:
                await _account(staged, hashed)
        finally:
            if hashed is not None:  # the file may be closed only when no thread is in it
                await to_the_end(_result(hashed))

    async def _move(self, fd: int, window: Extent) -> None:
        await self._connection.fetch(
            _part(self._source, window),
            FileExtent(fd, window.offset_bytes, window.length_bytes),
            owner=self._owner,
            deadline_s=self._window_timeout_s,
        )


async def send_object(
    connection: Connection,
    reader: ObjectReader,
    extent: Extent,
    to: RemoteBuffer,
    *,
    owner: str,
    cookie: int | None,
    window_timeout_s: float,
) -> None:
    """Send an extent of an open object into the peer's buffer; the last write carries `cookie`.

    Args:
        connection: connected.
        reader: stays open until this returns.
        extent: inside the object, length > 0.
        to: at least as long as the extent.
        owner: the access key that staging is counted for.
        cookie: the immediate; None for none.
        window_timeout_s: for each window.

    Raises:
        TransportError: not all of it was acknowledged in time; the connection is over.
        InternalError: it is not what was stored.
    """

    def terms(piece: Extent) -> _Terms:
        target = _part(to, Extent(piece.offset_bytes - extent.offset_bytes, piece.length_bytes))
        last = piece.end_bytes == extent.end_bytes
        return _Terms(
            to=target,
            owner=owner,
            cookie=cookie if last else None,
            deadline_s=window_timeout_s,
        )

    if extent.length_bytes > _INLINE_BYTES and isinstance(reader, StreamedReader):
        async with aclosing(windows_of(reader, extent)) as windows:
            async for lent, piece in windows:
                await connection.send(lent, **terms(piece))
        return
    send = partial(_send_window, connection, reader, terms)
    cut = [*_windows(extent)]
    async with aclosing(_moved(send, cut, WINDOWS_AT_ONCE, last_alone=cookie is not None)) as moved:
        async for _ in moved:
            pass


async def _send_window(
    connection: Connection, reader: ObjectReader, terms: Callable[[Extent], _Terms], window: Extent
) -> None:
    small = window.length_bytes <= _INLINE_BYTES
    files = None if small else reader.extents(window.offset_bytes, window.length_bytes)
    if files is not None:
        async with named(reader, window):
            await connection.send(files, **terms(window))
        return
    for piece in window.split(connection.max_piece_bytes):
        data = await reader.read(piece.offset_bytes, piece.length_bytes)
        await connection.send_bytes(data, **terms(piece))


async def _moved(
    move: Callable[[Extent], Coroutine[Any, Any, None]],
    windows: Sequence[Extent],
    at_once: int,
    *,
    last_alone: bool = False,
) -> AsyncGenerator[Extent, None]:
    """Move window after window, each begun while the ones before it move; yields them in order.

    The last one may have an immediate, which says that all is there: with `last_alone` it is begun
    when the others are over. When this ends, however it does, nothing is in the files any more.
    """
    if len(windows) == 1:  # a task would cost more
        await move(windows[0])
        yield windows[0]
        return
    running: deque[tuple[Extent, asyncio.Task[None]]] = deque()
    try:
        for window in windows:
            alone = last_alone and window is windows[-1]
            while len(running) > (0 if alone else at_once - 1):
                yield await _first_of(running)
            running.append((window, asyncio.create_task(move(window))))
        while running:
            yield await _first_of(running)
    except (InternalError, BusyError):  # the others can end well: then the connection goes on
        raise
    except BaseException:
        for _, task in running:
            task.cancel()
        raise
    finally:
        await to_the_end(_all_over(task for _, task in running))


async def _first_of(running: deque[tuple[Extent, asyncio.Task[None]]]) -> Extent:
    """The window that was begun first, when it has moved."""
    window, task = running.popleft()
    await task
    return window


def _windows(extent: Extent) -> Iterator[Extent]:
    """Of a GET. The first of several is half as long, so that two of them end in turns."""
    first_bytes = extent.length_bytes
    if first_bytes > WINDOW_BYTES:
        first_bytes = WINDOW_BYTES // 2
    yield Extent(extent.offset_bytes, first_bytes)
    rest = Extent(extent.offset_bytes + first_bytes, extent.length_bytes - first_bytes)
    yield from rest.split(WINDOW_BYTES)


async def _all_over(tasks: Iterable[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class _Terms(TypedDict):
    """Where a piece goes, in whose name, and what ends it."""

    to: RemoteBuffer
    owner: str
    cookie: int | None
    deadline_s: float


def _window_bytes(length_bytes: int) -> int:
    """Of a PUT: its last window is hashed when nothing moves any more, so it is a small part."""
    eighth = length_bytes // 8 // _SHORTEST_WINDOW_BYTES * _SHORTEST_WINDOW_BYTES
    return min(max(eighth, _SHORTEST_WINDOW_BYTES), WINDOW_BYTES)


def _part(whole: RemoteBuffer, part: Extent) -> RemoteBuffer:
    """A stretch of the peer's buffer."""
    return RemoteBuffer(whole.addr + part.offset_bytes, whole.rkey, part.length_bytes)


async def _hash(digester: Digester, fd: int, window: Extent) -> int:
    """Returns how many bytes were hashed: all of the window."""
    if window.length_bytes <= _INLINE_BYTES:
        digester.update(os.pread(fd, window.length_bytes, window.offset_bytes))
    else:
        await asyncio.to_thread(_hash_mapped, digester, fd, window)
    return window.length_bytes


async def _account(staged: Staged, hashed: asyncio.Future[int]) -> None:
    """Nobody here needs a window any more once it is hashed: it may be passed on."""
    staged.written(await asyncio.shield(hashed))
    if isinstance(staged, PassingStaged):
        await staged.room()


async def _hash_bytes(digester: Digester, data: bytearray) -> None:
    if len(data) <= _INLINE_BYTES:
        digester.update(data)
    else:
        await asyncio.to_thread(digester.update, data)


def _hash_mapped(digester: Digester, fd: int, window: Extent) -> None:
    """Hash without the GIL and without a copy; `window` begins on a page."""
    with (
        mmap.mmap(
            fd, window.length_bytes, prot=mmap.PROT_READ, offset=window.offset_bytes
        ) as pages,
        memoryview(pages) as data,
    ):
        digester.update(data)


async def _result(future: asyncio.Future[int]) -> None:
    await future
