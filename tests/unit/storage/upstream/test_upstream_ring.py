"""The ring: a bounded stretch of an object, fetched ahead in parallel."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from gateway.errors import BusyError
from gateway.storage.port import ObjectAttributes, ObjectInfo
from gateway.storage.upstream.budget import Budget
from gateway.storage.upstream.ranges import Sink
from gateway.storage.upstream.reader import UpstreamReader
from gateway.storage.upstream.ring import Ring
from gateway.wire.extent import Extent

SIZE, SEGMENT, SLOTS = 100_000, 10_000, 3


class Source:
    """An object's bytes by ranges; remembers what was asked, and how much at once."""

    def __init__(self) -> None:
        self.data = os.urandom(SIZE)
        self.asked: list[int] = []
        self.running = self.most_running = 0

    async def fetch(self, extent: Extent, sink: Sink) -> None:
        self.asked.append(extent.offset_bytes)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            for piece in extent.split(3000):
                await asyncio.sleep(0)
                sink(self.data[piece.offset_bytes : piece.end_bytes])
        finally:
            self.running -= 1


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def ring(source: Source) -> AsyncIterator[Ring]:
    made = Ring(source.fetch, Extent(0, SIZE), SEGMENT, SLOTS)
    yield made
    await made.close()


async def test_read__in_order__each_segment_once_and_no_more_than_its_slots(
    ring: Ring, source: Source
) -> None:
    pieces = [await ring.read(extent) for extent in Extent(0, SIZE).split(7777)]
    assert b"".join(pieces) == source.data
    assert source.asked == list(range(0, SIZE, SEGMENT))
    assert source.most_running <= SLOTS


async def test_read__ahead_while_another_waits__both_get_their_bytes(
    ring: Ring, source: Source
) -> None:
    """As HTTP's delivery does it: the next piece is asked for while the last is still coming."""
    extents = list(Extent(0, SIZE).split(7777))
    found = await asyncio.gather(*(ring.read(extent) for extent in extents))
    assert b"".join(found) == source.data


async def test_read__back_and_forth__right_bytes(ring: Ring, source: Source) -> None:
    for place in (0, 95_000, 50_000, 5, 99_999):
        found = await ring.read(Extent(place, min(20_000, SIZE - place)))
        assert found == source.data[place : place + 20_000]


async def test_window__in_order__bytes_stay_until_the_next(ring: Ring, source: Source) -> None:
    left = Extent(5000, 60_000)
    while left.length_bytes:
        window = await ring.window(left)
        await asyncio.sleep(0.001)  # others are fetched meanwhile
        found = os.pread(window.fd, window.length_bytes, window.offset_bytes)
        assert found == source.data[left.offset_bytes : left.offset_bytes + window.length_bytes]
        end_bytes = left.offset_bytes + window.length_bytes
        left = Extent(end_bytes, left.end_bytes - end_bytes)


async def test_read__fetch_fails__raises_it_and_close_is_clean(source: Source) -> None:
    async def fail(_: Extent, sink: Sink) -> None:
        sink(b"some")
        raise BusyError("replaced")

    ring = Ring(fail, Extent(0, SIZE), SEGMENT, SLOTS)
    with pytest.raises(BusyError):
        await ring.read(Extent(0, 10))
    await ring.close()


async def test_close__while_segments_come__they_end(ring: Ring, source: Source) -> None:
    reading = asyncio.ensure_future(ring.read(Extent(0, SEGMENT)))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await ring.close()
    assert source.running == 0


# The reader on it


class Ranges:
    """As `ranges.Ranges`."""

    def __init__(self, source: Source) -> None:
        self.fetch = source.fetch


def reader(source: Source, budget: Budget) -> UpstreamReader:
    info = ObjectInfo("bucket", "key", SIZE, "etag", 0, ObjectAttributes())
    ranges: object = Ranges(source)
    return UpstreamReader(info, ranges, segment_bytes=SEGMENT, concurrency=2, budget=budget)  # type: ignore[arg-type]


async def test_reader__nothing_expected__one_get_of_just_that(source: Source) -> None:
    opened = reader(source, Budget(0))
    assert await opened.read(7, 20_000) == source.data[7:20_007]
    assert await opened.read(3, 0) == b""
    assert source.asked == [7]
    await opened.close()


async def test_reader__expected__takes_from_the_budget_and_gives_back(source: Source) -> None:
    budget = Budget(10 * SEGMENT)
    opened = reader(source, budget)
    opened.expect(0, SIZE)
    assert budget.left_bytes == 7 * SEGMENT
    assert await opened.read(0, SIZE) == source.data
    await opened.close()
    await opened.close()
    assert budget.left_bytes == 10 * SEGMENT


async def test_reader__little_is_left__reads_with_less(source: Source) -> None:
    budget = Budget(SEGMENT + 5)
    opened = reader(source, budget)
    opened.expect(0, SIZE)
    assert await opened.read(0, SIZE) == source.data
    assert source.most_running == 1
    await opened.close()


async def test_reader__nothing_is_left__busy(source: Source) -> None:
    with pytest.raises(BusyError, match="buffer_bytes"):
        reader(source, Budget(5)).expect(0, SIZE)


async def test_window__not_expected__a_caller_s_bug(source: Source) -> None:
    with pytest.raises(ValueError, match="was not expected"):
        await reader(source, Budget(SIZE)).window(0, 10)
