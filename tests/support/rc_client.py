"""A client of connections (PROTOCOL sections 3 and 4), all but its queue pair.

HTTP is spelled out by hand and signed by botocore; no line is shared with the gateway. Whatever
has a queue pair (`raw_rc`, `pyverbs_rc`) lends memory to the gateway, which moves all the bytes.
"""

from __future__ import annotations

import asyncio
import http.client
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from gateway_process import GatewayProcess
from raw_hipobj import Answer, rc_token, signed

CONNECT, DISCONNECT = (f"/.s3rdma-rc/{name}" for name in ("connect", "disconnect"))
UNSIGNED_PAYLOAD = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
BUSY_S, RETRY_S = 20.0, 0.05  # how long and how often a good client comes again after 503
HTTP_LIMIT_S = 60.0


@dataclass(frozen=True)
class Desk:
    """Where requests go, in whose name, and how long they may take."""

    endpoint: str
    key: tuple[str, str]
    limit_s: float = HTTP_LIMIT_S

    @classmethod
    def of(
        cls,
        gateway: GatewayProcess,
        key: tuple[str, str] | None = None,
        limit_s: float = HTTP_LIMIT_S,
    ) -> Desk:
        return cls(gateway.endpoint, key or (gateway.access_key, gateway.secret_key), limit_s)

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        sign: bool = True,
        unsigned: Sequence[str] = (),
    ) -> Answer:
        """One body-less request on an HTTP connection of its own; blocks."""
        connection = http.client.HTTPConnection(
            urlsplit(self.endpoint).netloc, timeout=self.limit_s
        )
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
class Address:
    """One side's queue pair: what a connect tells the other."""

    qpn: int
    psn: int
    gid: bytes
    lid: int = 0


@dataclass(frozen=True)
class Memory:
    """A registered buffer, as the gateway is told of it."""

    addr: int
    rkey: int
    length_bytes: int


def connect_headers(local: Address) -> dict[str, str]:
    token = rc_token(local.qpn, local.gid, lid=local.lid)
    return {"x-amz-rdma-token": token, "x-amz-rdma-psn": f"{local.psn:06X}"}


def address_in(answer: Answer) -> Address:
    """The gateway's queue pair, as a connect's 200 tells it."""
    status, _, token = answer.headers["x-amz-rdma-reply"].partition(":")
    raw = bytes.fromhex(token)
    assert status == "200"
    assert len(raw) == 44
    assert raw[0] == 1
    return Address(
        qpn=int.from_bytes(raw[1:5], "little"),
        psn=int(answer.headers["x-amz-rdma-psn"], 16),
        gid=raw[5:21],
        lid=int.from_bytes(raw[42:44], "little"),
    )


async def connect(desk: Desk, local: Address, *, sign: bool = True) -> Answer:
    """A connect; as a good client does, it comes again after 503 (places rest after their use)."""
    headers, deadline_s = connect_headers(local), time.monotonic() + BUSY_S
    while True:
        answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, headers, sign=sign)
        if answer.status != 503 or time.monotonic() > deadline_s:
            return answer
        await asyncio.sleep(RETRY_S)


async def disconnect(desk: Desk, connection: str) -> Answer:
    headers = {"x-amz-rdma-session": connection}
    return await asyncio.to_thread(desk.ask, "POST", DISCONNECT, headers)


class RcClient(ABC):
    """A connected client. Coroutines of one event loop.

    Attributes:
        welcome: the answer to its connect.
        connection: its id.
    """

    def __init__(self, desk: Desk, welcome: Answer) -> None:
        self.desk = desk
        self.welcome = welcome
        self.connection = welcome.headers["x-amz-rdma-session"]

    @abstractmethod
    def lent(
        self, memory: bytes | bytearray, *, remote_write: bool
    ) -> AbstractAsyncContextManager[Memory]:
        """Let the gateway read `memory`, or write it; what it wrote is there at the end."""

    @abstractmethod
    def post_receive(self) -> None:
        """A receive without a buffer, for an immediate."""

    @abstractmethod
    async def received(self, cookie: int) -> None:
        """Wait for a WRITE_WITH_IMM, which must carry `cookie`."""

    def token(self, memory: Memory, size: int | None = None) -> str:
        size = memory.length_bytes if size is None else size
        return f"rc:{self.connection}:{memory.addr:x}:{size:x}:{memory.rkey:x}"

    async def put(self, path: str, data: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        async with self.lent(data, remote_write=False) as memory:
            return await self.ask("PUT", path, self.token(memory), headers)

    async def get(
        self, path: str, target: bytearray, headers: Mapping[str, str] | None = None
    ) -> Answer:
        async with self.lent(target, remote_write=True) as memory:
            return await self.ask("GET", path, self.token(memory), headers)

    async def ask(
        self,
        method: str,
        path: str,
        token: str,
        headers: Mapping[str, str] | None = None,
        *,
        key: tuple[str, str] | None = None,
        unsigned: Sequence[str] = (),
    ) -> Answer:
        """A request with a token, in this client's name or another's."""
        every = UNSIGNED_PAYLOAD | {"x-amz-rdma-token": token} | dict(headers or {})
        desk = replace(self.desk, key=key) if key else self.desk
        return await asyncio.to_thread(desk.ask, method, path, every, unsigned=unsigned)
