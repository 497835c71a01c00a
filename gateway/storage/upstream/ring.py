"""A bounded stretch of an object in memory: filled ahead by parallel GETs, read from in order.

The object's expected extent is cut into segments. As many as there are slots are kept or coming; a
segment behind the reader gives its slot to the next one. The slots are one file in memory, so that
the C core sends from where the GETs wrote.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.storage.upstream.ranges import Sink
from gateway.wire.extent import Extent, FileExtent

Fetch = Callable[[Extent, Sink], Awaitable[None]]


@dataclass(slots=True)
class _Segment:
    """One piece that is coming, or is there.

    Attributes:
        extent: of the object.
        slot: where in the file.
        come_bytes: so much of it is there.
    """

    extent: Extent
    slot: int
    come_bytes: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def until(self, come_bytes: int) -> None:
        """Wait for its first so many bytes. Raises what its GET raised."""
        while self.come_bytes < come_bytes:
            if self.task is not None and self.task.done():
                self.task.result()
            self.news.clear()
            await self.news.wait()


class Ring:
    """The segments of one extent. One reader, in order; going back is possible, and slower.

    Args:
        fetch: gives the bytes of an extent to a sink, in order.
        expected: what will be read, length > 0.
        segment_bytes: longest segment.
        slots: > 0.
    """

    def __init__(self, fetch: Fetch, expected: Extent, segment_bytes: int, slots: int) -> None:
        self._fetch = fetch
        self._expected = expected
        self._pieces = tuple(expected.split(segment_bytes))
        self._segment_bytes = segment_bytes
        self._free = list(range(min(slots, len(self._pieces))))
        self._segments: dict[int, _Segment] = {}
        self._turn = asyncio.Lock()
        self._fd = os.memfd_create("ring", os.MFD_CLOEXEC)

    def holds(self, extent: Extent) -> bool:
        """Whether an extent lies inside what was expected."""
        return (
            self._expected.offset_bytes <= extent.offset_bytes
            and extent.end_bytes <= self._expected.end_bytes
        )

    async def read(self, extent: Extent) -> bytes:
        """Exactly these bytes. Raises what their GETs raise.

        One after the other, in the order of the calls: who reads ahead must not take the segment
        away that the one before still waits for.
        """
        async with self._turn:
            return await self._read(extent)

    async def _read(self, extent: Extent) -> bytes:
        pieces = []
        position = extent.offset_bytes
        while position < extent.end_bytes:
            segment = await self._at(position)
            wanted = min(extent.end_bytes, segment.extent.end_bytes) - position
            start = position - segment.extent.offset_bytes
            await segment.until(start + wanted)
            pieces.append(os.pread(self._fd, wanted, self._place(segment) + start))
            position += wanted
        return b"".join(pieces)

    async def window(self, extent: Extent) -> FileExtent:
        """The first bytes of an extent, as far as one segment goes; kept until the next call."""
        async with self._turn:
            segment = await self._at(extent.offset_bytes)
            length_bytes = min(extent.end_bytes, segment.extent.end_bytes) - extent.offset_bytes
            start = extent.offset_bytes - segment.extent.offset_bytes
            await segment.until(start + length_bytes)
            return FileExtent(self._fd, self._place(segment) + start, length_bytes)

    async def close(self) -> None:
        """Stop what is coming, and give the memory back. Idempotent."""
        tasks = [one.task for one in self._segments.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._segments.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _at(self, position: int) -> _Segment:
        """The segment of a position, begun; those behind it are given up, those ahead begun."""
        index = (position - self._expected.offset_bytes) // self._segment_bytes
        for passed in [one for one in self._segments if one < index]:
            await self._give_up(passed)
        if index not in self._segments and not self._free:
            await self._give_up(max(self._segments))
        for ahead in range(index, len(self._pieces)):
            if ahead not in self._segments and self._free:
                self._begin(ahead)
        return self._segments[index]

    async def _give_up(self, index: int) -> None:
        segment = self._segments.pop(index)
        if segment.task is not None:
            segment.task.cancel()
            await asyncio.gather(segment.task, return_exceptions=True)
        self._free.append(segment.slot)

    def _begin(self, index: int) -> None:
        segment = _Segment(self._pieces[index], self._free.pop())
        segment.task = asyncio.create_task(self._fill(segment))
        segment.task.add_done_callback(lambda _: segment.news.set())
        self._segments[index] = segment

    async def _fill(self, segment: _Segment) -> None:
        def sink(piece: bytes) -> None:
            os.pwrite(self._fd, piece, self._place(segment) + segment.come_bytes)
            segment.come_bytes += len(piece)
            segment.news.set()

        await self._fetch(segment.extent, sink)

    def _place(self, segment: _Segment) -> int:
        return segment.slot * self._segment_bytes
