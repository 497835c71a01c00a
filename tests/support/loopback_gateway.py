"""The gateway's whole path in one process, without sockets: real pipeline, loopback fabric.

Requests are signed by botocore, so that signatures are proved as they are in production.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import raw_hipobj as raw
from loopback_fabric import LoopbackFabric, LoopbackLane, Wire
from storing import new_bucket

from gateway.auth.credentials import Credentials, CredentialStore
from gateway.config import HttpConfig, LaneClass, RdmaConfig
from gateway.dataplane.port import LinkLayer, QpAddress
from gateway.rdma.service import RdmaService
from gateway.s3.route import route
from gateway.s3.staging import staged_bytes
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import ObjectDraft, Storage
from gateway.web.pipeline import Pipeline, Verbs
from gateway.wire.request import RequestHead

KEY = ("AKALICE", "alice-secret")
OTHER_KEY = ("AKBOB", "bob-secret")
ENDPOINT = "http://gateway.test:9000"
SHORT, LONG = 4096, 256 * 1024

CONFIG = RdmaConfig(
    lanes=(LaneClass(3, SHORT), LaneClass(2, LONG)),
    slot_bytes=4096,
    prepare_timeout_s=10,
    transfer_timeout_s=30,
    max_sessions=6,
    max_sessions_per_key=4,
)


@dataclass
class Clock:
    """Monotonic seconds that pass when the test says so."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Sides:
    """A client's buffer and queue pair."""

    lane: LoopbackLane
    buffer: bytearray

    @property
    def memory(self) -> tuple[int, int]:
        return self.lane.buffer.addr, self.lane.buffer.rkey

    @property
    def token(self) -> str:
        return raw.rc_token(self.lane.local.qpn, self.lane.local.gid)


@dataclass
class LoopbackGateway:
    """One gateway with its fabric, and a client's fabric on the same wire."""

    config: RdmaConfig = CONFIG
    storage: Storage = field(default_factory=MemoryStorage)
    link_layer: LinkLayer = LinkLayer.ETHERNET
    rdma_off: bool = False

    def __post_init__(self) -> None:
        self.wire, self.clock = Wire(), Clock()
        classes = [(lane.count, lane.length_bytes) for lane in self.config.lanes]
        self.fabric = LoopbackFabric(self.wire, classes, self.link_layer)
        self.client_fabric = LoopbackFabric(self.wire)
        http = HttpConfig()
        keys = CredentialStore([Credentials(*KEY), Credentials(*OTHER_KEY)])
        self.verbs = Verbs(self.storage, http.region, http.limits, keys)
        self.rdma = RdmaService(
            None if self.rdma_off else self.fabric,
            self.config,
            route=lambda head: route(head, http.domains, http.limits),
            authorise=self.verbs.authorise,
            perform=self.verbs.perform,
            clock=self.clock,
        )
        self.service = self.rdma.hipobj
        self.pipeline = Pipeline(http, self.verbs, self.rdma, time.time)

    async def post(
        self,
        path: str,
        headers: Mapping[str, str],
        key: tuple[str, str] | None = KEY,
        *,
        unsigned: Sequence[str] = (),
        method: str = "POST",
    ) -> raw.Answer:
        """One request through the pipeline; a key of None sends it unsigned."""
        every = dict(headers) | {"host": "gateway.test:9000"}
        if key is not None:
            every = raw.signed(method, ENDPOINT + path, headers, key, unsigned=unsigned)
        head = RequestHead(
            method, path, "", tuple((name.lower(), value) for name, value in every.items())
        )
        reply = await self.pipeline.respond(head, lambda _: _no_body(), "REQUEST")
        assert reply.delivery is None
        length = None if reply.status in (204, 304) else str(len(reply.body))
        assert dict(reply.headers).get("content-length") == length
        return raw.Answer(reply.status, dict(reply.headers), reply.body)

    def client(self, data: bytes | int) -> Sides:
        """A client's buffer: with these bytes, or of this many zeros."""
        buffer = bytearray(data)
        return Sides(self.client_fabric.attach(buffer, remote_write=True), buffer)

    async def prepare(
        self, side: Sides, op: str, target: str, size: int | None = None, **changes: object
    ) -> raw.Answer:
        """PREPARE as a good client sends it; `changes` go to raw.prepare_headers or, as `key`
        and `extra` (more headers), to the request."""
        key = changes.pop("key", KEY)
        extra = changes.pop("extra", {})
        fields = {
            "token": side.token,
            "psn": side.lane.local.psn,
            "op": op,
            "target": target,
            "size": len(side.buffer) if size is None else size,
        }
        headers = raw.prepare_headers(**fields | changes)
        return await self.post(raw.PREPARE, headers | extra, key)

    async def ready(self, side: Sides, session: str, **changes: object) -> raw.Answer:
        key = changes.pop("key", KEY)
        fields = {"qpn": side.lane.local.qpn, "memory": side.memory} | changes
        return await self.post(raw.READY, raw.ready_headers(session, **fields), key)

    async def offered(self, side: Sides, op: str, target: str, **changes: object) -> raw.Offer:
        """PREPARE that must succeed, and the client's side connected."""
        answer = await self.prepare(side, op, target, **changes)
        assert answer.status == 200, answer
        offer = raw.Offer.read(answer.headers)
        side.lane.connect(QpAddress(offer.qpn, offer.psn, offer.gid, offer.lid))
        if op == "GET":
            side.lane.post_receive()
        return offer

    async def get(self, target: str, size: int, **changes: object) -> tuple[raw.Answer, bytes]:
        """A whole GET, and what is in the client's buffer afterwards."""
        side = self.client(size)
        offer = await self.offered(side, "GET", target, **changes)
        answer = await self.ready(side, offer.session)
        return answer, bytes(side.buffer)

    async def put(self, target: str, data: bytes, **changes: object) -> raw.Answer:
        """A whole PUT: READY pending while the bytes are written."""
        side = self.client(data)
        offer = await self.offered(side, "PUT", target, **changes)
        ready = asyncio.ensure_future(self.ready(side, offer.session))
        await self.write(side, offer)
        return await ready

    async def write(self, side: Sides, offer: raw.Offer, cookie: int = 0xC0FFEE) -> None:
        """The client's WRITE_WITH_IMM into the gateway's staging."""
        length_bytes = len(side.buffer)
        into = replace(
            side.lane.buffer, addr=offer.mr_addr, rkey=offer.mr_rkey, length_bytes=length_bytes
        )
        await side.lane.write(length_bytes, into, cookie, 5)

    async def store(self, bucket: str, key: str, data: bytes) -> None:
        """An object that is simply there; the bucket is made where it is missing."""
        buckets = {info.name for info in await self.storage.list_buckets()}
        if bucket not in buckets:
            await self.storage.create_bucket(new_bucket(bucket))
        async with staged_bytes(self.storage, bucket, len(data)) as staged:
            await staged.write(data)
            draft = ObjectDraft(len(data), "e" * 32)
            await self.storage.commit_object(staged, bucket, key, draft)

    async def stored(self, bucket: str, key: str) -> bytes:
        reader = await self.storage.open_object(bucket, key, None)
        try:
            return await reader.read(0, reader.info.size_bytes)
        finally:
            await reader.close()

    async def settled(self) -> None:
        """Let the background finish, then insist that nothing is held any more."""
        for _ in range(200):
            if not self.fabric.lent and not sum(self.service.stats().sessions.values()):
                return
            await asyncio.sleep(0.005)
        raise AssertionError((self.fabric.lent, self.service.stats()))


def _no_body():
    """hipobj-rc-v2's requests have none; nothing may ask for it."""
    raise AssertionError("a control request's body was opened")
