"""self_test: the fabric is tried with bytes, and nobody's memory is left in a lane."""

from __future__ import annotations

import asyncio

import pytest
from loopback_fabric import LoopbackFabric, LoopbackLane, Wire

from gateway.dataplane.port import Need
from gateway.errors import TransportError
from gateway.rdma.self_test import try_fabric

LIMIT_S = 0.05


async def test_try__fabric_works__gives_its_lanes_back() -> None:
    fabric = LoopbackFabric(Wire(), [(2, 4096)])
    await try_fabric(fabric, LIMIT_S)
    assert fabric.lent == 0
    assert fabric.calls["dedicate"] == 2


async def test_try__nothing_arrives__says_so_in_time() -> None:
    fabric = LoopbackFabric(Wire(drop=True), [(2, 4096)])
    with pytest.raises(TransportError):
        await try_fabric(fabric, LIMIT_S)
    assert fabric.lent == 0


async def test_try__other_bytes_arrive__says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    received = LoopbackLane.received

    async def corrupted(lane: LoopbackLane, *words: object) -> int:
        count = await received(lane, *words)  # type: ignore[arg-type]
        lane.memory[0] ^= 1
        return count

    monkeypatch.setattr(LoopbackLane, "received", corrupted)
    with pytest.raises(TransportError, match="other bytes"):
        await try_fabric(LoopbackFabric(Wire(), [(2, 4096)]), LIMIT_S)


async def test_try__port_is_down__is_not_tried() -> None:
    fabric = LoopbackFabric(Wire(), [(2, 4096)])
    fabric.healthy = False
    with pytest.raises(TransportError, match="loop0/1 is down"):
        await try_fabric(fabric, LIMIT_S)
    assert fabric.calls["lease"] == 0


async def test_try__all_lanes_lent__trusts_the_work_that_goes_on() -> None:
    fabric = LoopbackFabric(Wire(), [(2, 4096)])
    lane = fabric.lease(Need.SEND, 1)
    await try_fabric(fabric, LIMIT_S)
    assert fabric.lent == 1
    await lane.close()


async def test_try__cancelled_half_way__gives_its_lanes_back() -> None:
    wire = Wire(hold=asyncio.Event())
    fabric = LoopbackFabric(wire, [(2, 4096)])
    task = asyncio.ensure_future(try_fabric(fabric, 10))
    for _ in range(100):
        await asyncio.sleep(0)
    assert fabric.lent == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fabric.lent == 0
