"""The soft fabric against the kernel's Soft-RoCE: both directions, both roles, on a real IP path.

One process has both sides: see tests/support/soft_namespace.py.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from fabric_wires import (
    COOKIE,
    DEADLINE_S,
    attached_pair,
    file_of,
    leased_pair,
    pattern,
    readable_pair,
    same,
)
from soft_namespace import DEVICE, SOFT, in_namespace

from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.wire.extent import FileExtent

pytestmark = [pytest.mark.rdma, pytest.mark.usefixtures("joined_namespaces")]

CONFIG = RdmaConfig(lanes=(LaneClass(1, 64 * MIB),), quarantine_s=0.0, max_sessions=8)
SIZES = [1, 3, 1023, 4 * KIB + 1, MIB + 1, 64 * MIB]


def open_kernel(mtu_bytes: int, *, arena: bool) -> EngineFabric:
    return open_fabric(
        replace(CONFIG, fabric="verbs", device=DEVICE, mtu_cap_bytes=mtu_bytes),
        arena=arena,
    )


def open_soft(mtu_bytes: int, *, arena: bool) -> EngineFabric:
    config = replace(CONFIG, fabric="soft", soft_address=SOFT, mtu_cap_bytes=mtu_bytes)
    with in_namespace():
        return open_fabric(config, arena=arena)


ROLES = pytest.mark.parametrize(
    ("gateway", "client"),
    [(open_kernel, open_soft), (open_soft, open_kernel)],
    ids=["kernel-gateway", "soft-gateway"],
    indirect=True,
)
MTUS = pytest.mark.parametrize("mtu_bytes", [1024, 4096])


@pytest.fixture
async def gateway(request: pytest.FixtureRequest, mtu_bytes: int) -> AsyncIterator[EngineFabric]:
    fabric: EngineFabric = request.param(mtu_bytes, arena=True)
    yield fabric
    await fabric.close()


@pytest.fixture
async def client(request: pytest.FixtureRequest, mtu_bytes: int) -> AsyncIterator[EngineFabric]:
    fabric: EngineFabric = request.param(mtu_bytes, arena=False)
    yield fabric
    await fabric.close()


@ROLES
@MTUS
async def test_send__kernel_and_soft__bytes_arrive(
    gateway: EngineFabric, client: EngineFabric
) -> None:
    for size in SIZES:
        data = pattern(size)
        fd = file_of(data)
        ours, theirs = attached_pair(gateway, client, size)
        theirs.post_receive()
        extents = [FileExtent(fd, 0, size)]
        await ours.send_extents(extents, theirs.buffer, COOKIE, DEADLINE_S)
        await theirs.received(COOKIE, None, DEADLINE_S)
        assert same(theirs.memory, data)
        await asyncio.gather(ours.close(), theirs.close())
        os.close(fd)


@ROLES
@MTUS
async def test_write__kernel_and_soft__one_message_arrives(
    gateway: EngineFabric, client: EngineFabric
) -> None:
    for size in SIZES:
        data = pattern(size)
        ours, theirs = leased_pair(gateway, client, data)
        await theirs.write(size, ours.buffer, COOKIE, DEADLINE_S)
        assert await ours.received(COOKIE, size, DEADLINE_S) == size
        assert same(ours.memory[:size], data)
        await asyncio.gather(ours.close(), theirs.close())


@ROLES
@MTUS
async def test_read__kernel_and_soft__bytes_arrive(
    gateway: EngineFabric, client: EngineFabric
) -> None:
    for size in SIZES:
        data = pattern(size)
        ours, theirs = readable_pair(gateway, client, data)
        await ours.read(size, theirs.buffer, DEADLINE_S)
        assert same(ours.memory[:size], data)
        await asyncio.gather(ours.close(), theirs.close())
