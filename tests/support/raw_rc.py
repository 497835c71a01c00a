"""Connections of PROTOCOL sections 3 and 4 by hand: HTTP spelled out, signed by botocore.

The RDMA half is whatever fabric the test opens; the gateway moves all the bytes.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway_process import GatewayProcess
from raw_hipobj import Answer, rc_token, signed
from typing_extensions import Buffer

from gateway.config import RdmaConfig
from gateway.dataplane.engine import open_fabric
from gateway.dataplane.port import Link, QpAddress, RemoteBuffer

CONNECT, DISCONNECT = (f"/.s3rdma-rc/{name}" for name in ("connect", "disconnect"))
UNSIGNED_PAYLOAD = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}


@dataclass(frozen=True)
class Desk:
    """Where requests go, and in whose name."""

    endpoint: str
    key: tuple[str, str]

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        sign: bool = True,
        unsigned: Sequence[str] = (),
    ) -> Answer:
        """One body-less request on a connection of its own; blocks."""
        connection = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=60)
        try:
            every = dict(headers or {})
            if sign:
                every = signed(method, self.endpoint + path, every, self.key, unsigned=unsigned)
            connection.request(method, path, headers=every | {"content-length": "0"})
            reply = connection.getresponse()
            names = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, names, reply.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class RcPeer:
    """A connected client: its link, the connection's id, and where it asks."""

    desk: Desk
    link: Link
    connection: str

    def token(self, buffer: RemoteBuffer, size: int | None = None) -> str:
        size = buffer.length_bytes if size is None else size
        return f"rc:{self.connection}:{buffer.addr:x}:{size:x}:{buffer.rkey:x}"

    async def put(
        self, path: str, data: Buffer, headers: Mapping[str, str] | None = None
    ) -> Answer:
        registration = await self.link.register(data, remote_write=False)
        try:
            return await self.ask("PUT", path, self.token(registration.buffer), headers)
        finally:
            await registration.close()

    async def get(
        self, path: str, target: bytearray, headers: Mapping[str, str] | None = None
    ) -> Answer:
        registration = await self.link.register(target, remote_write=True)
        try:
            return await self.ask("GET", path, self.token(registration.buffer), headers)
        finally:
            await registration.close()

    async def ask(
        self, method: str, path: str, token: str, headers: Mapping[str, str] | None = None
    ) -> Answer:
        every = UNSIGNED_PAYLOAD | {"x-amz-rdma-token": token} | dict(headers or {})
        return await asyncio.to_thread(self.desk.ask, method, path, every)


def connect_headers(local: QpAddress) -> dict[str, str]:
    token = rc_token(local.qpn, local.gid, lid=local.lid)
    return {"x-amz-rdma-token": token, "x-amz-rdma-psn": f"{local.psn:06X}"}


def address_in(answer: Answer) -> QpAddress:
    """The gateway's queue pair, as a connect's 200 tells it."""
    status, _, token = answer.headers["x-amz-rdma-reply"].partition(":")
    raw = bytes.fromhex(token)
    assert status == "200"
    assert raw[0] == 1
    return QpAddress(
        qpn=int.from_bytes(raw[1:5], "little"),
        psn=int(answer.headers["x-amz-rdma-psn"], 16),
        gid=raw[5:21],
        lid=int.from_bytes(raw[42:44], "little"),
    )


@asynccontextmanager
async def rc_peer(
    gateway: GatewayProcess, config: RdmaConfig, key: tuple[str, str] | None = None
) -> AsyncIterator[RcPeer]:
    """Connect, and disconnect at the end."""
    desk = Desk(gateway.endpoint, key or (gateway.access_key, gateway.secret_key))
    fabric = open_fabric(config, arena=False)
    try:
        link = fabric.dial()
        answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, connect_headers(link.local))
        assert answer.status == 200, answer.body
        link.connect(address_in(answer))
        connection = answer.headers["x-amz-rdma-session"]
        yield RcPeer(desk, link, connection)
        ended = await asyncio.to_thread(
            desk.ask, "POST", DISCONNECT, {"x-amz-rdma-session": connection}
        )
        assert ended.status == 204
    finally:
        await fabric.close()
