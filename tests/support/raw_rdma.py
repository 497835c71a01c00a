"""A client of hipobj-rc-v2 that can misbehave: queue pairs by our engine, HTTP by raw_hipobj.

The steps of a transfer are apart, so that a test may leave one out, do one wrong, or stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import raw_hipobj as raw
from gateway_process import GatewayProcess

from gateway.client.fabric import fabric_config
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.port import Lane, QpAddress, RemoteBuffer

DEADLINE_S = 60.0
BUSY_S, RETRY_S = 10.0, 0.2  # how long and how often a good client comes again after 503
COOKIE = 0xC0FFEE


@dataclass
class Side:
    """A registered buffer with its queue pair."""

    lane: Lane
    buffer: bytearray
    memory: tuple[int, int]  # address and rkey, known beyond the lane's close


class RawPeer:
    """One client process on one device."""

    def __init__(self, fabric: EngineFabric, gateway: GatewayProcess) -> None:
        self._fabric = fabric
        self._gateway = gateway
        self._key = (gateway.access_key, gateway.secret_key)

    @asynccontextmanager
    async def side(self, data: bytes | int) -> AsyncIterator[Side]:
        """A buffer with these bytes, or of this many zeros, writable by the gateway."""
        buffer = bytearray(data)
        lane = self._fabric.attach(buffer, remote_write=True)
        try:
            yield Side(lane, buffer, (lane.buffer.addr, lane.buffer.rkey))
        finally:
            await lane.close()

    async def post(self, path: str, headers: dict[str, str]) -> raw.Answer:
        return await asyncio.to_thread(
            raw.post, self._gateway.endpoint, path, headers, self._key, DEADLINE_S
        )

    async def prepare(self, side: Side, op: str, target: str, **changes: object) -> raw.Answer:
        """PREPARE as a good client sends it, but for `changes` (see raw.prepare_headers)."""
        local = side.lane.local
        fields = {
            "token": raw.rc_token(local.qpn, local.gid, lid=local.lid),
            "psn": local.psn,
            "op": op,
            "target": target,
            "size": len(side.buffer),
        }
        return await self.post(raw.PREPARE, raw.prepare_headers(**fields | changes))

    async def offered(
        self, side: Side, op: str, target: str, *, connect: bool = True, **changes: object
    ) -> raw.Offer:
        """PREPARE that must succeed, and our queue pair in RTS.

        As a good client does, it comes again after 503: a lane that was used rests a moment.
        """
        answer = await self.prepare(side, op, target, **changes)
        deadline_s = time.monotonic() + BUSY_S
        while answer.status == 503 and time.monotonic() < deadline_s:
            await asyncio.sleep(RETRY_S)
            answer = await self.prepare(side, op, target, **changes)
        assert answer.status == 200, answer
        offer = raw.Offer.read(answer.headers)
        if connect:
            if op == "GET":
                side.lane.post_receive()
            side.lane.connect(QpAddress(offer.qpn, offer.psn, offer.gid, offer.lid))
        return offer

    async def ready(self, side: Side, session: str, **changes: object) -> raw.Answer:
        fields = {"qpn": side.lane.local.qpn, "memory": side.memory} | changes
        return await self.post(raw.READY, raw.ready_headers(session, **fields))

    async def cancel(self, session: str) -> raw.Answer:
        return await self.post(raw.CANCEL, raw.cancel_headers(session))

    async def write(
        self, side: Side, offer: raw.Offer, *, cookie: int = COOKIE, rkey: int | None = None
    ) -> None:
        """Our WRITE_WITH_IMM into the gateway's staging."""
        into = RemoteBuffer(offer.mr_addr, rkey or offer.mr_rkey, len(side.buffer))
        await side.lane.write(len(side.buffer), into, cookie, DEADLINE_S)

    async def put(self, target: str, data: bytes) -> raw.Answer:
        """A PUT in which nothing is wrong."""
        async with self.side(data) as side:
            offer = await self.offered(side, "PUT", target)
            ready = asyncio.ensure_future(self.ready(side, offer.session))
            await self.write(side, offer)
            return await ready

    async def get(self, target: str, size: int) -> tuple[raw.Answer, bytes]:
        """A GET in which nothing is wrong."""
        async with self.side(size) as side:
            offer = await self.offered(side, "GET", target)
            answer = await self.ready(side, offer.session)
            if answer.status == 200:
                await side.lane.received(COOKIE, None, DEADLINE_S)
            return answer, bytes(side.buffer)


@asynccontextmanager
async def raw_peer(gateway: GatewayProcess, device: str) -> AsyncIterator[RawPeer]:
    """A peer on the fabric that `device` names, as in ``gateway.client.fabric``."""
    fabric = open_fabric(replace(fabric_config(device), max_sessions=32), arena=False)
    try:
        yield RawPeer(fabric, gateway)
    finally:
        await fabric.close()
