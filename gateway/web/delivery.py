"""An open object out over HTTP: read ahead while the last piece is being sent, in bounded memory.

A reply that gets a ticket reads the next large piece while the last one leaves. When all tickets
are out, the others send small pieces one after the other: slower, but a crowd of slow readers can
neither exhaust memory nor keep a newcomer waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager

from gateway.storage.port import ObjectReader, StreamedReader
from gateway.wire.extent import Extent

SMALL_PIECE_BYTES = 64 * 1024

Write = Callable[[bytes], Awaitable[None]]


class ReadAhead:
    """The tickets for reading ahead, and how much each may hold.

    Args:
        tickets: replies that read ahead at once.
        ahead_bytes: what one of them may hold: half is being sent, half is being read.
    """

    def __init__(self, tickets: int, ahead_bytes: int) -> None:
        self._tickets = self._left = tickets
        self._piece_bytes = max(ahead_bytes // 2, SMALL_PIECE_BYTES)

    @property
    def in_use(self) -> int:
        """Tickets that are out."""
        return self._tickets - self._left

    @contextmanager
    def piece_bytes(self, length_bytes: int) -> Iterator[int | None]:
        """The length of pieces to read ahead in, or None: no ticket is left, or none is needed."""
        if self._left == 0 or length_bytes <= SMALL_PIECE_BYTES:
            yield None
            return
        self._left -= 1
        try:
            yield self._piece_bytes
        finally:
            self._left += 1


async def deliver(
    write: Write, head: bytes, reader: ObjectReader, extent: Extent, ahead: ReadAhead
) -> None:
    """Send `head` and the extent's bytes, and close the reader whatever happens.

    The first piece is read before the head is sent, so that an unreadable object is still an
    error with a status.

    Raises:
        InternalError: the object could not be read; after the head is out, only cutting the
            connection tells the client.
        ConnectionError, TimeoutError: from `write`.
    """
    if isinstance(reader, StreamedReader):
        reader.expect(extent.offset_bytes, extent.length_bytes)
    try:
        with ahead.piece_bytes(extent.length_bytes) as piece_bytes:
            pieces = (
                _one_by_one(reader, extent)
                if piece_bytes is None
                else _read_ahead(reader, extent, piece_bytes)
            )
            try:
                async for piece in pieces:
                    await write(head + piece if head else piece)
                    head = b""
            finally:
                await pieces.aclose()
        if head:
            await write(head)
    finally:
        await reader.close()


def _pieces(extent: Extent, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """(offset, length) of each piece, in order."""
    for offset_bytes in range(extent.offset_bytes, extent.end_bytes, piece_bytes):
        yield offset_bytes, min(piece_bytes, extent.end_bytes - offset_bytes)


async def _one_by_one(reader: ObjectReader, extent: Extent) -> AsyncGenerator[bytes, None]:
    for offset_bytes, length_bytes in _pieces(extent, SMALL_PIECE_BYTES):
        yield await reader.read(offset_bytes, length_bytes)


async def _read_ahead(
    reader: ObjectReader, extent: Extent, piece_bytes: int
) -> AsyncGenerator[bytes, None]:
    running: asyncio.Task[bytes] | None = None
    try:
        for offset_bytes, length_bytes in _pieces(extent, piece_bytes):
            coming = asyncio.create_task(reader.read(offset_bytes, length_bytes))
            ready, running = running, coming
            if ready is not None:
                yield await ready
        if running is not None:
            yield await running
    finally:
        if running is not None:  # over before the reader is closed; a no-op once it was yielded
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
