"""Many transfers: in order, bounded, and each failure its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from botocore.credentials import Credentials
from fake_rc_gateway import Rig

from gateway.client import S3Error, SyncClient, TransferPath


async def test_put_many_and_get_many__results__are_in_order(rig: Rig) -> None:
    rig.server.connections.on = True
    data = {f"k{number}": bytes([number]) * (number + 1) for number in range(40)}
    async with rig.client(rdma="require") as client:
        put = await client.put_many(data.items(), bucket="b")
        buffers = [bytearray(len(text)) for text in data.values()]
        got = await client.get_many(zip(["b"] * 40, data, buffers, strict=True))
    assert [one.key for one in put] == [one.key for one in got] == list(data)
    assert buffers == list(data.values())
    assert {one.unwrap().path for one in got} == {TransferPath.RDMA}
    assert len(rig.fabric.links) == 1


async def test_get_many__one_fails__the_others_are_done(rig: Rig) -> None:
    rig.server.objects |= {"/b/1": b"one", "/b/3": b"three"}
    wanted = [("1", bytearray(3)), ("2", bytearray(3)), ("3", bytearray(4)), ("3", bytearray(5))]
    async with rig.client(rdma="never") as client:
        got = await client.get_many(wanted, bucket="b")
    assert [one.transfer is not None for one in got] == [True, False, False, True]
    assert isinstance(got[1].error, S3Error)
    assert "4 bytes and 5" in str(got[2].error)
    with pytest.raises(S3Error, match="NotFound"):
        got[1].unwrap()


async def test_put_many__items__are_taken_as_there_is_room(rig: Rig) -> None:
    taken: list[int] = []

    def items() -> Iterator[tuple[str, bytes]]:
        for number in range(9):
            # Those that were taken and are not yet stored: never more than the bound.
            assert number - len(rig.server.objects) <= 2
            taken.append(number)
            yield str(number), b"x"

    async with rig.client(rdma="never") as client:
        done = await client.put_many(items(), bucket="b", concurrency=2)
    assert len(done) == len(taken) == 9


async def test_sync__many_and_registered__are_there_too(rig: Rig) -> None:
    def program() -> bytes:
        options = {"credentials": Credentials("A", "s"), "region_name": "r"}
        with SyncClient(endpoint_url=rig.url, rdma="never", **options) as client:
            client.put_many([("b", "k", b"hello")])
            with client.registered(bytearray(5)) as view:
                client.get_many([("b", "k", view)])
                return bytes(view)

    assert await asyncio.to_thread(program) == b"hello"
