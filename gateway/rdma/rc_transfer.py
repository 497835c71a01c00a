"""Object requests whose data moves by a connection (PROTOCOL section 4): one round trip each.

The request names a connection and a buffer, and the gateway, the only initiator, reads or writes
that buffer. What may move and what it means is decided by the gateway's one path, as for plain
HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gateway.auth.chunks import EMPTY_SHA256
from gateway.auth.payload import PayloadMode
from gateway.auth.sigv4 import Verified
from gateway.dataplane.port import RemoteBuffer
from gateway.errors import BusyError, ClientError, S3Code, TransportError
from gateway.rdma.aio import to_the_end
from gateway.rdma.connections import Held
from gateway.rdma.fetch import FetchedBody, send_object
from gateway.rdma.journal import Entry
from gateway.rdma.rc_connection import ConnectionService
from gateway.s3.body import Body
from gateway.s3.integrity import Declared
from gateway.s3.operations import GetObject, PutObject, UploadPart
from gateway.s3.results import ObjectReply, Reply
from gateway.telemetry import trail
from gateway.telemetry.traces import span
from gateway.wire.rc_connection import TransferToken, parse_cookie
from gateway.wire.rdma_headers import BYTES_TRANSFERRED, REPLY, TOKEN
from gateway.wire.request import RequestHead

Perform = Callable[[Body | None], Awaitable[Reply]]
"""The operation that was authorised, with the body given in place of HTTP's."""

DECLINED = (REPLY, "501")
"""The reply header by which a client learns that its object did not move by RDMA."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What was carried, for metrics. Bytes are of finished transfers."""

    transfers: int
    declined: int
    failures: int
    sent_bytes: int
    received_bytes: int


class Carriage:
    """Carries object requests by connections. One event loop.

    Args:
        connections: lends them.
        window_timeout_s: for each stretch of `rdma.fetch.WINDOW_BYTES`.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        connections: ConnectionService,
        window_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._window_timeout_s = window_timeout_s
        self._clock = clock
        self._transfers = self._declined = self._failures = 0
        self._sent_bytes = self._received_bytes = 0

    async def carry(
        self,
        head: RequestHead,
        operation: GetObject | PutObject | UploadPart,
        verified: Verified,
        perform: Perform,
    ) -> Reply | None:
        """Perform an authorised operation whose request carries a connection's token.

        Returns:
            The reply; None where no such connection is this key's: then nothing was done, and the
            caller declines.

        Raises:
            ClientError: InvalidRDMAToken, InvalidRequest, and what `perform` raises.
            TransportError: the data of a PUT did not come; nothing was stored.
        """
        token = TransferToken.parse(head.get(TOKEN) or "")
        owner = verified.principal.access_key or ""
        with self._connections.lend(token.connection, owner) as held:
            if held is None:
                return None
            trail().names(held.id)
            if isinstance(operation, GetObject):
                return await self._get(head, operation, held, token, perform)
            return await self._put(head, operation, verified, held, token, perform)

    def stats(self) -> Stats:
        return Stats(
            transfers=self._transfers,
            declined=self._declined,
            failures=self._failures,
            sent_bytes=self._sent_bytes,
            received_bytes=self._received_bytes,
        )

    async def _get(
        self,
        head: RequestHead,
        operation: GetObject,
        held: Held,
        token: TransferToken,
        perform: Perform,
    ) -> Reply:
        """GET: into the client's buffer, or else, said so, into the reply's body."""
        cookie = parse_cookie(head)
        opened = await perform(None)
        if not isinstance(opened, ObjectReply):
            return opened
        try:
            if opened.extent.length_bytes > token.size_bytes:
                return self._decline(opened)
            try:
                await self._send(operation, held, token, opened, cookie)
            except (TransportError, BusyError):
                return self._decline(opened)
        except BaseException:
            await to_the_end(opened.reader.close())
            raise
        await to_the_end(opened.reader.close())
        return _moved(Reply(opened.status, opened.headers), opened.extent.length_bytes)

    async def _send(
        self,
        operation: GetObject,
        held: Held,
        token: TransferToken,
        opened: ObjectReply,
        cookie: int | None,
    ) -> None:
        length_bytes = opened.extent.length_bytes
        with self._journal("GET", operation, held, length_bytes), span("data", path="rc"):
            if length_bytes:
                await send_object(
                    held.connection,
                    opened.reader,
                    opened.extent,
                    _buffer(token),
                    owner=held.owner or "",
                    cookie=cookie,
                    window_timeout_s=self._window_timeout_s,
                )
        self._sent_bytes += length_bytes

    def _decline(self, opened: ObjectReply) -> Reply:
        self._declined += 1
        trail().path = "http"
        return replace(opened, headers=(*opened.headers, DECLINED))

    async def _put(
        self,
        head: RequestHead,
        operation: PutObject | UploadPart,
        verified: Verified,
        held: Held,
        token: TransferToken,
        perform: Perform,
    ) -> Reply:
        """PUT: what the client's buffer holds becomes the object or part."""
        _refuse_http_body(head, verified)
        body = FetchedBody(
            held.connection,
            _buffer(token),
            held.owner or "",
            Declared.of(head),
            window_timeout_s=self._window_timeout_s,
        )
        with self._journal("PUT", operation, held, token.size_bytes):
            try:
                reply = await perform(body)
            except TransportError as error:  # section 4 knows one: a timeout is RDMATransferFailed
                raise TransportError(error.message) from error
        self._received_bytes += token.size_bytes
        return _moved(reply, token.size_bytes)

    @contextmanager
    def _journal(
        self,
        verb: str,
        operation: GetObject | PutObject | UploadPart,
        held: Held,
        length_bytes: int,
    ) -> Iterator[None]:
        """Count and log a transfer, however it ends."""
        entry = Entry(verb, operation.bucket, operation.key, length_bytes, held.id)
        trail().path = "rc"
        begun_s = self._clock()
        try:
            yield
        except BaseException as error:
            self._failures += 1
            entry.failed(self._clock() - begun_s, error)
            raise
        self._transfers += 1
        trail().moved_bytes = length_bytes
        entry.done(self._clock() - begun_s, held.connection.carrier)


def _buffer(token: TransferToken) -> RemoteBuffer:
    return RemoteBuffer(token.addr, token.rkey, token.size_bytes)


def _moved(reply: Reply, length_bytes: int) -> Reply:
    """The success that PROTOCOL section 4 asks for: an empty body, and how many bytes moved."""
    moved = ((REPLY, str(reply.status)), (BYTES_TRANSFERRED, str(length_bytes)))
    return replace(reply, headers=(*reply.headers, *moved))


def _refuse_http_body(head: RequestHead, verified: Verified) -> None:
    """A PUT by RDMA has no other body, and nothing in HTTP vouches for one.

    Raises:
        ClientError: InvalidRequest.
    """
    if head.get("content-length") not in (None, "0") or head.get("transfer-encoding") is not None:
        raise ClientError(
            S3Code.INVALID_REQUEST, f"A request with {TOKEN} must have Content-Length: 0."
        )
    payload = verified.payload
    if payload.mode is not PayloadMode.UNSIGNED and payload.sha256_hex != EMPTY_SHA256:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"A request with {TOKEN} must have x-amz-content-sha256: UNSIGNED-PAYLOAD.",
        )
    if head.get("content-md5") is not None:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"Content-MD5 speaks of the HTTP body; with {TOKEN}, send x-amz-checksum-*.",
        )
