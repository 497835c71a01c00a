"""What was damaged on its way out of a storage's files is told by its name."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dataplane.failures import DamagedError
from gateway.errors import InternalError, TransportError
from gateway.rdma.movement import named
from gateway.wire.extent import Extent

EXTENT = Extent(3, 100)


class Reader:
    """Verifies as told, and notes what it was asked."""

    def __init__(self, *, rotten: bool) -> None:
        self.asked: list[tuple[int, int]] = []
        self._rotten = rotten

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        self.asked.append((offset_bytes, length_bytes))
        if self._rotten:
            raise InternalError("this file is damaged")


async def move(reader: Any, error: Exception | None) -> None:
    async with named(reader, EXTENT):
        if error is not None:
            raise error


async def test_named__damaged__the_storage_says_which_file() -> None:
    reader = Reader(rotten=True)
    with pytest.raises(InternalError) as caught:
        await move(reader, DamagedError("a block"))
    assert caught.value.cause == "this file is damaged"
    assert reader.asked == [(EXTENT.offset_bytes, EXTENT.length_bytes)]


async def test_named__damaged_only_once__still_an_error() -> None:
    with pytest.raises(DamagedError):
        await move(Reader(rotten=False), DamagedError("a block"))


async def test_named__all_is_well__nothing_is_looked_into() -> None:
    reader = Reader(rotten=True)
    await move(reader, None)
    assert not reader.asked


@pytest.mark.parametrize("error", [TransportError(), InternalError("the disk")])
async def test_named__another_failure__stays_what_it_is(error: Exception) -> None:
    reader = Reader(rotten=True)
    with pytest.raises(type(error)) as caught:
        await move(reader, error)
    assert caught.value is error
    assert not reader.asked
