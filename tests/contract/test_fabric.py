"""What every fabric does, whatever carries its bytes: here the soft one, two of them on this host.

The same lanes over a device are in tests/rdma/test_lanes.py, against the kernel's in
tests/rdma/test_soft_interop.py.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator

import pytest

from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import Lane, Need, QpAddress, RemoteBuffer
from gateway.errors import ClientError, S3Code
from gateway.wire.extent import FileExtent

DEADLINE_S = 20.0
COOKIE = 0xC00C1E03
CONFIG = RdmaConfig(
    fabric="soft",
    lanes=(LaneClass(2, MIB), LaneClass(1, 16 * MIB)),
    quarantine_s=0.0,
    max_sessions=8,
)
SIZES = pytest.mark.parametrize("size", [1, 4 * KIB, MIB + 1, 16 * MIB])


@pytest.fixture
async def server() -> AsyncIterator[EngineFabric]:
    fabric = open_fabric(CONFIG, arena=True)
    yield fabric
    await fabric.close()


@pytest.fixture
async def client() -> AsyncIterator[EngineFabric]:
    fabric = open_fabric(CONFIG, arena=False)
    yield fabric
    await fabric.close()


def pair(ours: Lane, theirs: Lane) -> None:
    ours.connect(theirs.local)
    theirs.connect(ours.local)


@SIZES
async def test_send_extents__any_size__arrives_with_its_cookie(
    server: EngineFabric, client: EngineFabric, size: int
) -> None:
    data, target = secrets.token_bytes(size), bytearray(size)
    fd = os.memfd_create("object")
    os.write(fd, data)
    ours, theirs = server.lease(Need.SEND, size), client.attach(target, remote_write=True)
    theirs.post_receive()
    pair(ours, theirs)
    await ours.send_extents([FileExtent(fd, 0, size)], theirs.buffer, COOKIE, DEADLINE_S)
    await theirs.received(COOKIE, None, DEADLINE_S)
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)
    assert target == data


@SIZES
async def test_write__any_size__arrives_as_one_message(
    server: EngineFabric, client: EngineFabric, size: int
) -> None:
    data = secrets.token_bytes(size)
    ours, theirs = server.lease(Need.RECEIVE, size), client.attach(data, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    await theirs.write(size, ours.buffer, COOKIE, DEADLINE_S)
    assert await ours.received(COOKIE, size, DEADLINE_S) == size
    assert ours.memory[:size] == data
    await asyncio.gather(ours.close(), theirs.close())


@SIZES
async def test_read__any_size__fetches_the_peers_bytes(
    server: EngineFabric, client: EngineFabric, size: int
) -> None:
    data = secrets.token_bytes(size)
    ours = server.lease(Need.RECEIVE, size)
    theirs = client.attach(data, remote_write=False, remote_read=True)
    pair(ours, theirs)
    await ours.read(size, theirs.buffer, DEADLINE_S)
    assert ours.memory[:size] == data
    await asyncio.gather(ours.close(), theirs.close())


async def test_write__wrong_rkey__is_the_remote_access_error_of_hardware(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours, theirs = server.lease(Need.RECEIVE, 100), client.attach(b"x" * 100, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    wrong = RemoteBuffer(ours.buffer.addr, ours.buffer.rkey ^ 1, 100)
    with pytest.raises(CompletionError) as failure:
        await theirs.write(100, wrong, COOKIE, DEADLINE_S)
    assert failure.value.wc_name == "REM_ACCESS_ERR"
    await asyncio.gather(ours.close(), theirs.close())


async def test_write__peer_is_gone__is_retry_exceeded(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours, theirs = server.lease(Need.RECEIVE, 100), client.attach(b"x" * 100, remote_write=False)
    pair(ours, theirs)
    buffer = ours.buffer
    await ours.close()
    with pytest.raises(CompletionError) as failure:
        await theirs.write(100, buffer, COOKIE, DEADLINE_S)
    assert failure.value.wc_name == "RETRY_EXC_ERR"
    await theirs.close()


async def test_connect__peer_on_another_host__is_refused_as_not_possible(
    server: EngineFabric,
) -> None:
    lane = server.lease(Need.RECEIVE, 100)
    elsewhere = QpAddress(5, 6, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1]), 0)
    with pytest.raises(ClientError) as refusal:
        lane.connect(elsewhere)
    assert refusal.value.code is S3Code.NOT_IMPLEMENTED
    await lane.close()


async def test_lanes__used_again_and_again__stay_as_many(
    server: EngineFabric, client: EngineFabric
) -> None:
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        ours, theirs = server.lease(Need.RECEIVE, 100), client.attach(b"y" * 9, remote_write=False)
        ours.post_receive()
        pair(ours, theirs)
        await theirs.write(9, ours.buffer, COOKIE, DEADLINE_S)
        await ours.received(COOKIE, 9, DEADLINE_S)
        await asyncio.gather(ours.close(), theirs.close())
    assert server.idle_lanes == 3
    assert len(os.listdir("/proc/self/fd")) == files
