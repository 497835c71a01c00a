"""Where a transfer's bytes lie on this side: in the caller's buffer, or in a file.

A file's bytes pass through borrowed memory of one part's length. Registering a mapping of the file
itself would be shorter, but the kernel refuses long-term pins of writable file mappings on most
file systems (FOLL_LONGTERM, mm/gup.c), and anonymous memory works on all of them.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from typing_extensions import Buffer

from gateway.client.errors import TransferError
from gateway.rdma.aio import to_the_end
from gateway.wire.extent import Extent


class Memory(Protocol):
    """The bytes of one transfer, lent part by part."""

    def part(self, extent: Extent) -> AbstractAsyncContextManager[memoryview]:
        """Memory that holds, or will take, the bytes of `extent`, relative to the transfer.

        A file that takes bytes is written when the context ends without an error.
        """


class BufferMemory:
    """The caller's own buffer: nothing is copied."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    @asynccontextmanager
    async def part(self, extent: Extent) -> AsyncIterator[memoryview]:
        yield self._view[extent.offset_bytes : extent.end_bytes]


class _FileMemory:
    """What reading and writing a file have in common: the borrowed memory, at most `count` pieces.

    Args:
        fd: open, and open until the transfer is over.
        part_bytes: the longest extent that will be asked for, > 0.
        count: how many extents may be out at once, > 0; others wait.
    """

    def __init__(self, fd: int, part_bytes: int, count: int) -> None:
        self._fd = fd
        self._part_bytes = part_bytes
        self._free: list[mmap.mmap] = []
        self._places = asyncio.Semaphore(count)

    @asynccontextmanager
    async def _borrowed(self, length_bytes: int) -> AsyncIterator[memoryview]:
        async with self._places:
            anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            memory = (
                self._free.pop() if self._free else mmap.mmap(-1, self._part_bytes, flags=anonymous)
            )
            try:
                yield memoryview(memory)[:length_bytes]
            finally:
                self._free.append(memory)


class FileSource(_FileMemory):
    """A file to be sent."""

    @asynccontextmanager
    async def part(self, extent: Extent) -> AsyncIterator[memoryview]:
        async with self._borrowed(extent.length_bytes) as piece:
            await _in_thread(_read, self._fd, piece, extent.offset_bytes)
            yield piece


class FileSink(_FileMemory):
    """A file to be filled."""

    @asynccontextmanager
    async def part(self, extent: Extent) -> AsyncIterator[memoryview]:
        async with self._borrowed(extent.length_bytes) as piece:
            yield piece
            await _in_thread(_write, self._fd, piece, extent.offset_bytes)


def as_bytes(buffer: Buffer, *, writable: bool) -> memoryview:
    """Any buffer as a flat run of bytes.

    Raises:
        ValueError: it is not contiguous, or read-only where it is to be filled.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("the buffer must be contiguous in memory (numpy: ascontiguousarray)")
    if writable and view.readonly:
        raise ValueError("the buffer is read-only, and a GET writes into it")
    # An empty view can't be cast: its shape holds a zero.
    return view.cast("B") if view.nbytes else memoryview(bytearray())


async def _in_thread(
    work: Callable[[int, memoryview, int], None], fd: int, piece: memoryview, offset_bytes: int
) -> None:
    """To its end even when cancelled: the memory is lent again after it."""
    await to_the_end(asyncio.to_thread(work, fd, piece, offset_bytes))


def _read(fd: int, piece: memoryview, offset_bytes: int) -> None:
    done = 0
    while done < len(piece):
        count = os.preadv(fd, [piece[done:]], offset_bytes + done)
        if count == 0:
            raise TransferError("the file became shorter while it was being sent")
        done += count


def _write(fd: int, piece: memoryview, offset_bytes: int) -> None:
    done = 0
    while done < len(piece):
        done += os.pwrite(fd, piece[done:], offset_bytes + done)
