"""web.delivery: order, read-ahead, tickets, and a reader that is closed whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import InternalError
from gateway.storage.port import ObjectAttributes, ObjectInfo
from gateway.web.delivery import SMALL_PIECE_BYTES, ReadAhead, deliver
from gateway.wire.extent import Extent

DATA = bytes(range(256)) * 4096  # 1 MiB
AHEAD_BYTES = 512 * 1024
PIECE_BYTES = AHEAD_BYTES // 2


class Reader:
    """An open object in memory; fails at an offset where it is told to."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.reads: list[tuple[int, int]] = []
        self.running = 0
        self.closed_while_running = False
        self.closed = 0
        self._fail_at = fail_at

    @property
    def info(self) -> ObjectInfo:
        return ObjectInfo("b", "k", len(DATA), "e", 0, ObjectAttributes())

    def extents(self, offset_bytes: int, length_bytes: int) -> None:
        return None

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        """There is nothing to verify."""

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        self.reads.append((offset_bytes, length_bytes))
        self.running += 1
        try:
            await asyncio.sleep(0)
            if offset_bytes == self._fail_at:
                raise InternalError("shorter than it was")
            return DATA[offset_bytes : offset_bytes + length_bytes]
        finally:
            self.running -= 1

    async def close(self) -> None:
        self.closed += 1
        self.closed_while_running = self.running > 0


class Sink:
    """What the connection took; breaks after so many writes."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.taken: list[bytes] = []
        self._breaks_after = breaks_after

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(0)
        if len(self.taken) == self._breaks_after:
            raise ConnectionResetError
        self.taken.append(data)


@pytest.mark.parametrize(
    "extent", [Extent(0, 1), Extent(0, len(DATA)), Extent(70_001, 700_000), Extent(5, PIECE_BYTES)]
)
async def test_deliver__any_extent__sends_head_and_bytes_in_order(extent: Extent) -> None:
    reader, sink = Reader(), Sink()
    await deliver(sink.write, b"head", reader, extent, ReadAhead(1, AHEAD_BYTES))
    assert b"".join(sink.taken) == b"head" + DATA[extent.offset_bytes : extent.end_bytes]
    assert reader.closed == 1


async def test_deliver__empty_extent__sends_the_head() -> None:
    reader, sink = Reader(), Sink()
    await deliver(sink.write, b"head", reader, Extent(0, 0), ReadAhead(1, AHEAD_BYTES))
    assert (sink.taken, reader.reads, reader.closed) == ([b"head"], [], 1)


async def test_deliver__with_a_ticket__reads_the_next_piece_before_the_last_is_sent() -> None:
    reader = Reader()
    begun_when_first_was_sent = 0

    async def write(data: bytes) -> None:
        nonlocal begun_when_first_was_sent
        await asyncio.sleep(0)
        begun_when_first_was_sent = begun_when_first_was_sent or len(reader.reads)

    await deliver(write, b"", reader, Extent(0, len(DATA)), ReadAhead(1, AHEAD_BYTES))
    assert begun_when_first_was_sent == 2
    assert reader.reads[0] == (0, PIECE_BYTES)


async def test_deliver__no_ticket_left__sends_small_pieces() -> None:
    ahead = ReadAhead(1, AHEAD_BYTES)
    reader, sink = Reader(), Sink()
    with ahead.piece_bytes(len(DATA)) as granted:
        assert granted == PIECE_BYTES
        await deliver(sink.write, b"", reader, Extent(0, len(DATA)), ahead)
    assert {length for _, length in reader.reads} == {SMALL_PIECE_BYTES}
    assert b"".join(sink.taken) == DATA


async def test_deliver__failed__gives_its_ticket_back() -> None:
    ahead = ReadAhead(1, AHEAD_BYTES)
    with pytest.raises(InternalError):
        await deliver(Sink().write, b"", Reader(fail_at=0), Extent(0, len(DATA)), ahead)
    with ahead.piece_bytes(len(DATA)) as granted:
        assert granted == PIECE_BYTES


async def test_deliver__first_read_fails__sends_nothing_so_the_error_has_a_status() -> None:
    reader, sink = Reader(fail_at=0), Sink()
    with pytest.raises(InternalError):
        await deliver(sink.write, b"head", reader, Extent(0, 10), ReadAhead(1, AHEAD_BYTES))
    assert (sink.taken, reader.closed) == ([], 1)


async def test_deliver__later_read_fails__raises_after_what_was_good() -> None:
    reader, sink = Reader(fail_at=PIECE_BYTES), Sink()
    with pytest.raises(InternalError):
        await deliver(sink.write, b"", reader, Extent(0, len(DATA)), ReadAhead(1, AHEAD_BYTES))
    assert b"".join(sink.taken) == DATA[:PIECE_BYTES]
    assert reader.closed == 1


@pytest.mark.parametrize("tickets", [0, 1])
async def test_deliver__client_goes_away__closes_the_reader_when_no_read_runs(
    tickets: int,
) -> None:
    reader, sink = Reader(), Sink(breaks_after=1)
    with pytest.raises(ConnectionResetError):
        await deliver(
            sink.write, b"", reader, Extent(0, len(DATA)), ReadAhead(tickets, AHEAD_BYTES)
        )
    assert reader.closed == 1
    assert not reader.closed_while_running


async def test_deliver__cancelled__closes_the_reader_when_no_read_runs() -> None:
    reader = Reader()
    writing = asyncio.Event()

    async def write(_: bytes) -> None:
        writing.set()
        await asyncio.Event().wait()

    delivery = asyncio.create_task(
        deliver(write, b"", reader, Extent(0, len(DATA)), ReadAhead(1, AHEAD_BYTES))
    )
    await writing.wait()
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    assert reader.closed == 1
    assert not reader.closed_while_running
