"""What only a device has: pinned memory, a port that goes down, a table of GIDs.

All that every fabric does is in tests/contract/fabric, which runs on these devices too.
"""

from __future__ import annotations

import asyncio
import ctypes
import resource
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fabric_wires import COOKIE, DEADLINE_S, LANES, Wire, works

from gateway.config import KIB, MIB
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.port import FabricUnavailable, Need
from gateway.errors import BusyError, TransportError

pytestmark = pytest.mark.rdma

VERBS = Wire("verbs")


@pytest.fixture
async def server() -> AsyncIterator[EngineFabric]:
    fabric = VERBS.open_server(LANES)
    yield fabric
    await fabric.close()


@pytest.fixture
async def client() -> AsyncIterator[EngineFabric]:
    fabric = open_fabric(VERBS.client_config, arena=False)
    yield fabric
    await fabric.close()


@contextmanager
def memlock_of(limit_bytes: int) -> Iterator[None]:
    """RLIMIT_MEMLOCK lowered, and CAP_IPC_LOCK, which overrides it, dropped meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    caps = (ctypes.c_uint32 * 6)()
    assert libc.capget(head, caps) == 0
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    lowered = (ctypes.c_uint32 * 6)(*caps)
    lowered[0] &= ~(1 << 14)
    assert libc.capset(head, lowered) == 0
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
        assert libc.capset(head, caps) == 0


async def test_open_fabric__memlock_too_small__says_what_to_raise(client: EngineFabric) -> None:
    with memlock_of(64 * KIB):
        with pytest.raises(FabricUnavailable, match="LimitMEMLOCK=infinity"):
            VERBS.open_server(LANES)
        with pytest.raises(TransportError, match="ulimit -l"):
            client.attach(bytearray(MIB), remote_write=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "mlx5_77"}, "no RDMA device 'mlx5_77'"),
        ({"port": 3}, "no port 3"),
        ({"gid_index": 200}, "no usable GID"),
        ({"max_sessions": 4096}, r"no completion queue for as many.*rdma\.connections"),
    ],
)
async def test_open_fabric__wrong_setting__names_it(change: dict[str, object], reason: str) -> None:
    with pytest.raises(FabricUnavailable, match=reason):
        open_fabric(replace(VERBS.client_config, **change), arena=False)  # type: ignore[arg-type]


async def test_port__goes_down_and_up__pending_ends_and_the_fabric_recovers(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours = server.lease(Need.RECEIVE, KIB)
    ours.post_receive()
    waiting = asyncio.ensure_future(ours.received(COOKIE, KIB, DEADLINE_S))
    await asyncio.sleep(0)
    await link("down")
    try:
        with pytest.raises(TransportError, match="went away"):
            await waiting
        assert not server.healthy
        with pytest.raises(BusyError, match="rxe0"):
            server.lease(Need.SEND, KIB)
        await ours.close()
    finally:
        await link("up")
    async with asyncio.timeout(DEADLINE_S):
        while not (server.healthy and client.healthy):  # noqa: ASYNC110 - the kernel's to say
            await asyncio.sleep(0.05)
    await works(server, client)


async def link(state: str) -> None:
    await asyncio.to_thread(
        subprocess.run, ["ip", "link", "set", "eth0", state], check=True, timeout=30
    )
