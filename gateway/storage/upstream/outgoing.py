"""Bodies on their way upstream: read piece by piece from a file, their length told beforehand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

from gateway.config.setting import KIB
from gateway.wire.extent import Extent

PIECE_BYTES = 256 * KIB


def _nobody() -> None:
    """Nobody wants to hear of progress."""


class OutgoingBody:
    """An extent of a file as a request's body: as long as `len` says, and sent again at will.

    Args:
        fd: stays open until the call is over.
        extent: of the file.
    """

    again = True

    def __init__(self, fd: int, extent: Extent) -> None:
        self._fd = fd
        self._extent = extent
        self._moved: Callable[[], None] = _nobody

    def __len__(self) -> int:
        return self._extent.length_bytes

    def begin(self, moved: Callable[[], None]) -> None:
        """A call begins; `moved` hears of each piece that the connection took."""
        self._moved = moved

    def read(self) -> bytes:
        """Never called, but botocore takes for a body only what has it; aiohttp iterates."""
        raise NotImplementedError

    def seek(self, offset_bytes: int) -> int:
        """To the start; each iteration begins there anyway."""
        return offset_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._extent.split(PIECE_BYTES):
            yield os.pread(self._fd, piece.length_bytes, piece.offset_bytes)
            self._moved()


class GrowingBody(OutgoingBody):
    """A body that is sent while it still arrives. Its end is held back until it is released.

    So a request whose bytes turn out wrong is never whole, and the service keeps nothing of it.

    Args:
        sent: told how many bytes from the start on are not needed any more.
    """

    again = False

    def __init__(self, fd: int, extent: Extent, sent: Callable[[int], None]) -> None:
        super().__init__(fd, extent)
        self._sent = sent
        self._arrived_bytes = 0
        self._released = False
        self._news = asyncio.Event()

    def arrived(self, length_bytes: int) -> None:
        """So much of it is in the file."""
        self._arrived_bytes = length_bytes
        self._news.set()

    def release(self) -> None:
        """All of it arrived, and is what it should be."""
        self._released = True
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._extent.split(PIECE_BYTES):
            await self._until(piece.end_bytes)
            yield os.pread(self._fd, piece.length_bytes, piece.offset_bytes)
            self._moved()
            self._sent(piece.end_bytes)

    async def _until(self, end_bytes: int) -> None:
        last = end_bytes == self._extent.end_bytes
        while not self._released and (last or self._arrived_bytes < end_bytes):
            self._news.clear()
            await self._news.wait()
