"""Objects over a connection: the pieces they are moved in, with files and without."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.dataplane.port import RemoteBuffer
from gateway.rdma import fetch
from gateway.rdma.fetch import send_object
from gateway.wire.extent import Extent, FileExtent

DATA = bytes(range(250)) * 4


class Recording:
    """A connection that reads what it is to send, and notes where it should go."""

    max_piece_bytes = 100

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes, int | None]] = []

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
        RemoteBuffer(5000, 1, length),
        owner="key",
        cookie=9,
        window_timeout_s=1.0,
    )
    os.close(fd)
    target = bytearray(length)
    for addr, data, _ in connection.sent:
        target[addr - 5000 : addr - 5000 + len(data)] = data
    assert target == DATA[first : first + length]
    assert sum(len(data) for _, data, _ in connection.sent) == length
    assert [cookie for _, _, cookie in connection.sent] == [None] * (len(connection.sent) - 1) + [9]
