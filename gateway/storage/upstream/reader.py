"""An open object upstream: nothing of it is here but what is being read."""

from __future__ import annotations

from gateway.storage import rules
from gateway.storage.port import ObjectInfo, StreamedReader
from gateway.storage.upstream.budget import Budget
from gateway.storage.upstream.ranges import Ranges
from gateway.storage.upstream.ring import Ring
from gateway.wire.extent import Extent, FileExtent


class UpstreamReader(StreamedReader):
    """The upstream's `StreamedReader`.

    It reads the very bytes that it opened, or ends in an error: where the service keeps no versions
    it can't be had to keep them for its readers.

    Args:
        ranges: of this object.
        segment_bytes: the longest GET.
        concurrency: GETs at once, while one segment is being read.
        budget: what is read ahead is taken from it.
    """

    def __init__(
        self,
        info: ObjectInfo,
        ranges: Ranges,
        *,
        segment_bytes: int,
        concurrency: int,
        budget: Budget,
    ) -> None:
        self._info = info
        self._ranges = ranges
        self._segment_bytes = segment_bytes
        self._concurrency = concurrency
        self._budget = budget
        self._ring: Ring | None = None
        self._taken_bytes = 0

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...] | None:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        return None if length_bytes else ()

    def expect(self, offset_bytes: int, length_bytes: int) -> None:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        if not length_bytes or self._ring is not None:
            return
        segment_bytes = min(length_bytes, self._segment_bytes)
        wanted = min(self._concurrency + 1, -(-length_bytes // segment_bytes))
        slots = max(1, min(wanted, self._budget.left_bytes // segment_bytes))
        self._budget.take(slots * segment_bytes)
        self._taken_bytes = slots * segment_bytes
        self._ring = Ring(
            self._ranges.fetch, Extent(offset_bytes, length_bytes), segment_bytes, slots
        )

    async def window(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        extent = Extent(offset_bytes, length_bytes)
        if self._ring is None or not self._ring.holds(extent):
            raise ValueError(f"{extent} was not expected to be read")
        return (await self._ring.window(extent),)

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        extent = Extent(offset_bytes, length_bytes)
        if self._ring is not None and self._ring.holds(extent):
            return await self._ring.read(extent)
        data = bytearray()
        if length_bytes:
            await self._ranges.fetch(extent, data.extend)
        return bytes(data)

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        """Nothing is sent out of files: each GET was held to the object's ETag and length."""

    async def close(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None:
            await ring.close()
            self._budget.give(self._taken_bytes)
