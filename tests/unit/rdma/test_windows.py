"""Storages that stream: objects sent window by window, staged bytes passed on while more come."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.dataplane.port import RemoteBuffer
from gateway.errors import BusyError, TransportError
from gateway.rdma import fetch
from gateway.rdma.fetch import FetchedBody, send_object
from gateway.rdma.movement import Deadline, deliver
from gateway.s3.integrity import Declared
from gateway.storage.port import ObjectAttributes, ObjectInfo, PassingStaged, StreamedReader
from gateway.wire.extent import Extent, FileExtent

DATA = os.urandom(200_000)
WINDOW = 30_000
INFO = ObjectInfo("bucket", "key", len(DATA), "etag", 0, ObjectAttributes())


class Streamed(StreamedReader):
    """Windows of `WINDOW` bytes, each in the same place, as a ring has them."""

    info = INFO

    def __init__(self, breaks_at: int = len(DATA)) -> None:
        self.fd = os.memfd_create("window")
        self.expected: tuple[int, int] | None = None
        self._breaks_at = breaks_at

    def extents(self, offset_bytes: int, length_bytes: int) -> None:
        return None

    async def verify(self, offset_bytes: int, length_bytes: int) -> None: ...

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        return DATA[offset_bytes : offset_bytes + length_bytes]

    async def close(self) -> None: ...

    def expect(self, offset_bytes: int, length_bytes: int) -> None:
        self.expected = (offset_bytes, length_bytes)

    async def window(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        if offset_bytes >= self._breaks_at:
            raise BusyError("replaced")
        some = DATA[offset_bytes : offset_bytes + min(length_bytes, WINDOW)]
        return (FileExtent(self.fd, 0, os.pwrite(self.fd, some, 0)),)


class Peer:
    """A lane or a connection: what is sent lies in its memory."""

    def __init__(self, fails_after: int = 100) -> None:
        self.memory = bytearray(len(DATA))
        self.cookies: list[int | None] = []
        self.closed = False
        self._left = fails_after

    async def send(
        self, files: Sequence[FileExtent], to: RemoteBuffer, *, cookie: int | None, **_: Any
    ) -> None:
        if not self._left:
            raise TransportError
        self._left -= 1
        data = b"".join(os.pread(one.fd, one.length_bytes, one.offset_bytes) for one in files)
        assert len(data) == to.length_bytes
        self.memory[to.addr : to.addr + len(data)] = data
        self.cookies.append(cookie)

    async def send_extents(
        self, files: Sequence[FileExtent], to: RemoteBuffer, cookie: int | None, _: float
    ) -> None:
        await self.send(files, to, cookie=cookie)

    async def close(self) -> None:
        self.closed = True


async def by_connection(peer: Any, reader: Streamed, extent: Extent) -> None:
    to = RemoteBuffer(0, 1, extent.length_bytes)
    await send_object(peer, reader, extent, to, owner="o", cookie=9, window_timeout_s=5)


async def by_lane(peer: Any, reader: Streamed, extent: Extent) -> None:
    to = RemoteBuffer(0, 1, extent.length_bytes)
    deadline = Deadline.after(lambda: 0.0, 5)
    await deliver(peer, reader, extent, to, cookie=9, deadline=deadline)


WAYS = pytest.mark.parametrize("move", [by_connection, by_lane])
Move = Callable[[Any, Streamed, Extent], Any]


@WAYS
@pytest.mark.parametrize(("first", "length"), [(0, 200_000), (7, 150_001), (100_000, 70_000)])
async def test_get__streamed__each_window_once_the_last_with_the_cookie(
    move: Move, first: int, length: int
) -> None:
    peer, reader = Peer(), Streamed()
    await move(peer, reader, Extent(first, length))
    assert peer.memory[:length] == DATA[first : first + length]
    assert reader.expected == (first, length)
    assert peer.cookies == [None] * (-(-length // WINDOW) - 1) + [9]


@WAYS
async def test_get__storage_breaks_off__its_error_comes_through(move: Move) -> None:
    with pytest.raises(BusyError):
        await move(Peer(), Streamed(breaks_at=60_000), Extent(0, len(DATA)))


async def test_get__lane_fails_half_way__is_closed_before_the_window_goes() -> None:
    peer = Peer(fails_after=2)
    with pytest.raises(TransportError):
        await by_lane(peer, Streamed(), Extent(0, len(DATA)))
    assert peer.closed


class Passing(PassingStaged):
    """Notes what it was told, and when it was waited for."""

    def __init__(self, fails: bool = False) -> None:
        self.fd = os.memfd_create("passing")
        self.told: list[int | str] = []
        self._fails = fails

    def fileno(self) -> int:
        return self.fd

    def written(self, length_bytes: int) -> None:
        self.told.append(length_bytes)

    async def room(self) -> None:
        self.told.append("room")
        if self._fails:
            raise BusyError("upstream is slow")

    async def write(self, data: bytes | bytearray | memoryview) -> None: ...

    async def discard(self) -> None: ...


class Source:
    """A connection whose peer's buffer is DATA; `most` moves were under way at once."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def fetch(self, source: RemoteBuffer, into: FileExtent, **_: Any) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        piece = DATA[source.addr : source.addr + source.length_bytes]
        os.pwrite(into.fd, piece, into.offset_bytes)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def body(monkeypatch: pytest.MonkeyPatch, source: Source) -> FetchedBody:
    monkeypatch.setattr(fetch, "WINDOW_BYTES", 65_536)
    connection: Any = source
    buffer = RemoteBuffer(0, 1, len(DATA))
    return FetchedBody(connection, buffer, "o", Declared(None, {}), window_timeout_s=5)


async def test_put__passing_on__one_window_at_a_time_is_told_when_it_is_hashed(
    body: FetchedBody, source: Source
) -> None:
    staged = Passing()
    poured = await body.pour(staged)
    assert poured.size_bytes == len(DATA)
    assert os.pread(staged.fd, len(DATA), 0) == DATA
    assert staged.told == [65_536, "room"] * 3 + [len(DATA) - 3 * 65_536, "room"]
    assert source.most == 1  # what came would be beyond the room that was waited for


async def test_put__cannot_be_passed_on__its_error_comes_through(body: FetchedBody) -> None:
    with pytest.raises(BusyError):
        await body.pour(Passing(fails=True))
