"""The engine against a real RDMA device: run in the VM (tests/rig/rdma-vm) where the host has none.

rxe0 carries the gateway's arena, rxe1 the client's buffers; packets take a real IP/UDP path.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import logging
import os
import resource
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import CompletionClass, FabricUnavailable, Lane, Need, RemoteBuffer
from gateway.errors import BusyError, ClientError, InternalError, S3Code, TransportError
from gateway.wire.extent import FileExtent

pytestmark = pytest.mark.rdma

DEADLINE_S = 60.0
COOKIE = 0xC00C1E01
CONFIG = RdmaConfig(
    device="rxe0",
    lanes=(LaneClass(4, MIB), LaneClass(1, 64 * MIB)),
    quarantine_s=0.0,
    max_sessions=8,
)


@pytest.fixture
async def server() -> AsyncIterator[EngineFabric]:
    fabric = open_fabric(CONFIG, arena=True)
    yield fabric
    await fabric.close()


@pytest.fixture
async def client() -> AsyncIterator[EngineFabric]:
    fabric = open_fabric(replace(CONFIG, device="rxe1"), arena=False)
    yield fabric
    await fabric.close()


def pair(ours: Lane, theirs: Lane) -> None:
    ours.connect(theirs.local)
    theirs.connect(ours.local)


def file_of(data: bytes) -> int:
    fd = os.memfd_create("object")
    os.write(fd, data)
    return fd


@pytest.mark.parametrize("size", [1, 4095, 4 * KIB, MIB + 1, 64 * MIB])
async def test_send_extents__any_size__arrives_with_its_cookie(
    server: EngineFabric, client: EngineFabric, size: int
) -> None:
    data = secrets.token_bytes(size)
    fd = file_of(data)
    target = bytearray(size)
    ours, theirs = server.lease(Need.SEND, size), client.attach(target, remote_write=True)
    theirs.post_receive()
    pair(ours, theirs)
    extents = [FileExtent(fd, 0, size)]
    sent = await ours.send_extents(extents, theirs.buffer, COOKIE, DEADLINE_S)
    await theirs.received(COOKIE, None, DEADLINE_S)
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)
    assert sent == size
    assert hashlib.sha256(target).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("size", [1, 4095, 4 * KIB, MIB + 1, 64 * MIB])
async def test_write__any_size__is_received_whole(
    server: EngineFabric, client: EngineFabric, size: int
) -> None:
    data = secrets.token_bytes(size)
    ours, theirs = server.lease(Need.RECEIVE, size), client.attach(data, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    await theirs.write(size, ours.buffer, COOKIE, DEADLINE_S)
    got = await ours.received(COOKIE, size, DEADLINE_S)
    fd = os.memfd_create("stored")
    await ours.store(fd, 5, size)
    assert got == size
    assert hashlib.sha256(ours.memory[:size]).digest() == hashlib.sha256(data).digest()
    assert os.pread(fd, size, 5) == data
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)


@pytest.mark.parametrize("size", [1, 4095, MIB + 1, 20 * MIB])
async def test_read__any_size__fetches_the_peers_buffer(
    server: EngineFabric, client: EngineFabric, size: int
) -> None:
    data = secrets.token_bytes(size)
    ours = server.lease(Need.RECEIVE, size)
    theirs = client.attach(data, remote_write=False, remote_read=True)
    pair(ours, theirs)
    await ours.read(size, theirs.buffer, DEADLINE_S)
    assert ours.memory[:size] == data
    await asyncio.gather(ours.close(), theirs.close())


async def test_send_extents__several_files_and_no_cookie__arrive_in_order(
    server: EngineFabric, client: EngineFabric
) -> None:
    parts = [secrets.token_bytes(n) for n in (1, 300 * KIB, 17, MIB)]
    files = [file_of(b"head" + part + b"tail") for part in parts]
    target = bytearray(sum(map(len, parts)))
    ours, theirs = server.lease(Need.SEND, MIB), client.attach(target, remote_write=True)
    pair(ours, theirs)
    extents = [FileExtent(fd, 4, len(part)) for fd, part in zip(files, parts, strict=True)]
    assert await ours.send_extents(extents, theirs.buffer, None, DEADLINE_S) == len(target)
    assert bytes(target) == b"".join(parts)
    await asyncio.gather(ours.close(), theirs.close())
    for fd in files:
        os.close(fd)


async def test_send_extents__receive_posted_late__the_rnr_retry_carries_it(
    server: EngineFabric, client: EngineFabric
) -> None:
    fd, target = file_of(b"x" * 9000), bytearray(9000)
    ours, theirs = server.lease(Need.SEND, 9000), client.attach(target, remote_write=True)
    pair(ours, theirs)
    extents = [FileExtent(fd, 0, 9000)]
    sending = asyncio.ensure_future(ours.send_extents(extents, theirs.buffer, COOKIE, DEADLINE_S))
    done, _ = await asyncio.wait({sending}, timeout=0.3)
    assert not done
    theirs.post_receive()
    await theirs.received(COOKIE, None, DEADLINE_S)
    assert await sending == 9000
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)


async def test_receive__with_an_sge__same_as_without(client: EngineFabric) -> None:
    fabric = open_fabric(replace(CONFIG, receive_sge=True), arena=True)
    data = secrets.token_bytes(50_000)
    ours, theirs = fabric.lease(Need.RECEIVE, 50_000), client.attach(data, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    await theirs.write(50_000, ours.buffer, COOKIE, DEADLINE_S)
    assert await ours.received(COOKIE, 50_000, DEADLINE_S) == 50_000
    assert ours.memory[:50_000] == data
    await theirs.close()
    await fabric.close()


async def works(server: EngineFabric, client: EngineFabric) -> None:
    """One transfer over each lane of the arena, then all are back: the baseline."""
    lanes = server.idle_lanes
    assert lanes == sum(lane.count for lane in CONFIG.lanes)
    for _ in range(lanes):
        ours = server.lease(Need.RECEIVE, 3 * KIB)
        theirs = client.attach(b"z" * 3 * KIB, remote_write=False)
        ours.post_receive()
        pair(ours, theirs)
        await theirs.write(3 * KIB, ours.buffer, COOKIE, DEADLINE_S)
        await ours.received(COOKIE, 3 * KIB, DEADLINE_S)
        await asyncio.gather(ours.close(), theirs.close())
    assert server.idle_lanes == lanes


def mispaired(server: EngineFabric, client: EngineFabric, psns_ahead: int) -> tuple[Lane, Lane]:
    """A connected PUT pair whose client begins `psns_ahead` of what the server expects."""
    ours = server.lease(Need.RECEIVE, KIB)
    theirs = client.attach(b"q" * KIB, remote_write=False)
    ours.post_receive()
    ours.connect(replace(theirs.local, psn=(theirs.local.psn - psns_ahead) % (1 << 24) or 1))
    theirs.connect(ours.local)
    return ours, theirs


async def nothing_comes(ours: Lane) -> None:
    with pytest.raises(TransportError) as caught:
        await ours.received(COOKIE, KIB, 0.1)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT


async def test_connect__psn_ahead__ends_at_our_deadline_on_both_sides(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours, theirs = mispaired(server, client, 100)
    with pytest.raises(TransportError) as caught:
        await theirs.write(KIB, ours.buffer, COOKIE, 1.0)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT
    await nothing_comes(ours)
    await asyncio.gather(ours.close(), theirs.close())
    await works(server, client)


async def test_connect__psn_of_the_past__is_never_executed(
    server: EngineFabric, client: EngineFabric
) -> None:
    """A duplicate may be acknowledged: the sender's success proves nothing, the receiver's does."""
    ours, theirs = mispaired(server, client, -100)
    ours.memory[:KIB] = bytes(KIB)
    with suppress(TransportError):
        await theirs.write(KIB, ours.buffer, COOKIE, 1.0)
    await nothing_comes(ours)
    assert ours.memory[:KIB] == bytes(KIB)
    await asyncio.gather(ours.close(), theirs.close())
    await works(server, client)


async def test_send_extents__wrong_rkey__is_the_remotes_refusal(
    server: EngineFabric, client: EngineFabric
) -> None:
    fd, target = file_of(b"x" * 4 * MIB), bytearray(4 * MIB)
    ours, theirs = server.lease(Need.SEND, 4 * MIB), client.attach(target, remote_write=True)
    pair(ours, theirs)
    wrong = replace(theirs.buffer, rkey=theirs.buffer.rkey ^ 0x40)
    with pytest.raises(CompletionError, match="rkey") as caught:
        await ours.send_extents([FileExtent(fd, 0, 4 * MIB)], wrong, COOKIE, DEADLINE_S)
    assert caught.value.wc_name == "REM_ACCESS_ERR"
    assert caught.value.blame is CompletionClass.REMOTE
    assert caught.value.qp_state == "ERR"
    assert f"{wrong.rkey:x}" not in str(caught.value)
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)
    await works(server, client)


async def test_lanes__rkey_of_another_transfer__opens_nothing(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours, neighbour = server.lease(Need.RECEIVE, KIB), server.lease(Need.RECEIVE, KIB)
    neighbour.memory[:KIB] = bytes(KIB)
    theirs = client.attach(b"!" * KIB, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    with pytest.raises(CompletionError) as caught:
        await theirs.write(KIB, neighbour.buffer, COOKIE, DEADLINE_S)
    assert caught.value.blame is CompletionClass.REMOTE
    assert neighbour.memory[:KIB] == bytes(KIB)
    await asyncio.gather(ours.close(), neighbour.close(), theirs.close())
    await works(server, client)


async def test_lanes__peer_of_a_get_writes_to_the_lane__is_refused(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours, theirs = server.lease(Need.SEND, KIB), client.attach(b"!" * KIB, remote_write=False)
    ours.memory[:KIB] = bytes(KIB)
    pair(ours, theirs)
    with pytest.raises(CompletionError) as caught:
        await theirs.write(KIB, ours.buffer, COOKIE, DEADLINE_S)
    assert caught.value.blame is CompletionClass.REMOTE
    assert ours.memory[:KIB] == bytes(KIB)
    await asyncio.gather(ours.close(), theirs.close())
    await works(server, client)


@pytest.mark.parametrize(
    ("cookie", "announced", "text"),
    [(COOKIE + 1, 2 * KIB, "cookie"), (COOKIE, 2 * KIB + 1, "2049 were announced")],
)
async def test_received__another_cookie_or_length__is_no_success(
    server: EngineFabric, client: EngineFabric, cookie: int, announced: int, text: str
) -> None:
    ours = server.lease(Need.RECEIVE, announced)
    theirs = client.attach(b"s" * 2 * KIB, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    await theirs.write(2 * KIB, ours.buffer, cookie, DEADLINE_S)
    with pytest.raises(TransportError, match=text):
        await ours.received(COOKIE, announced, DEADLINE_S)
    await asyncio.gather(ours.close(), theirs.close())
    await works(server, client)


async def test_send_extents__peer_is_gone__fails_within_the_deadline(
    server: EngineFabric, client: EngineFabric
) -> None:
    fd, target = file_of(b"x" * MIB), bytearray(MIB)
    ours, theirs = server.lease(Need.SEND, MIB), client.attach(target, remote_write=True)
    pair(ours, theirs)
    to = theirs.buffer
    await theirs.close()
    with pytest.raises(TransportError):
        await ours.send_extents([FileExtent(fd, 0, MIB)], to, COOKIE, 1.0)
    await ours.close()
    os.close(fd)
    await works(server, client)


async def test_received__peer_never_comes__deadline_then_lane_is_reusable(
    server: EngineFabric, client: EngineFabric
) -> None:
    ours = server.lease(Need.RECEIVE, KIB)
    ours.post_receive()
    with pytest.raises(TransportError) as caught:
        await ours.received(COOKIE, KIB, 0.05)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT
    await ours.close()
    await works(server, client)


async def test_send_extents__cancelled__frees_nothing_until_close(
    server: EngineFabric, client: EngineFabric
) -> None:
    fd, target = file_of(b"x" * MIB), bytearray(MIB)
    ours, theirs = server.lease(Need.SEND, MIB), client.attach(target, remote_write=True)
    pair(ours, theirs)  # no receive is posted, so it can't end
    extents = [FileExtent(fd, 0, MIB)]
    sending = asyncio.ensure_future(ours.send_extents(extents, theirs.buffer, 7, DEADLINE_S))
    await asyncio.wait({sending}, timeout=0.2)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert server.idle_lanes == 4
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)
    await works(server, client)


async def test_send_extents__file_shorter_than_its_extent__is_our_error(
    server: EngineFabric, client: EngineFabric
) -> None:
    fd, target = file_of(b"x" * (2 * MIB + 5)), bytearray(4 * MIB)
    ours, theirs = server.lease(Need.SEND, 4 * MIB), client.attach(target, remote_write=True)
    pair(ours, theirs)
    with pytest.raises(InternalError) as caught:
        await ours.send_extents([FileExtent(fd, 0, 4 * MIB)], theirs.buffer, 7, DEADLINE_S)
    assert "shorter" in caught.value.cause
    await asyncio.gather(ours.close(), theirs.close())
    os.close(fd)
    await works(server, client)


async def test_store__full_device__is_our_error(server: EngineFabric) -> None:
    lane = server.lease(Need.RECEIVE, KIB)
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(InternalError) as caught:
        await lane.store(full, 0, KIB)
    assert "No space left" in caught.value.cause
    os.close(full)
    await lane.close()


async def test_lease__arena_exhausted__busy_until_a_lane_returns(
    server: EngineFabric, client: EngineFabric
) -> None:
    lanes = [server.lease(Need.RECEIVE, KIB) for _ in range(5)]
    with pytest.raises(BusyError, match=r"rdma\.lanes"):
        server.lease(Need.RECEIVE, KIB)
    await lanes[0].close()
    lanes[0] = server.lease(Need.RECEIVE, KIB)
    with pytest.raises(ClientError) as caught:
        server.lease(Need.RECEIVE, 64 * MIB + 1)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TOO_LARGE
    await asyncio.gather(*(lane.close() for lane in lanes))
    await works(server, client)


async def test_attach__as_many_as_max_sessions__then_busy(client: EngineFabric) -> None:
    lanes = [client.attach(bytearray(10), remote_write=True) for _ in range(8)]
    with pytest.raises(BusyError, match="max_sessions"):
        client.attach(bytearray(10), remote_write=True)
    await asyncio.gather(*(lane.close() for lane in lanes))
    await client.attach(bytearray(10), remote_write=True).close()


async def test_connect__gid_of_another_family__is_the_clients_error(server: EngineFabric) -> None:
    lane = server.lease(Need.SEND, KIB)
    peer = replace(lane.local, gid=bytes.fromhex("fe80" + "00" * 13 + "01"))
    with pytest.raises(ClientError, match="family"):
        lane.connect(peer)
    await lane.close()


async def test_lane__after_close__refuses_and_close_is_idempotent(server: EngineFabric) -> None:
    lane = server.lease(Need.SEND, KIB)
    await asyncio.gather(lane.close(), lane.close())
    with pytest.raises(TransportError, match="closed"):
        lane.post_receive()
    await lane.close()


async def test_debug_log__tells_each_step_but_no_rkey(
    server: EngineFabric, client: EngineFabric, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway.dataplane")
    ours, theirs = server.lease(Need.RECEIVE, 70), client.attach(b"d" * 70, remote_write=False)
    rkey = ours.buffer.rkey
    ours.post_receive()
    pair(ours, theirs)
    await theirs.write(70, ours.buffer, COOKIE, DEADLINE_S)
    await ours.received(COOKIE, 70, DEADLINE_S)
    await asyncio.gather(ours.close(), theirs.close())
    for step in (
        "receive posted, SGE of 0 bytes",
        "path MTU 4096 of the port's 4096",
        f"immediate {COOKIE:08x}, 70 bytes",
        "teardown",
    ):
        assert step in caplog.text
    assert str(rkey) not in caplog.text
    assert f"{rkey:x}" not in caplog.text


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
            open_fabric(CONFIG, arena=True)
        with pytest.raises(TransportError, match="ulimit -l"):
            client.attach(bytearray(MIB), remote_write=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "mlx5_77"}, "no RDMA device 'mlx5_77'"),
        ({"port": 3}, "no port 3"),
        ({"gid_index": 200}, "no usable GID"),
    ],
)
async def test_open_fabric__wrong_setting__names_it(change: dict[str, object], reason: str) -> None:
    with pytest.raises(FabricUnavailable, match=reason):
        open_fabric(replace(CONFIG, **change), arena=False)  # type: ignore[arg-type]


def test_wrong_rkey__text__is_not_in_the_repr() -> None:
    assert "1234" not in repr(RemoteBuffer(1, 1234, 5))


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
