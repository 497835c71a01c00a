"""An existing boto3 client whose large bodies go by RDMA, where the server can.

::

    s3 = boto3.client("s3", endpoint_url="http://gateway:9000")
    accelerate(s3)
    s3.download_file("bucket", "key", "file")

Nothing of boto3 is replaced. Just before botocore sends a GetObject, PutObject or UploadPart, the
same request is made by a connection (PROTOCOL.md section 4), and where that succeeds botocore is
given the answer, with the bytes behind it, as though it had sent it (its event ``before-send``):
so retries, checksums, parsing, exceptions, pagination and s3transfer's threads are its own. In any
other case it sends what it was about to send. An error is met again that way, and so is botocore's.

Left to plain HTTP: bodies outside the limits, requests that are not signed with SigV4, that carry
``Content-MD5`` (it speaks of the HTTP body) or a trailing checksum (botocore's way over TLS).
"""

from __future__ import annotations

import asyncio
import ctypes
import io
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.credentials import Credentials
from typing_extensions import Buffer

from gateway.client.boto3_body import body_length, take_body
from gateway.client.client import DEFAULT_LIMITS
from gateway.client.connection import Call, Connection
from gateway.client.errors import S3RdmaError, UnreachableError, UnsupportedError
from gateway.client.fabric import FabricDoor, check_reach
from gateway.client.memory import address_of, memory_at
from gateway.client.rc_carrier import Moved, RcCarrier
from gateway.client.rc_link import LinkKeeper
from gateway.client.signing import Signer
from gateway.client.sync import LoopThread, finally_do
from gateway.client.trust import Verify
from gateway.config import MIB
from gateway.config.client import ClientLimits

_log = logging.getLogger(__name__)

_OPERATIONS = ("GetObject", "PutObject", "UploadPart")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")

_REPLACED = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "expect",
        "host",
        "transfer-encoding",
        "user-agent",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-security-token",
    }
)
"""Headers of the message or its signature, which the request by RDMA has of its own."""

_LEFT_ALONE = frozenset({"content-md5"})


def accelerate(
    client: Any,
    *,
    min_bytes: int = MIB,
    device: str = "",
    verify: Verify = None,
    limits: ClientLimits = DEFAULT_LIMITS,
) -> Acceleration:
    """Let the large bodies of a boto3 S3 client go by RDMA from now on.

    Args:
        client: of ``boto3.client("s3")``, or ``boto3.resource("s3").meta.client``.
        min_bytes: shorter bodies stay with botocore. A GET whose length its Range doesn't tell
            costs a HEAD, to know how much memory it needs.
        device: as for `Client`.
        verify: as `client` was made with.
        limits: `accelerated_max_bytes` bounds a body, which is in memory whole.

    Returns:
        What was carried, and ``close`` to undo it; it is closed when `client` is collected.
    """
    acceleration = Acceleration(min_bytes, device, verify, limits)
    events = client.meta.events
    for name, handler in acceleration.handlers():
        events.register(name, handler)
    finally_do(client, acceleration.close)
    return acceleration


@dataclass(frozen=True, slots=True)
class _Identity:
    """By whom a link is made: another key's requests can't use it."""

    origin: str
    region: str
    access_key: str
    token: str | None


class _Gateway:
    """One origin and one identity. Of the loop's thread."""

    def __init__(self, connection: Connection, door: FabricDoor, limits: ClientLimits) -> None:
        self._connection = connection
        self._keeper = LinkKeeper(self._connection, limits)
        self._door = door
        self._limits = limits

    async def get(self, call: Call, min_bytes: int) -> tuple[Moved, bytes] | None:
        """The answer and its bytes; None where they are too few or too many."""
        carrier = await self._carrier()
        wanted = _RANGE.fullmatch(call.headers.get("Range", ""))
        if wanted:
            length_bytes = int(wanted[2]) + 1 - int(wanted[1])
        else:
            head = await self._connection.fetch(Call("HEAD", call.address, call.headers))
            length_bytes = int(head.headers.get("Content-Length", "0"))
        if not max(1, min_bytes) <= length_bytes <= self._limits.accelerated_max_bytes:
            return None
        data, view = _blank(length_bytes)
        moved = await self._move(carrier, call, view, exact=False)
        return moved, data if moved.bytes == length_bytes else data[: moved.bytes]

    async def put(self, call: Call, data: memoryview) -> Moved:
        return await self._move(await self._carrier(), call, data, exact=True)

    async def close(self) -> None:
        try:
            await self._keeper.close()
        finally:
            await self._connection.close()

    async def _carrier(self) -> RcCarrier:
        fabric = await self._door.fabric()
        check_reach(fabric.info, self._connection.endpoint)
        await self._keeper.linked(fabric)
        return RcCarrier(self._connection, fabric, self._keeper, self._limits)

    async def _move(
        self, carrier: RcCarrier, call: Call, view: memoryview, *, exact: bool
    ) -> Moved:
        try:
            return await carrier.move(call, view, exact=exact)
        except UnreachableError as error:
            self._door.shut(str(error))
            raise


class Acceleration:
    """What `accelerate` did to a client. Threads may share the client, as ever.

    Attributes:
        transfers: requests whose bytes went by RDMA.
        bytes: of them together.
        reason: why the last one that could have did not; None where none failed.
    """

    def __init__(self, min_bytes: int, device: str, verify: Verify, limits: ClientLimits) -> None:
        self.transfers = 0
        self.bytes = 0
        self.reason: str | None = None
        self._min_bytes = min_bytes
        self._limits = limits
        self._verify = verify
        self._door = FabricDoor(device)
        self._gateways: dict[_Identity, _Gateway] = {}
        self._signing = threading.local()
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._closed = False

    def handlers(self) -> Iterator[tuple[str, Any]]:
        """Botocore's events, and what is to be called."""
        for operation in _OPERATIONS:
            yield f"before-sign.s3.{operation}", self._before_sign
            yield f"before-send.s3.{operation}", self._before_send

    def close(self) -> None:
        """End it: links are closed, and everything goes as it did before."""
        with self._lock:
            thread, self._thread, self._closed = self._thread, None, True
        if thread is not None:
            thread.run(self._close_all())
            thread.stop()

    def _before_sign(self, request_signer: Any, region_name: str, **_event: object) -> None:
        """Remember who signs; the request that is sent next in this thread is the same one."""
        self._signing.by = request_signer, region_name

    def _before_send(self, request: AWSPreparedRequest, **_event: object) -> AWSResponse | None:
        """The answer where the bytes went by RDMA; None lets botocore send the request."""
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        if _LEFT_ALONE & headers.keys() or not _signed(headers):
            return None
        if request.method == "PUT" and not self._fits(body_length(headers)):
            return None
        thread = self._running()
        if thread is None:
            return None
        try:
            return self._carry(thread, request, headers)
        except (S3RdmaError, ValueError) as error:
            self.reason = str(error)
            _log.debug("%s goes by HTTP: %s", request.method, error)
            return None

    def _carry(
        self, thread: LoopThread, request: AWSPreparedRequest, headers: Mapping[str, str]
    ) -> AWSResponse | None:
        parts = urlsplit(request.url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        credentials, region = self._credentials()
        gateway = thread.run(self._gateway(f"{parts.scheme}://{parts.netloc}", credentials, region))
        if request.method == "PUT":
            data, headers = take_body(request, headers)
            try:
                moved = thread.run(gateway.put(_call("PUT", target, headers), memoryview(data)))
            except S3RdmaError:
                request.reset_stream()
                raise
            return self._answer(request, moved, b"")
        got = thread.run(gateway.get(_call("GET", target, headers), self._min_bytes))
        return None if got is None else self._answer(request, *got)

    def _answer(self, request: AWSPreparedRequest, moved: Moved, body: bytes) -> AWSResponse:
        with self._lock:
            self.transfers += 1
            self.bytes += moved.bytes
        headers = dict(moved.headers.items()) | {"Content-Length": str(len(body))}
        return AWSResponse(request.url, moved.status, headers, Landed(body))

    def _credentials(self) -> tuple[Any, str]:
        """The frozen credentials that this thread's request was signed with, and its region."""
        signer, region = self._signing.by
        return signer.get_auth_instance("s3", region, "s3v4").credentials, region

    async def _gateway(self, origin: str, credentials: Any, region: str) -> _Gateway:
        identity = _Identity(origin, region, credentials.access_key, credentials.token)
        gateway = self._gateways.get(identity)
        if gateway is None:
            if len(self._gateways) >= self._limits.accelerated_origins:
                raise UnsupportedError(
                    f"one client has links to {len(self._gateways)} hosts and keys at most; "
                    "use path-style addresses, so that buckets share a host"
                )
            own = Credentials(credentials.access_key, credentials.secret_key, credentials.token)
            connection = Connection(origin, Signer(own, region), self._limits, self._verify)
            gateway = _Gateway(connection, self._door, self._limits)
            self._gateways[identity] = gateway
        return gateway

    async def _close_all(self) -> None:
        try:
            await asyncio.gather(*(gateway.close() for gateway in self._gateways.values()))
        finally:
            await self._door.close()

    def _fits(self, length_bytes: int | None) -> bool:
        if length_bytes is None:
            return False
        return self._min_bytes <= length_bytes <= self._limits.accelerated_max_bytes

    def _running(self) -> LoopThread | None:
        """The loop, started by the first request; None once closed."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = LoopThread()
            return self._thread


class Landed(io.RawIOBase):
    """Bytes that have arrived, with what botocore uses of urllib3's response."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self._position = 0

    def readable(self) -> bool:
        return True

    def read(self, amt: int | None = -1) -> bytes:
        """All that is left, uncopied where nothing was read before; or `amt` bytes of it."""
        end = len(self._data) if amt is None or amt < 0 else self._position + amt
        piece = self._data[self._position : end]  # of a whole bytes object: the object itself
        self._position += len(piece)
        return piece

    def readinto(self, buffer: Buffer) -> int:
        into = memoryview(buffer).cast("B")
        piece = memoryview(self._data)[self._position : self._position + len(into)]
        into[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def stream(self, amt: int = MIB, **_options: object) -> Iterator[bytes]:
        """What is left, in pieces."""
        while piece := self.read(amt):
            yield piece


def _blank(length_bytes: int) -> tuple[bytes, memoryview]:
    """A new bytes object, and its memory, to be filled before anybody has seen the object.

    botocore's users want bytes: landing them elsewhere would cost as much again as a fast device
    takes to move them. CPython leaves the contents to the maker where it is given none
    (https://docs.python.org/3/c-api/bytes.html#c.PyBytes_FromStringAndSize). The memory is valid
    as long as the object.
    """
    make = ctypes.pythonapi.PyBytes_FromStringAndSize
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_char_p, ctypes.c_ssize_t)
    data: bytes = make(None, length_bytes)
    return data, memory_at(address_of(memoryview(data)), length_bytes)


def _signed(headers: Mapping[str, str]) -> bool:
    return headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 ")


def _call(method: str, target: str, headers: Mapping[str, str]) -> Call:
    kept = {name.title(): text for name, text in headers.items() if name not in _REPLACED}
    return Call(method, target, kept)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
