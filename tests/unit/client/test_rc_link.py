"""How many connections a client has: one, more under load; and where there are none to be had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from aiohttp import web
from fake_rc_gateway import FakeServer, Rig, Seen, error

from gateway.client import Client, Transfer, TransferPath, UnsupportedError
from gateway.client.models import RdmaProtocol
from gateway.errors import BusyError

SIZE = 4096
DATA = bytes(range(256)) * 16


@pytest.fixture
def connected(rig: Rig) -> Rig:
    rig.server.connections.on = True
    rig.server.objects["/b/k"] = DATA
    rig.limits = rig.tight(link_bytes=SIZE, max_links=4)
    return rig


class Gate:
    """Object requests wait at the server until so many are there together."""

    def __init__(self, server: FakeServer) -> None:
        self._answer = server.answer
        self._waiting: list[asyncio.Event] = []
        self.together = 1

    async def answer(self, seen: Seen) -> web.Response:
        here = asyncio.Event()
        self._waiting.append(here)
        if len(self._waiting) >= self.together:
            for one in self._waiting:
                one.set()
            self._waiting.clear()
        async with asyncio.timeout(10):
            await here.wait()
        return await self._answer(seen)


@pytest.fixture
def gate(connected: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate(connected.server)
    monkeypatch.setattr(connected.server, "answer", gate.answer)
    return gate


async def together(client: Client, gate: Gate, count: int) -> list[Transfer]:
    """So many GETs that are under way at the same time."""
    gate.together = count
    buffers = [bytearray(SIZE) for _ in range(count)]
    done = await asyncio.gather(*(client.get_into("b", "k", buffer) for buffer in buffers))
    gate.together = 1
    assert all(buffer == DATA for buffer in buffers)
    return done


def tokens(rig: Rig) -> list[str]:
    """The connection that each object request named."""
    named = [seen.headers.get("x-amz-rdma-token", "::") for seen in rig.server.seen]
    return [token.split(":")[1] for token in named]


async def test_transfers__one_after_the_other__share_one_link(connected: Rig) -> None:
    async with connected.client() as client:
        for _ in range(10):
            await client.get_into("b", "k", bytearray(SIZE))
    assert len(connected.fabric.links) == 1


async def test_transfers__small_ones_at_once__share_one_link(connected: Rig, gate: Gate) -> None:
    limits = connected.tight(link_bytes=17 * SIZE)
    async with connected.client(limits=limits) as client:
        await together(client, gate, 16)
    assert len(connected.fabric.links) == 1


@pytest.mark.parametrize(("count", "links"), [(2, 2), (4, 4), (9, 4)])
async def test_transfers__long_ones_at_once__have_links_each_up_to_the_limit(
    connected: Rig, gate: Gate, count: int, links: int
) -> None:
    async with connected.client() as client:
        await client.get_into("b", "k", bytearray(SIZE))
        await together(client, gate, count)
        await together(client, gate, count)
    last = tokens(connected)[-count:]
    assert len(connected.fabric.links) == links == len(set(last))
    share = [last.count(one) for one in set(last)]
    assert max(share) - min(share) <= 1, "the least busy one is taken"
    assert connected.server.connections.disconnects == links


async def test_puts__at_once__share_the_first_link(connected: Rig, gate: Gate) -> None:
    async with connected.client() as client:
        await client.get_into("b", "k", bytearray(SIZE))
        await together(client, gate, 4)
        gate.together = 4
        await asyncio.gather(*(client.put_from("b", f"new{n}", DATA) for n in range(4)))
    assert {connected.server.objects[f"/b/new{n}"] for n in range(4)} == {DATA}
    assert set(tokens(connected)[-4:]) == {tokens(connected)[0]}


async def test_buffer__whose_parts_go_by_several_links__is_registered_once(
    connected: Rig, gate: Gate
) -> None:
    connected.server.objects["/b/k"] = DATA * 4
    buffer = bytearray(4 * SIZE)
    async with connected.client(limits=connected.tight(part_bytes=SIZE)) as client:
        connected.server.hooks.append(
            lambda seen: setattr(gate, "together", 1 if seen.method == "HEAD" else 4)
        )
        await client.get_into("b", "k", buffer)
    assert buffer == DATA * 4
    assert len(set(tokens(connected)) - {""}) == 4
    assert len(connected.fabric.registrations) == 1


def break_one_transfer(rig: Rig) -> None:
    """The next, on whichever link it comes."""
    broken = iter([True])
    rig.server.hooks.append(
        lambda _seen: error(500, "RDMATransferFailed", "lost") if next(broken, False) else None
    )


def by_the_gateway(rig: Rig) -> None:
    connections = rig.server.connections
    connections.on, connections.refusal = False, (503, "SlowDown", "rdma.connections_per_key")


def by_the_device(rig: Rig) -> None:
    rig.fabric.dial_error = BusyError("no queue pair is left")


@pytest.mark.parametrize("refuse", [by_the_gateway, by_the_device])
async def test_further_link__refused__the_transfers_go_by_those_that_there_are(
    connected: Rig, gate: Gate, refuse: Callable[[Rig], None]
) -> None:
    async with connected.client(rdma="require") as client:
        await client.get_into("b", "k", bytearray(SIZE))
        refuse(connected)
        done = await together(client, gate, 4)
        connected.server.connections.on, connected.fabric.dial_error = True, None
        done += await together(client, gate, 4)
    assert {one.path for one in done} == {TransferPath.RDMA}
    assert len(set(tokens(connected))) == 1, "who had none to spare is not asked again at once"


async def test_further_link__refused_a_while_ago__is_asked_for_again(
    connected: Rig, gate: Gate
) -> None:
    limits = connected.tight(link_pause_s=0.0)
    async with connected.client(rdma="require", limits=limits) as client:
        await client.get_into("b", "k", bytearray(SIZE))
        connected.server.connections.on = False
        await together(client, gate, 2)
        connected.server.connections.on = True
        await together(client, gate, 2)
    assert len(set(tokens(connected))) == 2


async def test_all_links__forgotten__every_transfer_has_its_second_attempt_by_a_new_one(
    connected: Rig, gate: Gate
) -> None:
    """As after a restart: another old link, not yet seen to be broken, would fail as well."""
    async with connected.client(rdma="require") as client:
        await client.get_into("b", "k", bytearray(SIZE))
        await together(client, gate, 4)
        connected.server.connections.forget()
        done = [await client.get_into("b", "k", bytearray(SIZE)) for _ in range(4)]
        connected.server.connections.forget()
        done += await together(client, gate, 4)
    assert {one.path for one in done} == {TransferPath.RDMA}


async def test_one_link__broken__the_transfers_of_the_others_go_on(
    connected: Rig, gate: Gate
) -> None:
    async with connected.client(rdma="require") as client:
        await client.get_into("b", "k", bytearray(SIZE))
        await together(client, gate, 2)
        first = connected.fabric.links[0]
        break_one_transfer(connected)
        await client.get_into("b", "k", bytearray(SIZE))
        closed = [link for link in connected.fabric.links if not link.usable]
        assert len(closed) == 1
        assert first.usable
    assert connected.server.connections.disconnects == len(connected.fabric.links) == 3


async def test_one_link__broken_and_no_other_to_be_had__its_transfer_goes_by_an_older_one(
    connected: Rig, gate: Gate
) -> None:
    async with connected.client(rdma="require") as client:
        await client.get_into("b", "k", bytearray(SIZE))
        await together(client, gate, 2)
        by_the_gateway(connected)
        break_one_transfer(connected)
        done = await client.get_into("b", "k", bytearray(SIZE))
    assert done.path is TransferPath.RDMA
    assert tokens(connected)[-1] == tokens(connected)[0]


async def hangs() -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def refuses() -> web.Response:
    return error(500, "InternalError", "no")


@pytest.mark.parametrize("answer", [hangs, refuses])
async def test_disconnect__never_done__the_client_ends_and_nothing_stays_registered(
    connected: Rig,
    answer: Callable[[], Awaitable[web.Response]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    connected.server.connections.disconnect = answer  # type: ignore[method-assign,assignment]
    limits = connected.tight(cancel_timeout_s=0.05)
    async with connected.client(rdma="require", limits=limits) as client:
        await client.get_into("b", "k", np.zeros(SIZE, np.uint8))
        break_one_transfer(connected)
        array = np.zeros(SIZE, np.uint8)
        async with asyncio.timeout(5):
            await client.get_into("b", "k", array)
        assert connected.fabric.domains[0].live
    assert [link.usable for link in connected.fabric.links] == [False, False]
    assert connected.fabric.domains[0].live == []
    assert "a bug" not in caplog.text


@pytest.fixture
def asked(connected: Rig) -> list[str]:
    """A gateway that has no connection to spare, ever; how often it was asked for one."""
    asked: list[str] = []

    def connect() -> web.Response:
        asked.append("connect")
        return error(503, "SlowDown", "rdma.connections_per_key")

    connected.server.connections.connect = connect  # type: ignore[method-assign]
    return asked


async def test_first_link__refused__sessions_carry_it_and_it_is_not_asked_for_again_at_once(
    connected: Rig, asked: list[str]
) -> None:
    async with connected.client() as client:
        for _ in range(3):
            done = await client.get_into("b", "k", bytearray(SIZE), length=SIZE)
            assert (done.path, done.protocol) == (TransferPath.RDMA, RdmaProtocol.HIPOBJ)
    assert len(asked) == connected.limits.link_attempts


async def test_first_link__the_device_has_none__http_carries_it_and_says_why(
    connected: Rig,
) -> None:
    by_the_device(connected)
    async with connected.client(protocol="rc") as client:
        done = await client.get_into("b", "k", bytearray(SIZE), length=SIZE)
    assert (done.path, done.reason) == (TransferPath.HTTP, "no queue pair is left")


async def test_first_link__refused_a_while_ago__is_asked_for_again_but_once(
    connected: Rig, asked: list[str]
) -> None:
    async with connected.client(limits=connected.tight(link_pause_s=0.0)) as client:
        for _ in range(3):
            await client.get_into("b", "k", bytearray(SIZE), length=SIZE)
    assert len(asked) == connected.limits.link_attempts + 2


async def test_first_link__refused_and_nothing_else_will_do__says_why(
    connected: Rig, asked: list[str]
) -> None:
    async with connected.client(rdma="require", protocol="rc") as client:
        with pytest.raises(UnsupportedError, match=r"no RDMA connection to spare: SlowDown"):
            await client.get_into("b", "k", bytearray(SIZE))
    assert asked
