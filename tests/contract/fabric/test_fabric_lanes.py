"""The life of a lane on every fabric: lent, used, closed, lent again; and when there is none."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest
from fabric_peer import Usage
from fabric_wires import (
    AT_HAND,
    COOKIE,
    DEADLINE_S,
    LANES,
    MAX_SESSIONS,
    WIRES,
    Wire,
    leased_pair,
    works,
)

from gateway.config import KIB, MIB, LaneClass
from gateway.dataplane.engine import EngineFabric
from gateway.dataplane.port import Need, QpAddress
from gateway.errors import BusyError, ClientError, S3Code, TransportError

WARM_UP = 100
MANY, SOME, FEW = 10_000, 1_000, 100  # FEW: in an emulated machine
CYCLES = {Wire("udp"): MANY, Wire("local", apart=True): MANY, Wire("verbs"): FEW}
GROWTH_BYTES = 2 * MIB  # of a process that leaked nothing: the allocator's slack
PAYLOAD = b"nine byte"


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_wires__those_not_tested_here__say_why(wire: Wire) -> None:
    if wire.missing:
        pytest.skip(f"{wire}: {wire.missing}")


async def test_connect__each_wire__is_carried_by_what_it_is_named_for(
    wire: Wire, server: EngineFabric, client: Any
) -> None:
    ours, theirs = leased_pair(server, client, PAYLOAD)
    await theirs.write(9, ours.buffer, COOKIE, DEADLINE_S)
    assert (ours.carrier, theirs.carrier) == (wire.carrier, wire.carrier)
    await asyncio.gather(ours.close(), theirs.close())


async def test_lease__arena_exhausted__busy_until_a_lane_returns(
    server: EngineFabric, client: Any
) -> None:
    lanes = [server.lease(Need.RECEIVE, KIB) for _ in range(server.idle_lanes)]
    with pytest.raises(BusyError, match=r"rdma\.lanes"):
        server.lease(Need.RECEIVE, KIB)
    await lanes[0].close()
    lanes[0] = server.lease(Need.RECEIVE, KIB)
    await asyncio.gather(*(lane.close() for lane in lanes))
    await works(server, client)


async def test_lease__longer_than_any_lane__is_too_large_for_ever(server: EngineFabric) -> None:
    with pytest.raises(ClientError) as caught:
        server.lease(Need.RECEIVE, MIB + 1)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TOO_LARGE


async def test_lease__long_get__takes_no_lane_that_only_a_long_put_could_use(wire: Wire) -> None:
    fabric = wire.open_server((LaneClass(1, 8 * MIB), LaneClass(1, 64 * MIB)), connections=0)
    lane = fabric.lease(Need.SEND, 64 * MIB)
    assert len(lane.memory) == 8 * MIB
    await lane.close()
    await fabric.close()


async def test_attach__as_many_as_max_sessions__then_busy(client: Any) -> None:
    lanes = [client.attach(bytearray(10), remote_write=True) for _ in range(MAX_SESSIONS)]
    with pytest.raises(BusyError, match="max_sessions"):
        client.attach(bytearray(10), remote_write=True)
    await asyncio.gather(*(lane.close() for lane in lanes))
    await client.attach(bytearray(10), remote_write=True).close()


async def test_lease__the_same_lane_again__is_another_queue_pair(server: EngineFabric) -> None:
    """A late packet of the old session must find nobody (PROTOCOL 5.7)."""
    seen = set()
    for _ in range(3 * server.idle_lanes):
        lane = server.lease(Need.RECEIVE, KIB)
        seen.add((lane.local.qpn, lane.local.psn))
        await lane.close()
    assert len(seen) == 3 * server.idle_lanes


async def test_lane__after_close__refuses_and_close_is_idempotent(server: EngineFabric) -> None:
    lane = server.lease(Need.SEND, KIB)
    await asyncio.gather(lane.close(), lane.close())
    with pytest.raises(TransportError, match="closed"):
        lane.post_receive()
    await lane.close()


async def test_connect__gid_of_another_family__is_the_clients_error(server: EngineFabric) -> None:
    lane = server.lease(Need.SEND, KIB)
    with pytest.raises(ClientError, match="family"):
        lane.connect(replace(lane.local, gid=bytes.fromhex("fe80" + "00" * 13 + "01")))
    await lane.close()


@pytest.mark.parametrize("wire", [wire for wire in AT_HAND if wire.soft], ids=str)
async def test_connect__loopback_to_another_host__is_refused_as_not_possible(wire: Wire) -> None:
    server = wire.open_server(LANES)
    lane = server.lease(Need.RECEIVE, KIB)
    with pytest.raises(ClientError) as refusal:
        lane.connect(QpAddress(5, 6, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1]), 0))
    assert refusal.value.code is S3Code.NOT_IMPLEMENTED
    await server.close()


async def test_debug_log__tells_each_step_but_no_rkey(
    server: EngineFabric, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway.dataplane")
    ours, theirs = leased_pair(server, client, PAYLOAD)
    rkey = ours.buffer.rkey
    await theirs.write(9, ours.buffer, COOKIE, DEADLINE_S)
    await ours.received(COOKIE, 9, DEADLINE_S)
    await asyncio.gather(ours.close(), theirs.close())
    for step in (
        "receive posted, SGE of 0 bytes",
        "path MTU 4096 of the port's 4096",
        f"immediate {COOKIE:08x}, 9 bytes",
        "teardown",
    ):
        assert step in caplog.text
    assert str(rkey) not in caplog.text
    assert f"{rkey:x}" not in caplog.text


async def cycles(count: int, server: EngineFabric, client: Any) -> None:
    """`count` sessions, as many at once as there are lanes: joined, used for one message, gone."""
    at_once = server.idle_lanes

    async def some() -> None:
        for _ in range(count // at_once):
            ours, theirs = leased_pair(server, client, PAYLOAD)
            await theirs.write(9, ours.buffer, COOKIE, DEADLINE_S)
            await ours.received(COOKIE, 9, DEADLINE_S)
            await asyncio.gather(ours.close(), theirs.close())

    await asyncio.gather(*(some() for _ in range(at_once)))


async def test_lanes__used_thousands_of_times__files_memory_and_registrations_are_flat(
    wire: Wire, server: EngineFabric, client: Any
) -> None:
    def usage() -> list[Usage]:
        return [Usage.now(), *([client.process.usage] if wire.apart else [])]

    await cycles(WARM_UP, server, client)
    lanes, before = server.idle_lanes, usage()
    await cycles(CYCLES.get(wire, SOME), server, client)
    for first, last in zip(before, usage(), strict=True):
        assert last.files == first.files
        assert last.private_bytes < first.private_bytes + GROWTH_BYTES
    assert server.idle_lanes == lanes
    sessions = [client.attach(bytearray(9), remote_write=True) for _ in range(MAX_SESSIONS)]
    await asyncio.gather(*(session.close() for session in sessions))
