"""What is moved out of a storage's files is verified before anybody is told of success."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import InternalError, TransportError
from gateway.rdma.movement import CHUNK_BYTES, verified
from gateway.wire.extent import Extent

SHORT, LONG = Extent(3, CHUNK_BYTES), Extent(0, CHUNK_BYTES + 1)


class Reader:
    """Verifies when it is let, and says what became of it."""

    def __init__(self, *, rotten: bool = False) -> None:
        self.go_on = asyncio.Event()
        self.asked: list[tuple[int, int]] = []
        self.ended = False
        self._rotten = rotten

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        self.asked.append((offset_bytes, length_bytes))
        try:
            await self.go_on.wait()
            if self._rotten:
                raise InternalError("rotten")
        finally:
            self.ended = True


async def move(reader: Any, extent: Extent, error: Exception | None = None) -> None:
    async with verified(reader, extent):
        await asyncio.sleep(0)
        if error is not None:
            raise error


@pytest.mark.parametrize("extent", [SHORT, LONG])
async def test_verified__sound__ends_after_the_verdict(extent: Extent) -> None:
    reader = Reader()
    moving = asyncio.create_task(move(reader, extent))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not moving.done()
    reader.go_on.set()
    await moving
    assert reader.asked == [(extent.offset_bytes, extent.length_bytes)]


@pytest.mark.parametrize("extent", [SHORT, LONG])
async def test_verified__rotten__an_error_though_all_was_moved(extent: Extent) -> None:
    reader = Reader(rotten=True)
    reader.go_on.set()
    with pytest.raises(InternalError) as caught:
        await move(reader, extent)
    assert caught.value.cause == "rotten"


async def test_verified__the_move_fails__its_error_when_the_verdict_is_over() -> None:
    reader = Reader(rotten=True)
    with pytest.raises(TransportError):
        await move(reader, LONG, TransportError())
    assert reader.ended


async def test_verified__cancelled__when_the_verdict_is_over() -> None:
    reader = Reader()
    moving = asyncio.create_task(move(reader, LONG))
    for _ in range(5):
        await asyncio.sleep(0)
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    assert reader.ended
