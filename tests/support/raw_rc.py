"""Connections by hand whose queue pair is our engine's: any fabric, and all that can go wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from raw_hipobj import Answer
from rc_client import (
    HTTP_LIMIT_S,
    Address,
    Desk,
    Memory,
    RcClient,
    address_in,
    connect,
    disconnect,
)

from gateway.config import RdmaConfig
from gateway.dataplane.domain import EngineDomain
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.lane import EngineLane
from gateway.dataplane.port import QpAddress


class EngineClient(RcClient):
    """A client on a link of our data plane."""

    def __init__(self, desk: Desk, welcome: Answer, domain: EngineDomain, link: EngineLane) -> None:
        super().__init__(desk, welcome)
        self.domain = domain
        self.link = link

    @asynccontextmanager
    async def lent(self, memory: bytes | bytearray, *, remote_write: bool) -> AsyncIterator[Memory]:
        registration = await self.domain.register(memory, remote_write=remote_write)
        buffer = registration.buffer
        try:
            yield Memory(buffer.addr, buffer.rkey, buffer.length_bytes)
        finally:
            await registration.close()

    def post_receive(self) -> None:
        self.link.post_receive()

    async def received(self, cookie: int) -> None:
        await self.link.received(cookie, None, HTTP_LIMIT_S)


def address_of(link: EngineLane) -> Address:
    local = link.local
    return Address(local.qpn, local.psn, local.gid, local.lid)


async def dialled(fabric: EngineFabric, desk: Desk, *, sign: bool = True) -> EngineClient:
    """A link of `fabric`, connected."""
    domain = fabric.domain()
    link = domain.dial()
    answer = await connect(desk, address_of(link), sign=sign)
    assert answer.status == 200, answer.body
    remote = address_in(answer)
    link.connect(QpAddress(remote.qpn, remote.psn, remote.gid, remote.lid))
    return EngineClient(desk, answer, domain, link)


@asynccontextmanager
async def rc_peer(
    desk: Desk, config: RdmaConfig, *, sign: bool = True, leave: bool = True
) -> AsyncIterator[EngineClient]:
    """Connect, and disconnect at the end; without `leave` the queue pair is just gone."""
    fabric = open_fabric(config, arena=False)
    try:
        client = await dialled(fabric, desk, sign=sign)
        yield client
        if leave:
            assert (await disconnect(desk, client.connection)).status == 204
    finally:
        await fabric.close()
