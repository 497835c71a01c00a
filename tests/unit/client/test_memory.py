"""Buffers of every kind: numpy arrays, and what has the shape of a torch tensor."""

from __future__ import annotations

import numpy as np
import pytest
from fake_rc_gateway import Rig
from fake_tensor import FakeTensor

from gateway.client.memory import borrow


async def test_array__of_any_shape_and_type__is_filled_in_place(rig: Rig) -> None:
    rig.server.connections.on = True
    wanted = np.arange(1024, dtype=np.float64).reshape(32, 32)
    got = np.empty_like(wanted)
    async with rig.client(rdma="require") as client:
        await client.put_from("b", "k", wanted)
        await client.get_into("b", "k", got)
    assert (got == wanted).all()


@pytest.mark.parametrize("connections", [True, False])
async def test_tensor__there_and_back__is_the_same(rig: Rig, connections: bool) -> None:
    rig.server.connections.on = connections
    source = FakeTensor(np.arange(1024, dtype=np.uint16))
    target = FakeTensor(np.zeros(1024, dtype=np.uint16))
    async with rig.client() as client:
        for _ in range(3):
            await client.put_from("b", "k", source)
            await client.get_into("b", "k", target)
        assert (source.array == target.array).all()
        assert len(rig.fabric.registrations) == (2 if connections else 0)
        del source, target
        assert all(made.ended for made in rig.fabric.registrations)


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (np.zeros((8, 8))[:, ::2], "ascontiguousarray"),
        (FakeTensor(np.zeros((8, 8))[:, ::2]), r"contiguous\(\)"),
    ],
)
def test_borrow__memory_that_cannot_be_used__names_the_remedy(buffer: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        borrow(buffer, writable=False)  # type: ignore[arg-type]


def test_borrow__a_read_only_array__can_be_sent_and_not_filled() -> None:
    array = np.zeros(8)
    array.flags.writeable = False
    assert len(borrow(array, writable=False).view) == 64
    with pytest.raises(ValueError, match="read-only"):
        borrow(array, writable=True)


def test_borrow__an_empty_tensor__is_empty() -> None:
    assert len(borrow(FakeTensor(np.zeros(0)), writable=True).view) == 0
