"""Bytes over every fabric: each operation, each size, with and without an immediate.

The fabrics of this host are the fixture `wire`; tests/rdma has them against the kernel's.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from fabric_wires import (
    COOKIE,
    DEADLINE_S,
    LANES,
    Wire,
    attached_pair,
    file_of,
    leased_pair,
    pattern,
    readable_pair,
    same,
    sums_of,
)

from gateway.config import KIB, MIB, LaneClass
from gateway.dataplane.engine import EngineFabric
from gateway.dataplane.failures import DamagedError
from gateway.wire.extent import FileExtent

SIZES = pytest.mark.parametrize("size", [1, 4 * KIB - 1, 4 * KIB, MIB + 1, 64 * MIB])


@pytest.fixture
def lanes(request: pytest.FixtureRequest) -> tuple[LaneClass, ...]:
    """One lane of the test's `size` where that is long; pinning 64 MiB takes its time."""
    size: int = request.node.callspec.params.get("size", 0)
    return (LaneClass(1, size),) if size > MIB else LANES


@SIZES
async def test_send_extents__any_size__arrives_with_its_cookie(
    server: EngineFabric, client: Any, size: int
) -> None:
    data = pattern(size)
    fd = file_of(data)
    ours, theirs = attached_pair(server, client, size)
    theirs.post_receive()
    sent = await ours.send_extents([FileExtent(fd, 0, size)], theirs.buffer, COOKIE, DEADLINE_S)
    await theirs.received(COOKIE, None, DEADLINE_S)
    assert sent == size
    assert same(theirs.memory, data)
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)


@SIZES
async def test_write__any_size__arrives_as_one_message(
    server: EngineFabric, client: Any, size: int
) -> None:
    data = pattern(size)
    ours, theirs = leased_pair(server, client, data)
    await theirs.write(size, ours.buffer, COOKIE, DEADLINE_S)
    assert await ours.received(COOKIE, size, DEADLINE_S) == size
    assert same(ours.memory[:size], data)
    await asyncio.gather(ours.close(), theirs.close())


@SIZES
async def test_read__any_size__fetches_the_peers_bytes(
    server: EngineFabric, client: Any, size: int
) -> None:
    data = pattern(size)
    ours, theirs = readable_pair(server, client, data)
    await ours.read(size, theirs.buffer, DEADLINE_S)
    assert same(ours.memory[:size], data)
    await asyncio.gather(ours.close(), theirs.close())


async def test_send_extents__several_files_and_no_cookie__arrive_in_order(
    server: EngineFabric, client: Any
) -> None:
    parts = [pattern(n) for n in (1, 300 * KIB, 17, MIB)]
    files = [file_of(b"head" + part + b"tail") for part in parts]
    ours, theirs = attached_pair(server, client, sum(map(len, parts)))
    extents = [FileExtent(fd, 4, len(part)) for fd, part in zip(files, parts, strict=True)]
    sent = await ours.send_extents(extents, theirs.buffer, None, DEADLINE_S)
    assert sent == len(theirs.memory)
    assert theirs.memory == b"".join(parts)
    await asyncio.gather(ours.close(), theirs.close())
    for fd in files:
        os.close(fd)


async def test_send_extents__files_with_sums__what_is_damaged_is_not_sent(
    server: EngineFabric, client: Any
) -> None:
    data, size = pattern(MIB + 1), MIB + 1
    fd = file_of(data + sums_of(data))
    ours, theirs = attached_pair(server, client, size)
    assert await ours.send_extents(
        [FileExtent(fd, 0, size, summed_bytes=size)], theirs.buffer, None, DEADLINE_S
    )
    assert same(theirs.memory, data)
    await asyncio.gather(ours.close(), theirs.close())
    os.pwrite(fd, bytes([data[MIB] ^ 1]), MIB)  # the last block: a byte
    ours, theirs = attached_pair(server, client, 1)
    with pytest.raises(DamagedError):
        await ours.send_extents(
            [FileExtent(fd, MIB, 1, summed_bytes=size)], theirs.buffer, None, DEADLINE_S
        )
    assert same(theirs.memory, b"\0")
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)


async def test_write__part_of_the_buffer__leaves_the_rest_alone(
    server: EngineFabric, client: Any
) -> None:
    data = pattern(10_000)
    ours, theirs = leased_pair(server, client, data)
    ours.memory[:10_000] = bytes(10_000)
    await theirs.write(4_097, ours.buffer, COOKIE, DEADLINE_S)
    await ours.received(COOKIE, 4_097, DEADLINE_S)
    assert ours.memory[:10_000] == data[:4_097] + bytes(10_000 - 4_097)
    await asyncio.gather(ours.close(), theirs.close())


async def test_send_extents__receive_posted_late__the_rnr_retry_carries_it(
    server: EngineFabric, client: Any
) -> None:
    fd = file_of(pattern(9000))
    ours, theirs = attached_pair(server, client, 9000)
    extents = [FileExtent(fd, 0, 9000)]
    sending = asyncio.ensure_future(ours.send_extents(extents, theirs.buffer, COOKIE, DEADLINE_S))
    done, _ = await asyncio.wait({sending}, timeout=0.2)
    assert not done
    theirs.post_receive()
    await theirs.received(COOKIE, None, DEADLINE_S)
    assert await sending == 9000
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)


async def test_receive__with_an_sge__same_as_without(wire: Wire, client: Any) -> None:
    server = wire.open_server(LANES, receive_sge=True)
    data = pattern(50_000)
    ours, theirs = leased_pair(server, client, data)
    await theirs.write(50_000, ours.buffer, COOKIE, DEADLINE_S)
    assert await ours.received(COOKIE, 50_000, DEADLINE_S) == 50_000
    assert ours.memory[:50_000] == data
    await theirs.close()
    await server.close()


async def test_lanes__four_at_once__no_byte_goes_astray(server: EngineFabric, client: Any) -> None:
    async def put(cookie: int) -> bool:
        data = bytes([cookie]) * MIB
        ours, theirs = leased_pair(server, client, data)
        await theirs.write(MIB, ours.buffer, cookie, DEADLINE_S)
        await ours.received(cookie, MIB, DEADLINE_S)
        same = ours.memory[:MIB] == data
        await asyncio.gather(ours.close(), theirs.close())
        return same

    assert all(await asyncio.gather(*(put(cookie) for cookie in range(1, 5))))


async def test_store__what_was_received__is_in_the_file(server: EngineFabric, client: Any) -> None:
    data = pattern(100_001)
    ours, theirs = leased_pair(server, client, data)
    await theirs.write(len(data), ours.buffer, COOKIE, DEADLINE_S)
    await ours.received(COOKIE, len(data), DEADLINE_S)
    fd = os.memfd_create("stored")
    await ours.store(fd, 5, len(data))
    assert os.pread(fd, len(data) + 1, 5) == data
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)
