"""An S3 server with hipobj-rc-v2 and an RDMA fabric, both made of dictionaries, to fail on demand.

The server reads headers by hand (PROTOCOL.md sections 1 and 2), not with the gateway's own code.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from xml.sax.saxutils import escape

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from awscrt import checksums as crt
from botocore.credentials import Credentials
from fake_connections import CONNECT, DISCONNECT, FakeConnections, FakeDomain, FakeLink

from gateway.client import Client
from gateway.client import client as client_module
from gateway.client.fabric import FabricDoor
from gateway.config.client import ClientLimits
from gateway.dataplane.port import FabricInfo, FabricUnavailable, LinkLayer, QpAddress, RemoteBuffer
from gateway.errors import S3Code, TransportError

GID = bytes.fromhex("00000000000000000000ffff0a000001")
SERVER_GID = bytes.fromhex("00000000000000000000ffff0a000002")
CHECKSUM = "x-amz-checksum-crc64nvme"
STAGING = (0x7F00_0000_1000, 0xABCD)


class FakeLane:
    """Memory that the fake server reaches by its address; see dataplane/port.py."""

    carrier = "verbs"

    def __init__(self, fabric: FakeFabric, view: memoryview, remote_write: bool) -> None:
        self.fabric = fabric
        self.view = view
        self.remote_write = remote_write
        number = len(fabric.lanes) + 1
        self.local = QpAddress(0x100 + number, 0x0A0B0C, GID, 0)
        self.buffer = RemoteBuffer(0x5500_0000_0000 + number * 0x1000, 0x1234, len(view))
        self.peer: QpAddress | None = None
        self.receive_posted = False
        self.arrived: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.closed = 0

    def connect(self, peer: QpAddress) -> None:
        self.peer = peer

    def post_receive(self) -> None:
        self.receive_posted = True

    async def received(self, cookie: int, length_bytes: int | None, deadline_s: float) -> int:
        assert self.receive_posted
        assert length_bytes is None
        immediate = await self.arrived
        if immediate != cookie:
            raise TransportError("the immediate is another transfer's")
        return 0

    async def write(
        self, length_bytes: int, to: RemoteBuffer, cookie: int, deadline_s: float
    ) -> None:
        if self.fabric.write_error:
            raise self.fabric.write_error
        assert (to.addr, to.rkey) == STAGING
        self.fabric.server.land(bytes(self.view[:length_bytes]), cookie)

    async def close(self) -> None:
        self.closed += 1
        self.arrived.cancel()


class FakeFabric:
    healthy = True
    info = FabricInfo("fake", "fake0", 1, GID, 1, 0, LinkLayer.ETHERNET, 4096, 2**31)

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.lanes: list[FakeLane] = []
        self.domains: list[FakeDomain] = []
        self.links: list[FakeLink] = []
        self.attach_error: Exception | None = None
        self.dial_error: Exception | None = None
        self.write_error: Exception | None = None
        self.closed = False

    def attach(self, buffer: Any, *, remote_write: bool, remote_read: bool = False) -> FakeLane:
        if self.attach_error:
            raise self.attach_error
        lane = FakeLane(self, memoryview(buffer), remote_write)
        self.lanes.append(lane)
        return lane

    def domain(self) -> FakeDomain:
        self.domains.append(FakeDomain(self))
        return self.domains[-1]

    @property
    def registrations(self) -> list[Any]:
        """All that were ever made for a connection."""
        return [made for domain in self.domains for made in domain.registrations]

    def at(self, addr: int) -> FakeLane:
        return next(lane for lane in self.lanes if lane.buffer.addr == addr)

    async def close(self) -> None:
        self.closed = True


@dataclass
class Seen:
    """One request as it came."""

    method: str
    raw_path: str
    headers: dict[str, str]
    body: bytes

    @property
    def signed(self) -> set[str]:
        match = re.search(r"SignedHeaders=([^,]+)", self.headers["authorization"])
        assert match
        return set(match[1].split(";"))


Hook = Callable[[Seen], web.Response | None]


@dataclass
class FakeServer:
    """Objects by raw path; `hooks` may answer before the server does."""

    objects: dict[str, bytes] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    sessions: dict[str, dict[str, str]] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)
    landed: dict[int, asyncio.Future[bytes]] = field(default_factory=dict)
    max_transfer_bytes: int = 2**31
    ready_headers: Callable[[dict[str, str]], dict[str, str]] = lambda headers: headers
    deliver: bool = True
    flip_byte: bool = False
    fabric: FakeFabric = None  # type: ignore[assignment]
    connections: FakeConnections = field(default_factory=FakeConnections)

    def land(self, data: bytes, cookie: int) -> None:
        self.landing(cookie).set_result(data)

    def landing(self, cookie: int) -> asyncio.Future[bytes]:
        """What the peer writes with that immediate, now or later."""
        return self.landed.setdefault(cookie, asyncio.get_running_loop().create_future())

    def calls(self, start: str) -> list[Seen]:
        return [seen for seen in self.seen if f"{seen.method} {seen.raw_path}".startswith(start)]

    async def handle(self, request: web.Request) -> web.Response:
        seen = Seen(
            request.method,
            request.raw_path,
            {name.lower(): value for name, value in request.headers.items()},
            await request.read(),
        )
        if seen.raw_path == CONNECT:
            return self.connections.connect() or error(*self.connections.refusal)
        if seen.raw_path == DISCONNECT:
            return await self.connections.disconnect()
        self.seen.append(seen)
        for hook in self.hooks:
            try:
                answer = hook(seen)
            except ConnectionResetError:
                assert request.transport is not None
                request.transport.abort()
                raise
            if answer is not None:
                return answer
        return await self.answer(seen)

    async def answer(self, seen: Seen) -> web.Response:
        match seen.method, seen.raw_path.partition("?")[0]:
            case "POST", "/.hipobj-rc/prepare":
                return self.prepare(seen)
            case "POST", "/.hipobj-rc/ready":
                return await self.ready(seen)
            case "POST", "/.hipobj-rc/cancel":
                self.sessions.pop(seen.headers["x-amz-rdma-session"], None)
                return web.Response(status=204)
        if "x-amz-rdma-token" in seen.headers:
            return self.connections.answer(seen, self.s3, flip_byte=self.flip_byte)
        return self.s3(seen)

    def prepare(self, seen: Seen) -> web.Response:
        size_bytes = int(seen.headers["x-amz-rdma-size"])
        target = seen.headers["x-amz-rdma-target"]
        if seen.headers["x-amz-rdma-op"] == "GET" and target not in self.objects:
            return error(404, "NoSuchKey", "no such key")
        if seen.headers["x-amz-rdma-op"] == "PUT" and size_bytes > self.max_transfer_bytes:
            return error(413, "EntityTooLarge", "use multipart upload")
        session = f"{len(self.seen):032x}"
        self.sessions[session] = seen.headers
        token = struct.pack("<BI16sIQQBH", 1, 0x222, SERVER_GID, 0, 0, 0, 1, 0).hex()
        addr, rkey = STAGING
        return web.Response(
            headers={
                "x-amz-rdma-protocol": "hipobj-rc-v2",
                "x-amz-rdma-reply": f"200:{token}",
                "x-amz-rdma-session": session,
                "x-amz-rdma-psn": "00F00D",
                "x-amz-rdma-qpn": "222",
                "x-amz-rdma-mr-addr": f"{addr:x}",
                "x-amz-rdma-mr-rkey": f"{rkey:x}",
            }
        )

    async def ready(self, seen: Seen) -> web.Response:
        order = self.sessions.pop(seen.headers["x-amz-rdma-session"], None)
        if order is None:
            return error(404, "NoSuchRDMASession", "no such session")
        cookie = int(seen.headers["x-amz-rdma-cookie"], 16)
        size_bytes = int(order["x-amz-rdma-size"])
        target = order["x-amz-rdma-target"]
        if order["x-amz-rdma-op"] == "GET":
            whole = self.objects[target]
            offset = int(order["x-amz-rdma-offset"])
            data = bytearray(whole[offset : offset + size_bytes])
            if self.flip_byte:
                data[-1] ^= 1
            lane = self.fabric.at(int(seen.headers["x-amz-rdma-mr-addr"], 16))
            assert lane.remote_write
            assert lane.peer == QpAddress(0x222, 0xF00D, SERVER_GID, 0)
            if self.deliver:
                lane.view[: len(data)] = data
                lane.arrived.set_result(cookie)
        else:
            async with asyncio.timeout(5):
                whole = await self.landing(cookie)
            assert len(whole) == size_bytes
            self.store(target, whole)
        headers = {
            "x-amz-rdma-protocol": "hipobj-rc-v2",
            "x-amz-rdma-cookie": f"{cookie:08X}",
            "x-amz-rdma-bytes-transferred": str(size_bytes),
            "x-amz-rdma-etag": f'"{md5(whole)}"',
            "x-amz-rdma-checksum": f"CRC64NVME {crc64(whole)}",
        }
        return web.Response(headers=self.ready_headers(headers))

    def store(self, target: str, data: bytes) -> None:
        if "partNumber=" in target:
            self.parts[target] = data
        else:
            self.objects[target] = data

    def s3(self, seen: Seen) -> web.Response:
        path, _, query = seen.raw_path.partition("?")
        match seen.method:
            case "HEAD" if path in self.objects:
                data = self.objects[path]
                headers = {
                    "Content-Length": str(len(data)),
                    "ETag": f'"{md5(data)}"',
                    "x-amz-checksum-crc64nvme": crc64(data),
                    "x-amz-meta-Color": "blue",
                }
                return web.Response(headers=headers)
            case "GET" if path in self.objects:
                return self.http_get(seen, self.objects[path])
            case "PUT":
                assert seen.headers.get(CHECKSUM, crc64(seen.body)) == crc64(seen.body)
                self.store(seen.raw_path, seen.body)
                return web.Response(headers={"ETag": f'"{md5(seen.body)}"'})
            case "POST" if query == "uploads=":
                return xml("InitiateMultipartUploadResult", "<UploadId>up/1</UploadId>")
            case "POST":
                return self.complete(path, seen)
            case "DELETE":
                self.parts.clear()
                return web.Response(status=204)
        return error(404, "NoSuchKey", "no such key")

    def http_get(self, seen: Seen, data: bytes) -> web.Response:
        etag = f'"{md5(data)}"'
        if seen.headers.get("if-match", etag) != etag:
            return error(412, "PreconditionFailed", "changed")
        if "range" not in seen.headers:
            assert seen.headers["x-amz-checksum-mode"] == "ENABLED"
            stated = {"ETag": etag, "x-amz-checksum-crc64nvme": crc64(data)}
            return web.Response(body=data, headers=stated)
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", seen.headers["range"])
        assert match
        body = data[int(match[1]) : int(match[2]) + 1]
        return web.Response(status=206, body=body, headers={"ETag": etag})

    def complete(self, path: str, seen: Seen) -> web.Response:
        numbers = re.findall(rb"<PartNumber>(\d+)</PartNumber>", seen.body)
        assert numbers == sorted(numbers, key=int)
        whole = b"".join(
            self.parts[f"{path}?partNumber={int(number)}&uploadId=up%2F1"] for number in numbers
        )
        assert seen.headers.get(CHECKSUM, crc64(whole)) == crc64(whole)
        self.objects[path] = whole
        return xml("CompleteMultipartUploadResult", f"<ETag>&quot;{md5(whole)}-n&quot;</ETag>")


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def crc64(data: bytes) -> str:
    return base64.b64encode(crt.crc64nvme(data).to_bytes(8, "big")).decode()


def xml(name: str, inside: str, status: int = 200) -> web.Response:
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="{namespace}">{inside}</{name}>'
    return web.Response(status=status, body=text.encode(), content_type="application/xml")


def error(status: int, code: str, message: str, **headers: str) -> web.Response:
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    response = web.Response(status=status, body=text.encode(), content_type="application/xml")
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return response


@dataclass
class Rig:
    """A fake server on a port, its fabric, and clients for both."""

    server: FakeServer
    fabric: FakeFabric
    url: str
    limits: ClientLimits
    monkeypatch: pytest.MonkeyPatch

    def client(self, *, device: bool = True, **options: Any) -> Client:
        def opener(_config: object) -> FakeFabric:
            if not device:
                raise FabricUnavailable("the kernel has no RDMA devices", "modprobe rdma_rxe")
            return self.fabric

        self.monkeypatch.setattr(
            client_module, "FabricDoor", lambda name: FabricDoor(name, opener=opener)
        )
        options.setdefault("limits", self.limits)
        return Client(
            endpoint_url=self.url,
            region_name="eu-north-1",
            credentials=Credentials("AKID", "verysecret"),
            **options,
        )

    def tight(self, **changes: Any) -> ClientLimits:
        return replace(self.limits, **changes)


@asynccontextmanager
async def running_rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    """The rig on a free port; at the end every lane has been closed, once."""
    server = FakeServer()
    fabric = FakeFabric(server)
    server.fabric = server.connections.fabric = fabric
    application = web.Application(client_max_size=2**30, handler_args={"auto_decompress": False})
    application.router.add_route("*", "/{tail:.*}", server.handle)
    async with TestServer(application) as listening:
        limits = ClientLimits(backoff_s=0.0, max_backoff_s=0.0)
        yield Rig(server, fabric, str(listening.make_url("/")), limits, monkeypatch)
    assert all(lane.closed == 1 for lane in fabric.lanes), "a lane was not closed exactly once"
    assert not any(link.usable for link in fabric.links), "a link stayed open"
    assert not any(domain.live for domain in fabric.domains), "a buffer stayed registered"


def lost(code: S3Code = S3Code.RDMA_TRANSFER_FAILED) -> TransportError:
    return TransportError("retries exceeded: is the peer reachable?", code=code)
