"""Object bytes by RDMA: hipobj-rc-v2 from the client's side (PROTOCOL.md section 2).

One call is one session::

    attach the caller's memory ─ PREPARE ─ connect ─┬─ READY ──────────────────┬─ verify ─ close
                                                    └─ receive, or write, data ┘

The memory is the caller's own, registered for one session in a protection domain of its own: the
gateway gets no right to anything else, and none to this once the lane is closed. That happens
before any method returns or raises, cancelled or not.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from gateway.client import checksum as crc
from gateway.client.carrier import Fetched, Stored
from gateway.client.connection import Call, Connection, Reply
from gateway.client.errors import (
    S3Error,
    S3RdmaError,
    TooLargeError,
    TransferError,
    UnsupportedError,
)
from gateway.client.fabric import check_answered
from gateway.client.parallel import both
from gateway.client.retry import while_busy
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Fabric, Lane, QpAddress, RemoteBuffer
from gateway.errors import GatewayError
from gateway.rdma.aio import to_the_end
from gateway.wire import rdma_headers as rdma
from gateway.wire.extent import Extent
from gateway.wire.rc_token import RcToken, Transport

_NOT_SPOKEN = frozenset({"InvalidBucketName", "MethodNotAllowed"})
"""How other S3 servers answer a POST to ``/.hipobj-rc/prepare``: to them it names a bucket."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be moved; `cookie` is drawn for one session."""

    op: rdma.TransferOp
    address: str
    offset_bytes: int
    size_bytes: int
    cookie: int
    headers: Mapping[str, str]


class RdmaCarrier:
    """Keeps the port ``carrier.Carrier``. The fabric is the caller's to close."""

    def __init__(self, connection: Connection, fabric: Fabric, limits: ClientLimits) -> None:
        self._connection = connection
        self._fabric = fabric
        self._limits = limits

    async def get(
        self, address: str, extent: Extent, into: memoryview, headers: Mapping[str, str]
    ) -> Fetched:
        async def attempt() -> Fetched:
            order = _order(
                rdma.TransferOp.GET, address, extent.offset_bytes, extent.length_bytes, headers
            )
            reply, lane = await self._session(order, into)
            etag = (reply.etag or "").strip('"')
            return Fetched(etag, crc.from_text(reply.crc64nvme), lane)

        return await while_busy(attempt, self._limits)

    async def put(
        self, address: str, data: memoryview, checksum: int | None, headers: Mapping[str, str]
    ) -> Stored:
        # The gateway verifies the declared checksum before it stores anything.
        declared = {**headers, **crc.declared(checksum)}

        async def attempt() -> Stored:
            order = _order(rdma.TransferOp.PUT, address, 0, len(data), declared)
            reply, lane = await self._session(order, data)
            stored = crc.from_text(reply.crc64nvme)
            if None not in {stored, checksum} and stored != checksum:
                raise TransferError(
                    "the gateway stored other bytes than were sent: CRC64NVME differs"
                )
            return Stored((reply.etag or "").strip('"'), reply.version_id, lane)

        return await while_busy(attempt, self._limits)

    async def _session(self, order: _Order, memory: memoryview) -> tuple[rdma.ReadyReply, str]:
        """One session from attach to close, within one deadline; and what moved its bytes."""
        timeout_s = self._limits.transfer_timeout_s
        try:
            async with self._lane(order, memory) as lane, asyncio.timeout(timeout_s):
                offer = await self._prepare(order, lane)
                try:
                    return await self._move(order, lane, offer), lane.carrier
                except BaseException:
                    await to_the_end(self._cancel(offer))
                    raise
        except TimeoutError as error:
            raise TransferError(
                f"the RDMA transfer did not end within {timeout_s:g} s; --http moves the bytes "
                "without RDMA"
            ) from error
        except GatewayError as error:
            check_answered(self._fabric.info, error)
            raise TransferError(f"the RDMA transfer failed: {error.message}") from error
        except S3Error as error:
            check_answered(self._fabric.info, error)
            raise

    @asynccontextmanager
    async def _lane(self, order: _Order, memory: memoryview) -> AsyncIterator[Lane]:
        try:
            lane = self._fabric.attach(memory, remote_write=order.op is rdma.TransferOp.GET)
        except GatewayError as error:
            raise UnsupportedError(
                f"this host's RDMA device did not take the memory: {error.message}"
            ) from error
        try:
            yield lane
        finally:
            await to_the_end(lane.close())

    async def _prepare(self, order: _Order, lane: Lane) -> rdma.PrepareReply:
        raw_path, _, raw_query = order.address.partition("?")
        request = rdma.PrepareRequest(
            token=_token(lane, self._fabric.info.port),
            psn=lane.local.psn,
            cookie=order.cookie,
            op=order.op,
            raw_path=raw_path,
            raw_query=raw_query,
            size_bytes=order.size_bytes,
            offset_bytes=order.offset_bytes,
        )
        headers = {**order.headers, **dict(rdma.prepare_headers(request))}
        try:
            reply = await self._connection.fetch(Call("POST", rdma.PREPARE_PATH, headers))
        except S3Error as error:
            raise _refusal(error) from error
        if rdma.PROTOCOL not in reply.headers:
            raise UnsupportedError(f"the server does not speak {rdma.RC_PROTOCOL}")
        return rdma.parse_prepare_reply(reply.headers.items())

    async def _move(self, order: _Order, lane: Lane, offer: rdma.PrepareReply) -> rdma.ReadyReply:
        """READY and the data phase at once, then what both say of the transfer."""
        token = offer.token
        lane.connect(QpAddress(token.qpn, offer.psn, token.gid, token.lid))
        if order.op is rdma.TransferOp.GET:
            lane.post_receive()
        reply, _ = await both(self._ready(order, lane, offer), self._data(order, lane, offer))
        done = rdma.parse_ready_reply(reply.headers.items())
        if done.cookie != order.cookie:
            raise TransferError("the gateway answered for another transfer: its cookie differs")
        if done.bytes_transferred != order.size_bytes:
            raise TransferError(
                f"the gateway says it moved {done.bytes_transferred} of {order.size_bytes} bytes"
            )
        return done

    async def _data(self, order: _Order, lane: Lane, offer: rdma.PrepareReply) -> None:
        """Our side's part of the data phase."""
        deadline_s = self._limits.transfer_timeout_s
        match order.op:
            case rdma.TransferOp.GET:
                # The immediate's byte_len is the last WRITE's alone: no measure of the object.
                await lane.received(order.cookie, None, deadline_s)
            case rdma.TransferOp.PUT:
                staging = RemoteBuffer(offer.memory.addr, offer.memory.rkey, order.size_bytes)
                await lane.write(order.size_bytes, staging, order.cookie, deadline_s)

    async def _ready(self, order: _Order, lane: Lane, offer: rdma.PrepareReply) -> Reply:
        memory = rdma.RemoteMemory(lane.buffer.addr, lane.buffer.rkey)
        request = rdma.ReadyRequest(offer.session, order.cookie, lane.local.qpn, memory)
        headers = dict(rdma.ready_headers(request))
        return await self._connection.fetch(
            Call("POST", rdma.READY_PATH, headers), self._limits.transfer_timeout_s
        )

    async def _cancel(self, offer: rdma.PrepareReply) -> None:
        """Best effort: a session that is not cancelled dies of its deadline."""
        headers = dict(rdma.cancel_headers(rdma.CancelRequest(offer.session)))
        with suppress(S3RdmaError):
            await self._connection.fetch(
                Call("POST", rdma.CANCEL_PATH, headers), self._limits.cancel_timeout_s
            )


async def probe(connection: Connection) -> None:
    """Whether the gateway takes sessions: CANCEL of one that nobody has is answered with 204.

    Raises:
        UnsupportedError: it does not, and why.
    """
    request = rdma.CancelRequest(secrets.token_hex(16))
    headers = dict(rdma.cancel_headers(request))
    try:
        await connection.fetch(Call("POST", rdma.CANCEL_PATH, headers))
    except S3Error as error:
        raise _refusal(error) from error


def _order(
    op: rdma.TransferOp,
    address: str,
    offset_bytes: int,
    size_bytes: int,
    headers: Mapping[str, str],
) -> _Order:
    cookie = secrets.randbelow(2**32 - 1) + 1  # unpredictable, and never 0
    return _Order(op, address, offset_bytes, size_bytes, cookie, headers)


def _token(lane: Lane, port_num: int) -> RcToken:
    """Every field we know, so that no peer has to guess."""
    local, buffer = lane.local, lane.buffer
    return RcToken(
        transport=Transport.RC,
        qpn=local.qpn,
        gid=local.gid,
        rkey=buffer.rkey,
        addr=buffer.addr,
        length_bytes=buffer.length_bytes,
        port_num=port_num,
        lid=local.lid,
    )


def _refusal(error: S3Error) -> S3RdmaError:
    """What a refused PREPARE means: no RDMA here, not in one piece, or S3's own error."""
    if error.status == 501:
        detail = f": {error.message}" if error.message else ""
        return UnsupportedError(f"the server answered 501 unsupported{detail}")
    if error.status == 405 or error.code in _NOT_SPOKEN:
        return UnsupportedError(f"the server does not speak {rdma.RC_PROTOCOL}")
    if error.status == 413:
        return TooLargeError(f"one RDMA session is too small for a part: {error.message}")
    return error
