"""GETs of 4 KiB, counted: what they may not make, and what they must move, on any fabric."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from whole_gateway import WholeGateway, whole_gateway

from gateway.client import Client
from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane import engine
from gateway.dataplane.census import FabricCounters
from gateway.dataplane.engine import EngineFabric

BUCKET, KEY = "counted", "four-kib"
DATA = random.Random(1).randbytes(4 * KIB)
CONNECTIONS = 4


@dataclass(frozen=True)
class Counted:
    """A gateway, clients with a connection each, and the fabrics of both sides."""

    gateway: WholeGateway
    clients: list[Client]
    fabrics: list[EngineFabric]

    async def get(self, client: Client, target: memoryview) -> None:
        """One request: a GET whose length is known."""
        target[:] = bytes(len(target))
        await client.get_into(BUCKET, KEY, target, length=len(target))
        assert target == DATA

    def totals(self) -> list[FabricCounters]:
        return [fabric.counters() for fabric in self.fabrics]


def config(**changes: object) -> RdmaConfig:
    """As small as the test needs it."""
    small = {"lanes": (LaneClass(1, MIB),), "connections": 2 * CONNECTIONS}
    return RdmaConfig(**(small | changes))  # type: ignore[arg-type]


@asynccontextmanager
async def counted(
    directory: Path, rdma: RdmaConfig, device: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Counted]:
    """The object is stored, and each client is connected and has fetched it once."""
    fabrics: list[EngineFabric] = []
    open_fabric = engine.open_fabric

    def recorded(config: RdmaConfig, *, arena: bool) -> EngineFabric:
        fabrics.append(fabric := open_fabric(config, arena=arena))
        return fabric

    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(whole_gateway(directory, rdma))
        monkeypatch.setattr(engine, "open_fabric", recorded)
        clients = [
            await stack.enter_async_context(gateway.client(device)) for _ in range(CONNECTIONS)
        ]
        both = Counted(gateway, clients, fabrics)
        await clients[0].create_bucket(BUCKET)
        await clients[0].put_from(BUCKET, KEY, DATA)
        for client in clients:
            await client.get_into(BUCKET, KEY, bytearray(len(DATA)), length=len(DATA))
        fabrics.append(gateway.fabric)
        yield both


async def one_after_the_other(counted: Counted, requests: int) -> None:
    """Each request alone on one connection: nothing is made for it, and each is one WRITE."""
    client = counted.clients[0]
    async with client.registered(bytearray(len(DATA))) as target:
        await counted.get(client, target)
        before = counted.totals()
        for _ in range(requests):
            await counted.get(client, target)
        check(counted, before, requests)


async def many_at_once(counted: Counted, requests: int, connections: int) -> None:
    """The same for requests that run at once, spread over the first clients' connections."""
    clients = counted.clients[:connections]
    async with AsyncExitStack() as stack:
        targets = []
        for client in clients:
            whole = bytearray(len(DATA) * (requests // connections))
            view = await stack.enter_async_context(client.registered(whole))
            targets += [
                (client, view[at : at + len(DATA)]) for at in range(0, len(view), len(DATA))
            ]
            await counted.get(*targets[-1])
        before = counted.totals()
        await asyncio.gather(*(counted.get(*target) for target in targets))
        check(counted, before, requests)


def check(counted: Counted, before: list[FabricCounters], requests: int) -> None:
    """Nothing was made or allocated on either side; every byte went by one WRITE."""
    after = counted.totals()
    for old, new in zip(before, after, strict=True):
        assert new.queue_pairs_made == old.queue_pairs_made
        assert new.regions_registered == old.regions_registered
        assert new.heap_allocations == old.heap_allocations
    old, new = before[-1], after[-1]
    assert new.writes - old.writes == requests
    assert new.written_bytes - old.written_bytes == requests * len(DATA)
    assert new.completions["SUCCESS"] - old.completions["SUCCESS"] == requests
    assert new.events - old.events == requests
    usage = counted.gateway.fabric.usage()
    assert (usage.slots_in_use, usage.slot_waiters) == (0, {})
    assert usage.connections.leased == len(counted.clients)
