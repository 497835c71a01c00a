"""What goes wrong on a wire, and the status that hardware gives for it, on every fabric.

Each test ends with the same proof: every lane of the arena still works, so nothing was lost or left
in flight. Statuses: IBTA volume 1, 11.6.2; ibv_poll_cq(3).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fabric_peer import peer_process
from fabric_wires import (
    AT_HAND,
    COOKIE,
    DEADLINE_S,
    Wire,
    attached_pair,
    file_of,
    leased_pair,
    pair,
    pattern,
    readable_pair,
    works,
)

from gateway.config import KIB, MIB
from gateway.dataplane.engine import EngineFabric
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import CompletionClass, Lane, Need, RemoteBuffer
from gateway.errors import InternalError, S3Code, TransportError
from gateway.wire.extent import FileExtent

PSN_SPACE = 1 << 24


@pytest.fixture(autouse=True)
async def nothing_is_lost(server: EngineFabric, client: Any) -> AsyncIterator[None]:
    lanes = server.idle_lanes
    yield
    assert server.idle_lanes == lanes
    await works(server, client)


async def close(*lanes: Any) -> None:
    await asyncio.gather(*(lane.close() for lane in lanes))


async def nothing_comes(ours: Lane) -> None:
    """The posted receive is not consumed."""
    with pytest.raises(TransportError) as caught:
        await ours.received(COOKIE, None, 0.1)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT


def assert_refused(error: CompletionError, status: str = "REM_ACCESS_ERR") -> None:
    assert error.wc_name == status
    assert error.blame is CompletionClass.REMOTE
    assert error.qp_state == "ERR"


async def refused_write(theirs: Any, length_bytes: int, to: RemoteBuffer) -> None:
    with pytest.raises(CompletionError) as caught:
        await theirs.write(length_bytes, to, COOKIE, DEADLINE_S)
    assert_refused(caught.value)
    assert f"{to.rkey:x}" not in str(caught.value)


async def test_write__wrong_rkey__is_refused_and_flushes_what_else_was_posted(
    server: EngineFabric, client: Any
) -> None:
    ours, theirs = leased_pair(server, client, b"x" * KIB)
    ours.memory[:KIB] = bytes(KIB)
    theirs.post_receive()
    await refused_write(theirs, KIB, replace(ours.buffer, rkey=ours.buffer.rkey ^ 0x40))
    with pytest.raises(CompletionError) as flushed:
        await theirs.received(COOKIE, None, DEADLINE_S)
    assert flushed.value.wc_name == "WR_FLUSH_ERR"
    assert flushed.value.blame is CompletionClass.FLUSH
    with pytest.raises(CompletionError) as broken:
        await ours.received(COOKIE, KIB, DEADLINE_S)
    # Of the receive that the message would have taken, devices tell different stories.
    assert broken.value.wc_name in ("WR_FLUSH_ERR", "LOC_ACCESS_ERR", "REM_ACCESS_ERR")
    assert not any(ours.memory[:KIB])
    await close(ours, theirs)


async def test_send_extents__wrong_rkey__is_refused_with_writes_in_flight(
    server: EngineFabric, client: Any
) -> None:
    fd = file_of(b"x" * 4 * MIB)
    ours, theirs = attached_pair(server, client, 4 * MIB)
    wrong = replace(theirs.buffer, rkey=theirs.buffer.rkey ^ 0x40)
    with pytest.raises(CompletionError, match="rkey") as caught:
        await ours.send_extents([FileExtent(fd, 0, 4 * MIB)], wrong, COOKIE, DEADLINE_S)
    assert_refused(caught.value)
    assert f"{wrong.rkey:x}" not in str(caught.value)
    await close(ours, theirs)
    os.close(fd)


@pytest.mark.parametrize(
    ("begin", "length"), [(0, MIB + 1), (MIB - 1, 2), (MIB, 1), (-1, 2), (1 << 40, 1)]
)
async def test_write__not_wholly_in_the_memory__is_refused(
    server: EngineFabric, client: Any, begin: int, length: int
) -> None:
    ours = server.lease(Need.RECEIVE, MIB)
    theirs = client.attach(b"!" * length, remote_write=False)
    ours.memory[:MIB] = bytes(MIB)
    ours.post_receive()
    pair(ours, theirs)
    await refused_write(
        theirs, length, RemoteBuffer(ours.buffer.addr + begin, ours.buffer.rkey, length)
    )
    assert not any(ours.memory[:MIB])
    await close(ours, theirs)


async def test_read__past_the_end__is_refused(server: EngineFabric, client: Any) -> None:
    ours, theirs = readable_pair(server, client, pattern(5_000))
    with pytest.raises(CompletionError) as caught:
        await ours.read(5_001, replace(theirs.buffer, length_bytes=5_001), DEADLINE_S)
    assert_refused(caught.value)
    await close(ours, theirs)


async def test_read__not_granted__is_no_operation_of_that_queue_pair(
    server: EngineFabric, client: Any
) -> None:
    ours = server.lease(Need.RECEIVE, KIB)
    theirs = client.attach(pattern(KIB), remote_write=False)
    ours.memory[:KIB] = bytes(KIB)
    pair(ours, theirs)
    with pytest.raises(CompletionError) as caught:
        await ours.read(KIB, theirs.buffer, DEADLINE_S)
    assert_refused(caught.value, "REM_INV_REQ_ERR")
    assert not any(ours.memory[: KIB - 8])  # behind them is the READ's mark (mark.c)
    await close(ours, theirs)


async def test_write__to_a_lane_that_serves_a_get__is_no_operation_of_that_queue_pair(
    server: EngineFabric, client: Any
) -> None:
    ours, theirs = server.lease(Need.SEND, KIB), client.attach(b"!" * KIB, remote_write=False)
    ours.memory[:KIB] = bytes(KIB)
    pair(ours, theirs)
    with pytest.raises(CompletionError) as caught:
        await theirs.write(KIB, ours.buffer, COOKIE, DEADLINE_S)
    assert_refused(caught.value, "REM_INV_REQ_ERR")
    assert not any(ours.memory[:KIB])
    await close(ours, theirs)


async def test_write__rkey_of_another_lane__opens_nothing(
    server: EngineFabric, client: Any
) -> None:
    """A protection domain for each lane: who knows a neighbour's key is none the better for it."""
    ours, theirs = leased_pair(server, client, b"!" * KIB)
    neighbour = server.lease(Need.RECEIVE, KIB)
    neighbour.memory[:KIB] = bytes(KIB)
    await refused_write(theirs, KIB, neighbour.buffer)
    assert not any(neighbour.memory[:KIB])
    await close(ours, neighbour, theirs)


async def test_send_extents__memory_that_was_revoked__is_refused(
    server: EngineFabric, client: Any
) -> None:
    """The client closed the lane of a session, and the gateway writes to it from another's."""
    revoked = client.attach(bytearray(KIB), remote_write=True)
    to = revoked.buffer
    await revoked.close()
    fd = file_of(b"x" * KIB)
    ours, theirs = attached_pair(server, client, KIB)
    theirs.post_receive()
    with pytest.raises(CompletionError) as caught:
        await ours.send_extents([FileExtent(fd, 0, KIB)], to, COOKIE, DEADLINE_S)
    assert_refused(caught.value)
    await close(ours, theirs)
    os.close(fd)


@pytest.mark.parametrize(
    ("cookie", "announced", "text"),
    [(COOKIE + 1, 2 * KIB, "cookie"), (COOKIE, 2 * KIB + 1, "2049 were announced")],
)
async def test_received__another_cookie_or_length__is_no_success(
    server: EngineFabric, client: Any, cookie: int, announced: int, text: str
) -> None:
    ours, theirs = leased_pair(server, client, b"s" * 2 * KIB)
    await theirs.write(2 * KIB, ours.buffer, cookie, DEADLINE_S)
    with pytest.raises(TransportError, match=text):
        await ours.received(COOKIE, announced, DEADLINE_S)
    await close(ours, theirs)


async def test_write__no_receive_ever__waits_until_our_deadline(
    server: EngineFabric, client: Any
) -> None:
    """rnr_retry 7 has no end, on hardware neither (IBTA 9.7.5.2.8)."""
    ours = server.lease(Need.RECEIVE, KIB)
    theirs = client.attach(b"x" * KIB, remote_write=False)
    pair(ours, theirs)
    with pytest.raises(TransportError) as caught:
        await theirs.write(KIB, ours.buffer, COOKIE, 0.5)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT
    await close(ours, theirs)


async def psn_off(server: EngineFabric, client: Any, ahead: int) -> tuple[Lane, Any]:
    """A PUT pair whose client begins `ahead` of what the gateway expects."""
    ours = server.lease(Need.RECEIVE, KIB)
    theirs = client.attach(b"q" * KIB, remote_write=False)
    ours.memory[:KIB] = bytes(KIB)
    ours.post_receive()
    ours.connect(replace(theirs.local, psn=(theirs.local.psn - ahead) % PSN_SPACE or 1))
    theirs.connect(ours.local)
    return ours, theirs


async def test_connect__psn_ahead__is_a_peer_that_does_not_answer(
    wire: Wire, server: EngineFabric, client: Any
) -> None:
    ours, theirs = await psn_off(server, client, 100)
    with pytest.raises(TransportError) as caught:
        await theirs.write(KIB, ours.buffer, COOKIE, wire.silence_s)
    wire.assert_no_answer(caught.value)
    await nothing_comes(ours)
    assert not any(ours.memory[:KIB])
    await close(ours, theirs)


async def test_connect__psn_of_the_past__is_never_executed(
    server: EngineFabric, client: Any
) -> None:
    """A duplicate may be acknowledged: the sender's success proves nothing, the receiver's does."""
    ours, theirs = await psn_off(server, client, -100)
    with suppress(TransportError):
        await theirs.write(KIB, ours.buffer, COOKIE, 1.0)
    await nothing_comes(ours)
    assert not any(ours.memory[:KIB])
    await close(ours, theirs)


async def test_write__peer_closed_its_lane__is_a_peer_that_does_not_answer(
    wire: Wire, server: EngineFabric, client: Any
) -> None:
    ours, theirs = leased_pair(server, client, b"x" * KIB)
    buffer = ours.buffer
    await ours.close()
    with pytest.raises(TransportError) as caught:
        await theirs.write(KIB, buffer, COOKIE, wire.silence_s)
    wire.assert_no_answer(caught.value)
    await theirs.close()


@pytest.mark.parametrize("wire", [wire for wire in AT_HAND if wire.apart], ids=str)
async def test_send_extents__peer_was_killed__is_a_peer_that_does_not_answer(
    wire: Wire, server: EngineFabric
) -> None:
    fd = file_of(b"x" * MIB)
    with peer_process() as process, process.listening():
        ours, theirs = attached_pair(server, process.open(wire.client_config), MIB)
        process.kill()
        with pytest.raises(TransportError) as caught:
            await ours.send_extents([FileExtent(fd, 0, MIB)], theirs.buffer, COOKIE, wire.silence_s)
    wire.assert_no_answer(caught.value)
    await ours.close()
    os.close(fd)


async def test_received__peer_never_comes__ends_at_our_deadline(
    server: EngineFabric, client: Any
) -> None:
    ours = server.lease(Need.RECEIVE, KIB)
    ours.post_receive()
    await nothing_comes(ours)
    await ours.close()


async def test_received__closed_meanwhile__is_told_so(server: EngineFabric, client: Any) -> None:
    ours, theirs = leased_pair(server, client, b"x")
    waiting = asyncio.ensure_future(ours.received(COOKIE, 1, DEADLINE_S))
    await asyncio.sleep(0)
    await ours.close()
    with pytest.raises(TransportError, match="closed meanwhile"):
        await waiting
    await theirs.close()


async def test_send_extents__cancelled__frees_nothing_until_close(
    server: EngineFabric, client: Any
) -> None:
    fd, lanes = file_of(b"x" * MIB), server.idle_lanes
    ours, theirs = attached_pair(server, client, MIB)  # no receive is posted, so it can't end
    extents = [FileExtent(fd, 0, MIB)]
    sending = asyncio.ensure_future(ours.send_extents(extents, theirs.buffer, 7, DEADLINE_S))
    await asyncio.wait({sending}, timeout=0.1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert server.idle_lanes == lanes - 1
    await close(ours, theirs)
    os.close(fd)


async def test_close__in_the_middle_of_a_message__no_byte_comes_after_it(
    wire: Wire, server: EngineFabric, client: Any
) -> None:
    """What close has returned is out of reach, whatever the peer still sends."""
    ours, theirs = leased_pair(server, client, b"x" * MIB)
    memory, buffer = ours.memory, ours.buffer
    memory[:MIB] = bytes(MIB)
    writing = asyncio.ensure_future(theirs.write(MIB, buffer, COOKIE, wire.silence_s))
    while not memory[0]:  # noqa: ASYNC110 - only the peer's bytes tell
        await asyncio.sleep(0)
    await ours.close()
    seen = bytes(memory[:MIB])
    with suppress(TransportError):
        await writing
    assert memory[:MIB] == seen
    await theirs.close()


async def test_send_extents__file_shorter_than_its_extent__is_our_error(
    server: EngineFabric, client: Any
) -> None:
    fd = file_of(b"x" * (2 * MIB + 5))
    ours, theirs = attached_pair(server, client, 4 * MIB)
    with pytest.raises(InternalError) as caught:
        await ours.send_extents([FileExtent(fd, 0, 4 * MIB)], theirs.buffer, 7, DEADLINE_S)
    assert "shorter" in caught.value.cause
    await close(ours, theirs)
    os.close(fd)


async def test_store__full_device__is_our_error(server: EngineFabric) -> None:
    ours = server.lease(Need.RECEIVE, KIB)
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(InternalError) as caught:
        await ours.store(full, 0, KIB)
    assert "No space left" in caught.value.cause
    os.close(full)
    await ours.close()
