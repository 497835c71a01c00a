"""An object's bytes over a connection: fetched into a staged file (PUT), sent from an open object.

Any length goes through the connection's bounded staging, window by window. While one window moves
(in C, without Python), the one before it is hashed from the file's pages, which are still warm.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gateway.dataplane.port import Connection, RemoteBuffer
from gateway.errors import InternalError
from gateway.rdma.aio import to_the_end
from gateway.rdma.movement import CHUNK_BYTES, conclude
from gateway.s3.body import Poured
from gateway.s3.digest import Digester
from gateway.s3.integrity import Declared
from gateway.storage.port import ObjectReader, Staged
from gateway.wire.checksums import Algorithm
from gateway.wire.extent import Extent, FileExtent

WINDOW_BYTES = 32 * 1024 * 1024
"""Moved by one call into C, within `transfer_timeout_s`; a multiple of any page size."""

_INLINE_BYTES = 64 * 1024  # hashed at once: a thread would cost more


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
            await self._fetch(staged, digester)
        return conclude(self._declared, digester, named)

    async def read(self, limit_bytes: int) -> bytes:
        """No operation with an XML body moves by RDMA."""
        raise InternalError(f"an RDMA body was read as a document of up to {limit_bytes} bytes")

    async def _fetch(self, staged: Staged, digester: Digester) -> None:
        fd = staged.fileno()
        if fd is not None:
            await self._fetch_windows(fd, digester)
            staged.written(self.length_bytes)
            return
        with _scratch() as scratch:
            for window in Extent(0, self.length_bytes).split(CHUNK_BYTES):
                await self._move(window, FileExtent(scratch, 0, window.length_bytes))
                data = os.pread(scratch, window.length_bytes, 0)
                digester.update(data)
                await staged.write(data)

    async def _fetch_windows(self, fd: int, digester: Digester) -> None:
        hashed: asyncio.Future[None] | None = None
        try:
            for window in Extent(0, self.length_bytes).split(WINDOW_BYTES):
                await self._move(window, FileExtent(fd, window.offset_bytes, window.length_bytes))
                if hashed is not None:
                    await asyncio.shield(hashed)
                hashed = asyncio.ensure_future(_hash(digester, fd, window))
        finally:
            if hashed is not None:  # the file may be closed only when no thread is in it
                await to_the_end(_result(hashed))

    async def _move(self, window: Extent, into: FileExtent) -> None:
        source = replace(
            self._source,
            addr=self._source.addr + window.offset_bytes,
            length_bytes=window.length_bytes,
        )
        await self._connection.fetch(
            source, into, owner=self._owner, deadline_s=self._window_timeout_s
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
    """

    async def send(files: Sequence[FileExtent], piece: Extent) -> None:
        offset_bytes = piece.offset_bytes - extent.offset_bytes
        await connection.send(
            files,
            replace(to, addr=to.addr + offset_bytes, length_bytes=piece.length_bytes),
            owner=owner,
            cookie=cookie if piece.end_bytes == extent.end_bytes else None,
            deadline_s=window_timeout_s,
        )

    for window in extent.split(WINDOW_BYTES):
        files = reader.extents(window.offset_bytes, window.length_bytes)
        if files is not None:
            await send(files, window)
        else:
            await _send_copied(reader, window, send)


async def _send_copied(
    reader: ObjectReader,
    window: Extent,
    send: Callable[[Sequence[FileExtent], Extent], Awaitable[None]],
) -> None:
    """The same for a storage without files: piece by piece through an anonymous one."""
    with _scratch() as scratch:
        for piece in window.split(CHUNK_BYTES):
            data = await reader.read(piece.offset_bytes, piece.length_bytes)
            await send((FileExtent(scratch, 0, os.pwrite(scratch, data, 0)),), piece)


@contextmanager
def _scratch() -> Iterator[int]:
    """An anonymous file for what passes through Python, where a storage has none."""
    fd = os.memfd_create("rdma-window", os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


async def _hash(digester: Digester, fd: int, window: Extent) -> None:
    if window.length_bytes <= _INLINE_BYTES:
        digester.update(os.pread(fd, window.length_bytes, window.offset_bytes))
    else:
        await asyncio.to_thread(_hash_mapped, digester, fd, window)


def _hash_mapped(digester: Digester, fd: int, window: Extent) -> None:
    """Hash without the GIL and without a copy; `window` begins on a page."""
    with (
        mmap.mmap(
            fd, window.length_bytes, prot=mmap.PROT_READ, offset=window.offset_bytes
        ) as pages,
        memoryview(pages) as data,
    ):
        digester.update(data)


async def _result(future: asyncio.Future[None]) -> None:
    await future
