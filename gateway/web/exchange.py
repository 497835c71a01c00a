"""One request and its reply on a connection: what is read, sent, logged, and when to hang up."""

from __future__ import annotations

import asyncio
import logging
import time
from email.utils import formatdate
from typing import cast

from aiohttp import web
from aiohttp.web import RequestPayloadError

from gateway import telemetry
from gateway.auth.sigv4 import Verified
from gateway.config import HttpLimits
from gateway.errors import GatewayError
from gateway.s3.results import ObjectReply
from gateway.telemetry.traces import span
from gateway.web.body import Digesting, HttpBody, Source
from gateway.web.connection import Connection, new_request_id
from gateway.web.delivery import ReadAhead, deliver
from gateway.web.form import FormBody
from gateway.web.heads import read_head
from gateway.web.render import HttpReply, render_error
from gateway.wire.form_data import is_form

_log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"  # with its reason phrase (botocore#3455)


class Exchange:
    """One request and its reply on a connection.

    Attributes:
        keep: whether the connection may carry another request afterwards.
        passed_on: another worker answers it, and records it.
        trail: what becomes known of it.
    """

    def __init__(self, request: web.BaseRequest, limits: HttpLimits, digesting: Digesting) -> None:
        self.request_id = new_request_id()
        # aiohttp runs each request in a task, and so in a context, of its own
        self.trail = telemetry.begin(telemetry.Trail(self.request_id))
        self.head = read_head(request, cast(Connection, request.protocol).origin)
        self.keep = request.keep_alive and request.version >= (1, 1)
        self.passed_on = False
        self.request = request
        self._limits = limits
        self._digesting = digesting
        self._expects = (self.head.get("expect") or "").lower() == "100-continue"
        self._source = Source(request.content, self._proceed, limits.body_stall_timeout_s)
        self._came_s = time.time()
        self._began_s = time.monotonic()
        self._first_byte_s = 0.0
        self._head_bytes = 0  # of the reply

    def body(self, verified: Verified) -> HttpBody:
        """The request's body, to be held to what its signature says."""
        if self.head.method == "POST" and is_form(self.head):
            return FormBody(self._source, self.head, self._limits, self._digesting)
        return HttpBody(
            self._source,
            self.head,
            self._limits,
            self._digesting,
            sha256_hex=verified.payload.sha256_hex,
            verifier=verified.chunk_chain(),
        )

    async def send(self, reply: HttpReply, ahead: ReadAhead, *, stopping: bool) -> None:
        """Send a reply, whole or not at all: what can't be finished is cut off."""
        if stopping or self._waits_for_continue():
            self.keep = False
        head = self._head_of(reply)
        try:
            if reply.delivery is None:
                await self._write(head + reply.body)
            else:
                await self._deliver(reply.delivery, head, ahead)
        except (ConnectionError, TimeoutError) as error:
            _log.info("the client went away or stopped reading: %s", type(error).__name__)
            self._cut()

    async def _deliver(self, delivery: ObjectReply, head: bytes, ahead: ReadAhead) -> None:
        try:
            with span("data", path="http"):
                await deliver(self._write, head, delivery.reader, delivery.extent, ahead)
        except GatewayError as error:
            _log.error("reading an object failed: %s", getattr(error, "cause", error))
            if self.request.writer.output_size:
                self._cut()  # a short body must not look like a whole one
                return
            failed = self.failed(error)
            await self._write(self._head_of(failed) + failed.body)

    def _head_of(self, reply: HttpReply) -> bytes:
        head = reply.head(formatdate(usegmt=True), close=not self.keep)
        self.trail.status, self._head_bytes = reply.status, len(head)
        return head

    async def _write(self, data: bytes) -> None:
        if not self._first_byte_s:
            self._first_byte_s = time.monotonic() - self._began_s
        async with asyncio.timeout(self._limits.body_stall_timeout_s):
            await self.request.writer.write(data)

    async def discard_rest(self) -> None:
        """Read what is left of the body, so that the next request can be found behind it."""
        content, transport = self.request.content, self.request.transport
        if transport is None or transport.is_closing():
            return
        if self._waits_for_continue():
            self._hang_up()  # it may or may not send a body now: nobody can tell what comes next
            return
        try:
            async with asyncio.timeout(self._limits.discard_timeout_s):
                while not content.is_eof():
                    await content.readany()
        except (TimeoutError, RequestPayloadError, ConnectionError):
            self._hang_up()

    def failed(self, error: GatewayError) -> HttpReply:
        """An error as the reply to this request."""
        return render_error(
            error,
            method=self.head.method,
            resource=self.head.raw_path,
            request_id=self.request_id,
        )

    def record(self) -> telemetry.RequestRecord:
        """All that is known of the request, now that it is over."""
        head = self.head
        query = f"?{head.raw_query}" if head.raw_query else ""
        cipher = self.request.get_extra_info("cipher") or ("", "", 0)
        return telemetry.RequestRecord(
            trail=self.trail,
            method=head.method,
            target=head.raw_path + query,
            status=self.trail.status,
            received_bytes=self._source.received_bytes,
            sent_bytes=max(0, self.request.writer.output_size - self._head_bytes),
            seconds=time.monotonic() - self._began_s,
            peer=head.remote_ip,
            began_s=self._came_s,
            first_byte_s=self._first_byte_s,
            http_version="HTTP/{}.{}".format(*self.request.version),
            host=head.get("host") or "",
            referer=head.get("referer") or "",
            user_agent=head.get("user-agent") or "",
            cipher=cipher[0],
            tls_version=cipher[1],
        )

    def _proceed(self) -> None:
        transport = self.request.transport
        if self._expects and transport is not None:
            transport.write(_CONTINUE)

    def _waits_for_continue(self) -> bool:
        return self._expects and not self._source.begun and not self.request.content.is_eof()

    def _hang_up(self) -> None:
        """Close once everything written is out."""
        self.keep = False
        self.request.protocol.force_close()

    def _cut(self) -> None:
        """Close at once, so that the client sees a broken reply."""
        self.keep = False
        if self.request.transport is not None:
            self.request.transport.abort()


class Sent(web.StreamResponse):
    """Tells aiohttp that the reply is out, and whether to go on with the connection."""

    def __init__(self, *, keep: bool) -> None:
        super().__init__()
        self._keep = keep

    @property
    def keep_alive(self) -> bool:
        return self._keep

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None
