"""The other half of the fake gateway: connections (PROTOCOL.md sections 3 and 4) that move bytes.

Addresses are the buffers' own, and each registration has an rkey of its own, so that a token which
names memory beyond what was registered is seen.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from cffi import FFI

from gateway.dataplane.port import QpAddress, RemoteBuffer

CONNECT, DISCONNECT = "/.s3rdma-rc/connect", "/.s3rdma-rc/disconnect"
GID = bytes.fromhex("00000000000000000000ffff0a000001")
LOCAL = QpAddress(0x321, 0x0A0B0C, GID, 0)
_ffi = FFI()
_rkeys = itertools.count(0x1000)


class FakeRegistration:
    """A client's buffer; as the real one it holds what it was given until it ends."""

    def __init__(self, memory: Any, remote_write: bool) -> None:
        borrowed = _ffi.from_buffer("uint8_t[]", memory, require_writable=remote_write)
        self._borrowed = borrowed
        self.remote_write = remote_write
        self.buffer = RemoteBuffer(
            int(_ffi.cast("uintptr_t", borrowed)), next(_rkeys), memoryview(memory).nbytes
        )
        self.ended = 0

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        if not self.ended:
            self.ended = 1
            _ffi.release(self._borrowed)


@dataclass(eq=False)
class FakeLink:
    """See dataplane/port.py."""

    domain: FakeDomain
    carrier: str = "verbs"
    usable: bool = True
    events: list[str] = field(default_factory=list)
    local: QpAddress = LOCAL
    peer: QpAddress | None = None

    def connect(self, peer: QpAddress) -> None:
        self.peer = peer

    async def close(self) -> None:
        if self.usable:
            self.events.append(f"closed with {len(self.domain.live)}")
        self.usable = False


@dataclass(eq=False)
class FakeDomain:
    """See dataplane/port.py."""

    fabric: Any
    registrations: list[FakeRegistration] = field(default_factory=list)
    links: list[FakeLink] = field(default_factory=list)
    closed: bool = False

    def dial(self) -> FakeLink:
        if self.fabric.dial_error:
            raise self.fabric.dial_error
        self.links.append(FakeLink(self))
        self.fabric.links.append(self.links[-1])
        return self.links[-1]

    async def register(self, buffer: Any, *, remote_write: bool) -> FakeRegistration:
        assert not self.closed, "a closed domain registers nothing"
        if self.fabric.attach_error:
            raise self.fabric.attach_error
        made = FakeRegistration(buffer, remote_write)
        self.registrations.append(made)
        return made

    @property
    def live(self) -> list[FakeRegistration]:
        return [made for made in self.registrations if not made.ended]

    async def close(self) -> None:
        self.closed = True
        for link in self.links:
            await link.close()
        for made in self.live:
            await made.close()


@dataclass
class FakeConnections:
    """The server's side: `on` makes connections; `hooks` may answer a token's request otherwise."""

    fabric: Any = None
    on: bool = False
    known: dict[str, FakeLink] = field(default_factory=dict)
    refusal: tuple[int, str, str] = (404, "NoSuchBucket", "no such bucket")
    disconnects: int = 0
    reply_headers: Callable[[dict[str, str]], dict[str, str]] = lambda headers: headers

    def connect(self) -> web.Response | None:
        """None where the server makes none."""
        if not self.on:
            return None
        connection = f"{len(self.fabric.links):032x}"
        self.known[connection] = self.fabric.links[-1]
        token = struct.pack("<BI16sIQQBH", 1, 0x444, GID, 0, 0, 0, 1, 0).hex()
        headers = {
            "x-amz-rdma-session": connection,
            "x-amz-rdma-reply": f"200:{token}",
            "x-amz-rdma-psn": "00f00d",
        }
        return web.Response(headers=headers)

    async def disconnect(self) -> web.Response:
        self.disconnects += 1
        return web.Response(status=204)

    def forget(self) -> None:
        """As after a restart."""
        self.known.clear()

    def memory(self, token: str, *, write: bool) -> memoryview | None:
        """What the token names; None where the connection is unknown."""
        _, connection, addr, size, rkey = token.split(":")
        link = self.known.get(connection)
        if link is None:
            return None
        start, length = int(addr, 16), int(size, 16)
        (made,) = [one for one in link.domain.live if one.buffer.rkey == int(rkey, 16)]
        assert made.remote_write == write
        assert made.buffer.addr <= start
        assert start + length <= made.buffer.addr + made.buffer.length_bytes
        return memoryview((ctypes.c_char * length).from_address(start)).cast("B")

    def answer(
        self, seen: Any, s3: Callable[[Any], web.Response], *, flip_byte: bool
    ) -> web.Response:
        """An object request with a connection's token, done by `s3` (PROTOCOL section 4)."""
        assert seen.body == b""
        assert "x-amz-rdma-token" in seen.signed
        assert seen.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
        memory = self.memory(seen.headers["x-amz-rdma-token"], write=seen.method == "GET")
        if seen.method == "PUT":
            if memory is None:
                return declined_put()
            return self.moved(s3(replace(seen, body=bytes(memory))), len(memory))
        reply = s3(seen)
        if reply.status >= 300:
            return reply
        data = bytearray(reply.body)  # type: ignore[arg-type]
        if memory is None or len(data) > len(memory):
            return declined_get(reply)
        if flip_byte:
            data[-1] ^= 1
        memory[: len(data)] = data
        return self.moved(reply, len(data))

    def moved(self, reply: web.Response, count: int) -> web.Response:
        headers = {name: value for name, value in reply.headers.items() if name != "Content-Length"}
        headers["x-amz-rdma-reply"] = str(reply.status)
        headers["x-amz-rdma-bytes-transferred"] = str(count)
        return web.Response(status=reply.status, headers=self.reply_headers(headers))


def declined_get(reply: web.Response) -> web.Response:
    reply.headers["x-amz-rdma-reply"] = "501"
    return reply


def declined_put() -> web.Response:
    text = "<Error><Code>RDMANotSupported</Code></Error>"
    return web.Response(
        text=text, content_type="application/xml", headers={"x-amz-rdma-reply": "501"}
    )
