"""How often a buffer is registered, and when that ends: seen from the fake fabric's counts."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import numpy as np
import pytest
from fake_connections import FakeRegistration
from fake_rc_gateway import Rig

from gateway.client import TransferPath
from gateway.config import MIB

SIZE = 4096


@pytest.fixture
def connected(rig: Rig) -> Rig:
    rig.server.connections.on = True
    rig.server.objects["/b/k"] = bytes(range(256)) * 16
    return rig


def live(rig: Rig) -> list[FakeRegistration]:
    return [made for made in rig.fabric.registrations if not made.ended]


async def test_array__used_again__is_registered_once_for_each_access(connected: Rig) -> None:
    array = np.zeros(SIZE, np.uint8)
    async with connected.client(rdma="require") as client:
        for _ in range(10):
            await client.get_into("b", "k", array)
            await client.put_from("b", "copy", array)
    assert array.tobytes() == connected.server.objects["/b/k"]
    assert len(connected.fabric.registrations) == 2


async def test_array__dies__its_registration_ends_with_it(connected: Rig) -> None:
    array = np.zeros(SIZE, np.uint8)
    async with connected.client(rdma="require") as client:
        await client.get_into("b", "k", array)
        assert len(live(connected)) == 1
        del array
        gc.collect()
        assert live(connected) == []
        other = np.zeros(SIZE, np.uint8)  # as like as not at the same address
        await client.get_into("b", "k", other)
        assert len(live(connected)) == 1
        await client.get_into("b", "k", bytearray(SIZE))


async def test_array__registered__cannot_be_resized_away_from_its_memory(connected: Rig) -> None:
    array = np.zeros(SIZE, np.uint8)
    async with connected.client() as client:
        await client.get_into("b", "k", array)
        with pytest.raises(ValueError, match="resize"):
            array.resize(2 * SIZE)


async def test_bytearray__after_each_transfer__may_be_resized(connected: Rig) -> None:
    buffer = bytearray(SIZE)
    async with connected.client() as client:
        await client.get_into("b", "k", buffer)
        await client.get_into("b", "k", buffer)
        assert live(connected) == []
        buffer.extend(b"more")
    assert len(connected.fabric.registrations) == 2


async def test_registered__a_bytearray__is_registered_once_for_all_its_parts(
    connected: Rig,
) -> None:
    buffer = bytearray(3 * SIZE)
    async with connected.client(rdma="require") as client:
        async with client.registered(buffer) as view:
            for start in range(0, 3 * SIZE, SIZE):
                await client.get_into("b", "k", view[start : start + SIZE])
            (made,) = live(connected)
            assert made.buffer.length_bytes == 3 * SIZE
        assert live(connected) == []
    assert buffer == connected.server.objects["/b/k"] * 3


async def test_parts__of_one_transfer__share_one_registration(connected: Rig) -> None:
    connected.server.objects["/b/k"] = data = bytes(range(256)) * 4096
    limits = connected.tight(part_bytes=100_000)
    async with connected.client(rdma="require", limits=limits) as client:
        done = await client.get_into("b", "k", buffer := bytearray(MIB))
    assert (buffer, done.path) == (data, TransferPath.RDMA)
    assert len(connected.server.calls("GET")) == 11
    assert len(connected.fabric.registrations) == 1


async def test_file__of_many_parts__has_its_memory_registered_once(
    connected: Rig, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(bytes(MIB))
    limits = connected.tight(part_bytes=100_000, concurrency=3)
    async with connected.client(rdma="require", limits=limits) as client:
        await client.put_file("b", "file", tmp_path / "in")
        await client.get_file("b", "file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == bytes(MIB)
    assert [made.buffer.length_bytes for made in connected.fabric.registrations] == [300_000] * 2


async def test_buffer__used_by_several_at_once__is_registered_once(connected: Rig) -> None:
    array = np.zeros(SIZE, np.uint8)
    async with connected.client(rdma="require") as client:
        await asyncio.gather(*(client.put_from("b", str(n), array) for n in range(8)))
    assert len(connected.fabric.registrations) == 1


@pytest.mark.parametrize("limit", [{"max_registrations": 2}, {"max_registered_bytes": 2 * SIZE}])
async def test_limits__the_longest_unused_goes_first(connected: Rig, limit: dict[str, int]) -> None:
    arrays = [np.zeros(SIZE, np.uint8) for _ in range(3)]
    async with connected.client(limits=connected.tight(**limit)) as client:
        for number in (0, 1, 0, 2):
            await client.get_into("b", "k", arrays[number])
        assert {made.buffer.addr for made in live(connected)} == {
            arrays[0].ctypes.data,
            arrays[2].ctypes.data,
        }


async def test_link__broken__its_successor_has_the_same_registration(connected: Rig) -> None:
    array = np.zeros(SIZE, np.uint8)
    async with connected.client(rdma="require") as client:
        await client.get_into("b", "k", array)
        connected.server.connections.forget()
        await client.get_into("b", "k", array)
    assert len(connected.fabric.links) == 2
    assert len(connected.fabric.registrations) == 1


async def test_array__outlives_the_client__dies_in_peace(connected: Rig) -> None:
    array = np.zeros(SIZE, np.uint8)
    async with connected.client() as client:
        await client.get_into("b", "k", array)
    del array
    gc.collect()
    assert live(connected) == []
