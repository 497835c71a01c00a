"""The soft fabric against the kernel's Soft-RoCE: both directions, both roles, on a real IP path.

The soft side lives in a network namespace of its own, because rxe binds UDP 4791 of the first one
for itself. A socket stays in the namespace of the thread that made it, so one process has both.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.port import Lane, Need
from gateway.wire.extent import FileExtent

pytestmark = pytest.mark.rdma

DEADLINE_S = 20.0
COOKIE = 0xC00C1E02
NAMESPACE = "soft"
DEVICE = "rxe7"
KERNEL, SOFT = "10.77.0.1", "10.77.0.2"
CONFIG = RdmaConfig(lanes=(LaneClass(1, 64 * MIB),), quarantine_s=0.0, max_sessions=8)
SIZES = [1, 3, 1023, 4 * KIB + 1, MIB + 1, 64 * MIB]


def _run(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True, capture_output=True)


@pytest.fixture(scope="module", autouse=True)
def network() -> Iterator[None]:
    """A veth pair: rxe on our end, the namespace of the soft fabric at the other."""
    if os.geteuid() != 0 or not Path("/sys/module/rdma_rxe").exists():
        pytest.skip("needs root and the kernel's Soft-RoCE, as in the rig's VM")
    _run(
        f"ip netns add {NAMESPACE}",
        f"ip link add sv0 mtu 4200 type veth peer name sv1 mtu 4200 netns {NAMESPACE}",
        f"ip address add {KERNEL}/24 dev sv0",
        "ip link set sv0 up",
        f"ip -n {NAMESPACE} address add {SOFT}/24 dev sv1",
        f"ip -n {NAMESPACE} link set lo up",
        f"ip -n {NAMESPACE} link set sv1 up",
        f"rdma link add {DEVICE} type rxe netdev sv0",
    )
    yield
    _run(f"rdma link delete {DEVICE}", f"ip netns delete {NAMESPACE}")


@contextmanager
def in_namespace() -> Iterator[None]:
    """What this thread opens meanwhile belongs to the soft side (setns(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{NAMESPACE}") as other:
        assert libc.setns(other.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(home.fileno(), 0) == 0


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


def pair(ours: Lane, theirs: Lane) -> None:
    ours.connect(theirs.local)
    theirs.connect(ours.local)


async def close(*parts: EngineFabric | Lane) -> None:
    for part in parts:
        await part.close()


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
        data, target = secrets.token_bytes(size), bytearray(size)
        fd = os.memfd_create("object")
        os.write(fd, data)
        ours, theirs = gateway.lease(Need.SEND, size), client.attach(target, remote_write=True)
        theirs.post_receive()
        pair(ours, theirs)
        extents = [FileExtent(fd, 0, size)]
        await ours.send_extents(extents, theirs.buffer, COOKIE, DEADLINE_S)
        await theirs.received(COOKIE, None, DEADLINE_S)
        await close(ours, theirs)
        os.close(fd)
        assert target == data


@ROLES
@MTUS
async def test_write__kernel_and_soft__one_message_arrives(
    gateway: EngineFabric, client: EngineFabric
) -> None:
    for size in SIZES:
        data = secrets.token_bytes(size)
        ours = gateway.lease(Need.RECEIVE, size)
        theirs = client.attach(data, remote_write=False)
        ours.post_receive()
        pair(ours, theirs)
        await theirs.write(size, ours.buffer, COOKIE, DEADLINE_S)
        assert await ours.received(COOKIE, size, DEADLINE_S) == size
        assert ours.memory[:size] == data
        await close(ours, theirs)


@ROLES
@MTUS
async def test_read__kernel_and_soft__bytes_arrive(
    gateway: EngineFabric, client: EngineFabric
) -> None:
    for size in SIZES:
        data = secrets.token_bytes(size)
        ours = gateway.lease(Need.RECEIVE, size)
        theirs = client.attach(data, remote_write=False, remote_read=True)
        pair(ours, theirs)
        await ours.read(size, theirs.buffer, DEADLINE_S)
        assert ours.memory[:size] == data
        await close(ours, theirs)
