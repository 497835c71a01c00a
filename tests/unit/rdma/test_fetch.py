"""Objects over a connection: the pieces they are moved in, with files and without."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.dataplane.failures import DamagedError
from gateway.dataplane.port import RemoteBuffer
from gateway.errors import BusyError, InternalError, TransportError
from gateway.rdma import fetch
from gateway.rdma.fetch import FetchedBody, send_object
from gateway.s3.integrity import Declared
from gateway.wire.extent import Extent, FileExtent

DATA = bytes(range(250)) * 4
ADDR = 5000


class Gate:
    """Holds moves until they are let go, by their place in the peer's buffer."""

    def __init__(self) -> None:
        self.held: dict[int, asyncio.Future[None]] = {}

    async def hold(self, place: int) -> None:
        self.held[place] = asyncio.get_running_loop().create_future()
        try:
            await self.held[place]
        finally:
            del self.held[place]

    async def under_way(self) -> list[int]:
        await settle()
        return sorted(self.held)

    def end(self, place: int, error: Exception | None = None) -> None:
        held = self.held[place]
        held.set_exception(error) if error else held.set_result(None)


class Recording:
    """A connection that reads what it is to send, and notes where it should go."""

    max_piece_bytes = 100

    def __init__(self, gate: Gate | None = None) -> None:
        self.sent: list[tuple[int, bytes, int | None]] = []
        self._gate = gate

    async def send(
        self, files: Sequence[FileExtent], to: RemoteBuffer, *, cookie: int | None, **_: Any
    ) -> None:
        data = b"".join(os.pread(one.fd, one.length_bytes, one.offset_bytes) for one in files)
        assert len(data) > fetch._INLINE_BYTES
        await self.send_bytes(data, to, cookie=cookie)

    async def send_bytes(
        self, data: bytes, to: RemoteBuffer, *, cookie: int | None, **_: Any
    ) -> None:
        assert len(data) == to.length_bytes
        if self._gate is not None:
            await self._gate.hold(to.addr - ADDR)
        self.sent.append((to.addr, data, cookie))


@pytest.mark.parametrize("with_files", [True, False])
@pytest.mark.parametrize(("first", "length"), [(0, 1000), (7, 600), (999, 1), (0, 256)])
async def test_send_object__any_extent__is_sent_once_and_in_place(
    monkeypatch: pytest.MonkeyPatch, with_files: bool, first: int, length: int
) -> None:
    monkeypatch.setattr(fetch, "WINDOW_BYTES", 256)
    monkeypatch.setattr(fetch, "_INLINE_BYTES", 150)
    fd = os.memfd_create("object")
    os.write(fd, DATA)

    async def read(offset: int, size: int) -> bytes:
        return DATA[offset : offset + size]

    async def verify(offset: int, size: int) -> None:
        assert 0 <= offset < offset + size <= len(DATA)

    reader: Any = SimpleNamespace(
        extents=lambda offset, size: (FileExtent(fd, offset, size),) if with_files else None,
        verify=verify,
        read=read,
    )
    connection: Any = Recording()
    await send_object(
        connection,
        reader,
        Extent(first, length),
        RemoteBuffer(ADDR, 1, length),
        owner="key",
        cookie=9,
        window_timeout_s=1.0,
    )
    os.close(fd)
    target = bytearray(length)
    for addr, data, _ in connection.sent:
        target[addr - ADDR : addr - ADDR + len(data)] = data
    assert target == DATA[first : first + length]
    assert sum(len(data) for _, data, _ in connection.sent) == length
    assert [cookie for _, _, cookie in connection.sent] == [None] * (len(connection.sent) - 1) + [9]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Sending(Gate):
    """`DATA` on its way in windows of 128, 256, 256, 256 and 104 bytes."""

    def __init__(self, fd: int, cookie: int | None = None) -> None:
        super().__init__()

        async def verify(offset: int, size: int) -> None: ...

        reader: Any = SimpleNamespace(
            extents=lambda offset, size: (FileExtent(fd, offset, size),), verify=verify
        )
        self.connection: Any = Recording(self)
        self.task = asyncio.create_task(
            send_object(
                self.connection,
                reader,
                Extent(0, len(DATA)),
                RemoteBuffer(ADDR, 1, len(DATA)),
                owner="key",
                cookie=cookie,
                window_timeout_s=1.0,
            )
        )


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(fetch, "WINDOW_BYTES", 256)
    monkeypatch.setattr(fetch, "_INLINE_BYTES", 100)
    fd = os.memfd_create("object")
    os.write(fd, DATA)
    yield fd
    os.close(fd)


async def test_send_object__several_windows__the_next_begins_before_one_ends(file: int) -> None:
    sending = Sending(file)
    assert await sending.under_way() == [0, 128]
    sending.end(0)
    assert await sending.under_way() == [128, 384]
    sending.end(384)  # the later one first: in no order among them
    assert await sending.under_way() == [128]
    sending.end(128)
    assert await sending.under_way() == [640, 896]
    sending.end(640)
    sending.end(896)
    await sending.task


async def test_send_object__with_a_cookie__its_window_waits_for_all_others(file: int) -> None:
    sending = Sending(file, cookie=9)
    assert await sending.under_way() == [0, 128]
    sending.end(0)
    assert await sending.under_way() == [128, 384]
    sending.end(128)
    assert await sending.under_way() == [384, 640]
    sending.end(640)
    assert await sending.under_way() == [384]
    sending.end(384)
    assert await sending.under_way() == [896]
    sending.end(896)
    await sending.task
    assert [cookie for _, _, cookie in sending.connection.sent] == [None] * 4 + [9]


@pytest.mark.parametrize("error", [DamagedError("a block"), BusyError("no slots")])
async def test_send_object__a_window_fails_at_our_end__what_is_under_way_ends_by_itself(
    file: int, error: Exception
) -> None:
    sending = Sending(file)
    await settle()
    sending.end(0, error)
    assert await sending.under_way() == [128]
    assert not sending.task.done()
    sending.end(128)
    with pytest.raises(type(error)):
        await sending.task


async def test_send_object__a_window_fails_on_the_wire__the_other_is_cut_short(file: int) -> None:
    sending = Sending(file)
    await settle()
    sending.end(0, TransportError())
    with pytest.raises(TransportError):
        await sending.task
    assert await sending.under_way() == []


async def test_send_object__cancelled__nothing_is_under_way_after_it(file: int) -> None:
    sending = Sending(file)
    await settle()
    sending.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending.task
    assert sending.held == {}


class Receiving(Gate):
    """`DATA` on its way into a file in windows of 256 bytes, the last of 232."""

    def __init__(self, staged: Any) -> None:
        super().__init__()
        self.inside = 0
        connection: Any = self
        source = RemoteBuffer(ADDR, 1, len(DATA))
        body = FetchedBody(connection, source, "key", Declared(None, {}), window_timeout_s=1.0)
        self.task = asyncio.create_task(body.pour(staged))

    async def fetch(self, source: RemoteBuffer, into: FileExtent, **_: Any) -> None:
        place = source.addr - ADDR
        assert (place, source.length_bytes) == (into.offset_bytes, into.length_bytes)
        self.inside += 1
        try:
            await self.hold(place)
        except asyncio.CancelledError:
            await settle()  # a thread is in the file until C says that it is not
            raise
        finally:
            self.inside -= 1
        os.pwrite(into.fd, DATA[place : place + into.length_bytes], place)


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_SHORTEST_WINDOW_BYTES", 256)
    monkeypatch.setattr(fetch, "_INLINE_BYTES", 256)  # else a window would begin on a page


@pytest.fixture
def staged() -> Iterator[Any]:
    fd = os.memfd_create("staged")
    told: list[int] = []
    yield SimpleNamespace(fileno=lambda: fd, written=told.append, told=told)
    os.close(fd)


@pytest.mark.usefixtures("short_windows")
async def test_pour__several_windows__two_move_at_once_and_all_are_hashed_in_order(
    staged: Any,
) -> None:
    receiving = Receiving(staged)
    assert await receiving.under_way() == [0, 256]
    receiving.end(256)  # its bytes are there, and hashed when those before them are
    assert await receiving.under_way() == [0]
    assert staged.told == []
    receiving.end(0)
    assert await receiving.under_way() == [512, 768]
    receiving.end(512)
    receiving.end(768)
    poured = await receiving.task
    assert (poured.md5, poured.size_bytes) == (hashlib.md5(DATA).digest(), len(DATA))
    assert staged.told == [256, 256, 256, len(DATA) - 768]


@pytest.mark.usefixtures("short_windows")
async def test_pour__a_window_fails_on_the_wire__the_other_is_cut_short(staged: Any) -> None:
    receiving = Receiving(staged)
    await settle()
    receiving.end(0, TransportError())
    with pytest.raises(TransportError):
        await receiving.task
    assert receiving.inside == 0


@pytest.mark.usefixtures("short_windows")
async def test_pour__no_slots_for_a_window__the_other_ends_by_itself(staged: Any) -> None:
    receiving = Receiving(staged)
    await settle()
    receiving.end(0, BusyError("no slots"))
    assert await receiving.under_way() == [256]
    assert not receiving.task.done()
    receiving.end(256)
    with pytest.raises(BusyError):
        await receiving.task


@pytest.mark.usefixtures("short_windows")
async def test_pour__what_came_is_not_taken__the_windows_under_way_are_cut_short(
    staged: Any,
) -> None:
    def refuse(_: int) -> None:
        raise InternalError("the disk is gone")

    staged.written = refuse
    receiving = Receiving(staged)
    await settle()
    receiving.end(0)
    assert await receiving.under_way() == [256, 512]
    receiving.end(256)  # the first one's hash is accounted for now
    with pytest.raises(InternalError) as caught:
        await receiving.task
    assert caught.value.cause == "the disk is gone"
    assert receiving.inside == 0


@pytest.mark.usefixtures("short_windows")
async def test_pour__cancelled__nothing_is_under_way_after_it(staged: Any) -> None:
    receiving = Receiving(staged)
    await settle()
    receiving.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving.task
    assert receiving.inside == 0
