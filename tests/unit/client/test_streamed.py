"""A PUT of bytes that come from somewhere, until they end."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import pytest
from fake_rc_gateway import Rig, error

from gateway.client import Client, S3Error, TransferPath

PART_BYTES = 1000


@pytest.fixture(params=["never", "require"])
def client(request: pytest.FixtureRequest, rig: Rig) -> Client:
    rig.server.connections.on = True
    limits = rig.tight(part_bytes=PART_BYTES, min_part_bytes=10, max_parts=9, concurrency=3)
    return rig.client(rdma=request.param, limits=limits)


def source(data: bytes, most_bytes: int = 333) -> Callable[[memoryview], Awaitable[int]]:
    """As a pipe gives it: so much at once, and at last nothing."""
    left = memoryview(data)
    ended = False

    async def read(piece: memoryview) -> int:
        nonlocal left, ended
        assert not ended, "asked again after the end"
        count = min(len(piece), most_bytes, len(left))
        piece[:count] = left[:count]
        left, ended = left[count:], count == 0
        return count

    return read


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 3000, 8765])
async def test_stream__of_any_length__is_the_object(client: Client, rig: Rig, length: int) -> None:
    data = os.urandom(length)
    told: list[tuple[int, int]] = []
    async with client:
        done = await client.put_stream(
            "b", "k", source(data), content_type="text/x", progress=lambda *row: told.append(row)
        )
    assert rig.server.objects["/b/k"] == data
    assert done.bytes == length == sum(moved for moved, _ in told)
    parts = rig.server.calls("PUT /b/k?partNumber=")
    assert len(parts) == (0 if length < PART_BYTES else -(-length // PART_BYTES))
    described = rig.server.calls("POST /b/k?uploads=" if parts else "PUT /b/k")[0]
    assert described.headers["content-type"] == "text/x"


async def test_stream__of_nothing__is_an_empty_object(client: Client, rig: Rig) -> None:
    async with client:
        done = await client.put_stream("b", "k", source(b""))
    assert (rig.server.objects["/b/k"], done.bytes) == (b"", 0)


async def test_stream__more_parts_than_s3_takes__ends_and_leaves_nothing(
    client: Client, rig: Rig
) -> None:
    async with client:
        with pytest.raises(ValueError, match="more than 9 parts"):
            await client.put_stream("b", "k", source(bytes(10 * PART_BYTES)))
    assert rig.server.calls("DELETE /b/k?uploadId=")
    assert rig.server.objects == {}


async def test_stream__a_part_is_refused__leaves_nothing(client: Client, rig: Rig) -> None:
    rig.server.hooks.append(
        lambda seen: error(403, "AccessDenied", "no") if "partNumber=2" in seen.raw_path else None
    )
    async with client:
        with pytest.raises(S3Error, match="AccessDenied"):
            await client.put_stream("b", "k", source(bytes(5000)))
    assert rig.server.calls("DELETE /b/k?uploadId=")


async def test_stream__the_source_fails__leaves_nothing(client: Client, rig: Rig) -> None:
    good = source(bytes(5000))
    calls = 0

    async def read(piece: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls > 9:
            raise OSError(5, "Input/output error")
        return await good(piece)

    async with client:
        with pytest.raises(OSError, match="Input/output"):
            await client.put_stream("b", "k", read)
    assert rig.server.calls("DELETE /b/k?uploadId=")


async def test_stream__no_session_carries_a_part__goes_by_http(rig: Rig) -> None:
    rig.server.max_transfer_bytes = 500
    data = os.urandom(2500)
    async with rig.client(limits=rig.tight(part_bytes=PART_BYTES, concurrency=2)) as client:
        done = await client.put_stream("b", "k", source(data))
    assert (rig.server.objects["/b/k"], done.path) == (data, TransferPath.HTTP)
