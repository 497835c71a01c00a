"""Connections over every fabric that can be had here: many moves on one queue pair."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane import binding
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import Connection, Domain, Link, RemoteBuffer
from gateway.errors import BusyError, ClientError, S3Code, TransportError
from gateway.wire.extent import FileExtent

DEADLINE_S = 20.0
OWNER = "AKIDEXAMPLE"
CONFIG = RdmaConfig(
    fabric="soft",
    lanes=(LaneClass(1, MIB),),
    quarantine_s=0.0,
    slot_bytes=64 * KIB,
    connections=2,
    connection_staging_bytes=512 * KIB,
)
SIZES = pytest.mark.parametrize("size", [1, 4 * KIB, 64 * KIB, 64 * KIB + 1, 3 * MIB + 5])


@dataclass(frozen=True, slots=True)
class Joined:
    """A gateway's connection and the client's end of it, each QP in RTS."""

    gateway: EngineFabric
    connection: Connection
    domain: Domain
    link: Link

    async def send(
        self, fd: int, to: RemoteBuffer, size: int, deadline_s: float = DEADLINE_S
    ) -> int:
        return await self.connection.send(
            [FileExtent(fd, 0, size)], to, owner=OWNER, cookie=None, deadline_s=deadline_s
        )

    async def fetch(self, source: RemoteBuffer, fd: int, deadline_s: float = DEADLINE_S) -> int:
        into = FileExtent(fd, 0, source.length_bytes)
        return await self.connection.fetch(source, into, owner=OWNER, deadline_s=deadline_s)


LONG_SLOTS = replace(CONFIG, slot_bytes=4 * MIB, connection_staging_bytes=16 * MIB)


@pytest.fixture
async def joined(request: pytest.FixtureRequest) -> AsyncIterator[Joined]:
    config = getattr(request, "param", CONFIG)
    gateway, client = open_fabric(config, arena=True), open_fabric(config, arena=False)
    connection, domain = gateway.accept(), client.domain()
    link = domain.dial()
    connection.connect(link.local)
    link.connect(connection.local)
    yield Joined(gateway, connection, domain, link)
    await asyncio.gather(client.close(), gateway.close())


def object_of(data: bytes) -> int:
    fd = os.memfd_create("object")
    os.write(fd, data)
    return fd


@SIZES
async def test_send__any_size__fills_the_registered_buffer(joined: Joined, size: int) -> None:
    data, target = secrets.token_bytes(size), bytearray(size)
    fd = object_of(data)
    registration = await joined.domain.register(target, remote_write=True)
    assert await joined.send(fd, registration.buffer, size) == size
    assert target == data
    await registration.close()
    os.close(fd)


@SIZES
async def test_fetch__any_size__fills_the_file(joined: Joined, size: int) -> None:
    data, fd = secrets.token_bytes(size), os.memfd_create("object")
    registration = await joined.domain.register(data, remote_write=False)
    assert await joined.fetch(registration.buffer, fd) == size
    assert os.pread(fd, size + 1, 0) == data
    os.close(fd)


@pytest.mark.parametrize("size", [1, 4 * KIB, CONFIG.slot_bytes])
async def test_send_bytes_and_fetch_bytes__any_piece__there_and_back(
    joined: Joined, size: int
) -> None:
    data, target = secrets.token_bytes(size), bytearray(size)
    into = await joined.domain.register(target, remote_write=True)
    source = await joined.domain.register(data, remote_write=False)
    terms: Any = {"owner": OWNER, "deadline_s": DEADLINE_S}
    assert await joined.connection.send_bytes(data, into.buffer, cookie=None, **terms) == size
    assert target == data
    assert await joined.connection.fetch_bytes(source.buffer, **terms) == data
    assert joined.gateway.staging_in_use == 0


async def test_fetch_bytes__many_at_once__no_ones_slot_holds_anothers_bytes(
    joined: Joined,
) -> None:
    """More than there are slots: each is lent on in the moment in which its bytes have come."""
    pieces = [secrets.token_bytes(64 * KIB) for _ in range(40)]

    async def fetched(data: bytes) -> bytearray:
        source = await joined.domain.register(data, remote_write=False)
        return await joined.connection.fetch_bytes(
            source.buffer, owner=OWNER, deadline_s=DEADLINE_S
        )

    assert await asyncio.gather(*map(fetched, pieces)) == pieces


@pytest.mark.parametrize("size", [0, CONFIG.slot_bytes + 1])
async def test_fetch_bytes__not_a_piece__is_refused_and_touches_no_slot(
    joined: Joined, size: int
) -> None:
    assert joined.connection.max_piece_bytes == CONFIG.slot_bytes
    with pytest.raises(ValueError, match="a piece has 1 to"):
        await joined.connection.fetch_bytes(
            RemoteBuffer(1, 1, size), owner=OWNER, deadline_s=DEADLINE_S
        )
    with pytest.raises(ValueError, match="a piece has 1 to"):
        await joined.connection.send_bytes(
            bytes(size), RemoteBuffer(1, 1, size), owner=OWNER, cookie=None, deadline_s=DEADLINE_S
        )


async def test_moves__many_at_once_on_one_connection__each_is_whole(joined: Joined) -> None:
    size = 100 * KIB
    objects = [secrets.token_bytes(size) for _ in range(64)]

    async def there_and_back(data: bytes) -> bytearray:
        target, fd = bytearray(size), os.memfd_create("object")
        source = await joined.domain.register(data, remote_write=False)
        into = await joined.domain.register(target, remote_write=True)
        await joined.fetch(source.buffer, fd)
        await joined.send(fd, into.buffer, size)
        os.close(fd)
        return target

    assert await asyncio.gather(*map(there_and_back, objects)) == objects


async def test_send__wrong_rkey__is_refused_and_ends_the_connection(joined: Joined) -> None:
    fd, target = object_of(b"new bytes"), bytearray(b"old bytes")
    registration = await joined.domain.register(target, remote_write=True)
    wrong = RemoteBuffer(registration.buffer.addr, registration.buffer.rkey ^ 1, 9)
    with pytest.raises(CompletionError) as caught:
        await joined.send(fd, wrong, 9)
    assert caught.value.wc_name == "REM_ACCESS_ERR"
    assert target == b"old bytes"
    assert not joined.connection.usable
    with pytest.raises(TransportError):
        await joined.send(fd, registration.buffer, 9)
    os.close(fd)


async def test_counters__moves_of_each_kind__tell_what_was_done(joined: Joined) -> None:
    size = 3 * CONFIG.slot_bytes + 5
    fd = object_of(secrets.token_bytes(size))
    registration = await joined.domain.register(bytearray(size), remote_write=True)
    before = joined.gateway.counters()
    await joined.send(fd, registration.buffer, size)
    after = joined.gateway.counters()
    assert (after.writes - before.writes, after.written_bytes - before.written_bytes) == (4, size)
    assert after.reads == before.reads == 0
    with pytest.raises(CompletionError):
        await joined.fetch(registration.buffer, fd)  # that may be written only
    failed = joined.gateway.counters().completions
    assert failed["REM_ACCESS_ERR"] == before.completions["REM_ACCESS_ERR"] + 1
    assert failed["SUCCESS"] == after.completions["SUCCESS"]
    os.close(fd)


@pytest.mark.parametrize("joined", [LONG_SLOTS], indirect=True)
@pytest.mark.parametrize(
    ("size", "writes", "reads"),
    [(MIB, 1, 1), (MIB + 1, 2, 2), (4 * MIB, 3, 3), (9 * MIB + 5, 5, 6), (17 * MIB, 7, 10)],
)
async def test_moves__long_slots__pieces_grow_from_a_mebibyte(
    joined: Joined, size: int, writes: int, reads: int
) -> None:
    data, target = secrets.token_bytes(size), bytearray(size)
    fd, copy = object_of(data), os.memfd_create("copy")
    registration = await joined.domain.register(target, remote_write=True)
    before = joined.gateway.counters()
    await joined.send(fd, registration.buffer, size)
    assert target == data
    await registration.close()
    source = await joined.domain.register(data, remote_write=False)
    await joined.fetch(source.buffer, copy)
    assert os.pread(copy, size + 1, 0) == data
    after = joined.gateway.counters()
    assert (after.writes - before.writes, after.reads - before.reads) == (writes, reads)
    os.close(fd)
    os.close(copy)


LITTLE = replace(LONG_SLOTS, connection_staging_bytes=3 * MIB)


@pytest.mark.parametrize("joined", [LITTLE], indirect=True)
async def test_send__staging_of_less_than_four_slots__slots_are_shorter(joined: Joined) -> None:
    assert joined.connection.max_piece_bytes == 768 * KIB
    data, target = secrets.token_bytes(5 * MIB), bytearray(5 * MIB)
    fd = object_of(data)
    registration = await joined.domain.register(target, remote_write=True)
    await joined.send(fd, registration.buffer, len(data))
    assert target == data
    os.close(fd)


async def test_send__buffer_is_read_only_to_the_peer__is_refused(joined: Joined) -> None:
    fd, data = object_of(b"new bytes"), b"old bytes"
    registration = await joined.domain.register(data, remote_write=False)
    with pytest.raises(CompletionError) as caught:
        await joined.send(fd, registration.buffer, 9)
    assert caught.value.wc_name == "REM_ACCESS_ERR"
    assert data == b"old bytes"
    os.close(fd)


async def test_fetch__closed_registration__is_refused(joined: Joined) -> None:
    fd = os.memfd_create("object")
    registration = await joined.domain.register(secrets.token_bytes(KIB), remote_write=False)
    await registration.close()
    with pytest.raises(CompletionError):
        await joined.fetch(registration.buffer, fd)
    assert os.fstat(fd).st_size == 0
    os.close(fd)


async def test_send__more_than_the_buffer_holds__is_refused_at_once(joined: Joined) -> None:
    fd = object_of(bytes(10))
    registration = await joined.domain.register(bytearray(9), remote_write=True)
    with pytest.raises(ClientError) as caught:
        await joined.send(fd, registration.buffer, 10)
    assert caught.value.code is S3Code.INVALID_ARGUMENT
    assert joined.connection.usable
    os.close(fd)


async def test_send__peer_is_gone__ends_by_its_deadline(joined: Joined) -> None:
    fd, target = object_of(bytes(MIB)), bytearray(MIB)
    registration = await joined.domain.register(target, remote_write=True)
    await joined.link.close()
    with pytest.raises(TransportError):
        await joined.send(fd, registration.buffer, MIB, deadline_s=0.3)
    os.close(fd)


async def test_send__all_staging_is_lent_until_the_deadline__is_busy_and_the_connection_stays(
    joined: Joined,
) -> None:
    """A second connection's moves hold every slot: their peer's queue pair never answers."""
    silent, peer = joined.gateway.accept(), joined.link.local
    silent.connect(replace(peer, qpn=peer.qpn ^ 1))
    fd, target = object_of(bytes(MIB)), bytearray(b"old")
    registration = await joined.domain.register(target, remote_write=True)
    nowhere = RemoteBuffer(0, 0, MIB)
    held = [
        asyncio.ensure_future(
            silent.send(
                [FileExtent(fd, 0, MIB)], nowhere, owner="x", cookie=None, deadline_s=DEADLINE_S
            )
        )
        for _ in range(2)
    ]
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match=r"busy for 0\.05 s.*limits\.staging_bytes") as caught:
        await joined.send(fd, registration.buffer, 3, deadline_s=0.05)
    assert caught.value.limit == "rdma.connection_staging_bytes"
    assert joined.connection.usable
    await silent.close()
    await asyncio.gather(*held, return_exceptions=True)
    assert await joined.send(fd, registration.buffer, 3) == 3
    assert target == bytes(3)
    os.close(fd)


async def test_send__more_than_run_at_once__says_to_use_more_connections(joined: Joined) -> None:
    fd, target = object_of(bytes(KIB)), bytearray(KIB)
    registration = await joined.domain.register(target, remote_write=True)
    moves = [
        asyncio.ensure_future(joined.send(fd, registration.buffer, KIB, deadline_s=0.0))
        for _ in range(binding.MOVES_MAX + 1)
    ]
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    assert isinstance(outcomes[-1], BusyError)
    assert "use more connections" in outcomes[-1].message
    os.close(fd)


async def test_close__moves_running__each_ends_and_every_slot_comes_back(joined: Joined) -> None:
    size = 8 * MIB
    fd = object_of(bytes(size))
    registration = await joined.domain.register(bytearray(size), remote_write=True)
    moves = [asyncio.ensure_future(joined.send(fd, registration.buffer, size)) for _ in range(20)]
    await asyncio.sleep(0)
    await joined.connection.close()
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    assert all(isinstance(outcome, TransportError | int) for outcome in outcomes)
    assert joined.gateway.staging_in_use == 0
    os.close(fd)


async def test_fetch__cancelled__the_file_is_left_alone_at_once(joined: Joined) -> None:
    size = 16 * MIB
    fd = os.memfd_create("object")
    registration = await joined.domain.register(secrets.token_bytes(size), remote_write=False)
    move = asyncio.ensure_future(joined.fetch(registration.buffer, fd))
    while os.fstat(fd).st_size == 0:  # noqa: ASYNC110 - a file that grows tells nobody
        await asyncio.sleep(0)
    move.cancel()
    with pytest.raises(asyncio.CancelledError):
        await move
    before = os.pread(fd, size, 0)
    await joined.connection.close()
    assert os.pread(fd, size, 0) == before
    assert joined.gateway.staging_in_use == 0
    os.close(fd)


async def test_accept__all_are_open__is_busy_until_one_is_closed(joined: Joined) -> None:
    second = joined.gateway.accept()
    with pytest.raises(BusyError):
        joined.gateway.accept()
    await second.close()
    await joined.gateway.accept().close()


async def test_accept__after_close__has_another_queue_pair_and_psn(joined: Joined) -> None:
    seen = set()
    for _ in range(20):
        connection = joined.gateway.accept()
        seen.add((connection.local.qpn, connection.local.psn))
        await connection.close()
    assert len(seen) == 20


async def test_register__buffer_of_another_domain__is_not_reached(joined: Joined) -> None:
    """Two gateways, one client: neither's connection opens what was registered for the other's."""
    fd, target = object_of(b"new bytes"), bytearray(b"old bytes")
    client = open_fabric(CONFIG, arena=False)
    other = client.domain()
    other.dial()
    registration = await other.register(target, remote_write=True)
    with pytest.raises(CompletionError):
        await joined.send(fd, registration.buffer, 9)
    assert target == b"old bytes"
    await client.close()
    os.close(fd)


async def test_register__with_two_links__each_ones_peer_reaches_it(joined: Joined) -> None:
    data, target = secrets.token_bytes(2 * MIB), bytearray(2 * MIB)
    connection, link = joined.gateway.accept(), joined.domain.dial()
    connection.connect(link.local)
    link.connect(connection.local)
    second = replace(joined, connection=connection, link=link)
    fd = object_of(data)
    registration = await joined.domain.register(target, remote_write=True)
    halves = (
        replace(registration.buffer, length_bytes=MIB),
        replace(registration.buffer, addr=registration.buffer.addr + MIB, length_bytes=MIB),
    )
    await asyncio.gather(joined.send(fd, halves[0], MIB), second.send(fd, halves[1], MIB))
    assert target == 2 * data[:MIB]
    await joined.link.close()
    assert await second.send(fd, registration.buffer, 2 * MIB) == 2 * MIB
    assert target == data, "the other link's end takes nothing from this one"
    os.close(fd)


async def test_domain__closed__its_link_and_its_memory_are_gone(joined: Joined) -> None:
    fd, target = object_of(b"new bytes"), bytearray(b"old bytes")
    registration = await joined.domain.register(target, remote_write=True)
    await asyncio.gather(joined.domain.close(), joined.domain.close())
    assert not joined.link.usable
    target.extend(b", longer")  # BufferError while anything borrows it
    with pytest.raises(TransportError):
        await joined.send(fd, registration.buffer, 9, deadline_s=0.3)
    with pytest.raises(TransportError, match="closed"):
        joined.domain.dial()
    with pytest.raises(TransportError, match="closed"):
        await joined.domain.register(target, remote_write=True)
    os.close(fd)


async def test_fabric__closed__closes_what_a_domain_still_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    domain_open, domain_close = binding.domain_open, binding.domain_close
    monkeypatch.setattr(binding, "domain_open", lambda f: opened.append(d := domain_open(f)) or d)
    monkeypatch.setattr(binding, "domain_close", lambda d: (opened.remove(d), domain_close(d)))
    client, target = open_fabric(CONFIG, arena=False), bytearray(9)
    for _ in range(3):
        await client.domain().close()
    domain = client.domain()
    await domain.register(target, remote_write=True)
    domain.dial()
    assert len(opened) == 1
    await client.close()
    assert opened == []
    target.extend(b"more")


async def test_domain__the_device_has_no_room__says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_fabric: object) -> object:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    client = open_fabric(CONFIG, arena=False)
    monkeypatch.setattr(binding, "domain_open", full)
    with pytest.raises(TransportError, match="LimitMEMLOCK"):
        client.domain()
    await client.close()


async def test_dial__no_place_for_another__leaves_the_others_as_they_are() -> None:
    client = open_fabric(replace(CONFIG, max_sessions=1), arena=False)
    domain = client.domain()
    link = domain.dial()
    for _ in range(3):
        with pytest.raises(BusyError):
            domain.dial()
    await link.close()
    await domain.dial().close()
    await client.close()
