"""One HTTP connection: aiohttp's protocol, with S3's answers to heads that never become requests.

aiohttp bounds the request line, each field and their number, and answers 400 text/plain; here such
heads get S3's XML, the head as a whole is bounded in bytes and in time, and connections beyond the
limit are told to come back. Everything later than a complete head is ``web.server``'s.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, InvalidURLError, LineTooLong

from gateway.config import HttpLimits
from gateway.errors import BusyError, ClientError, GatewayError, InternalError, S3Code
from gateway.web.render import HttpReply, render_error

_log = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_HEAD_END = b"\r\n\r\n"
_READ_BYTES = 64 * 1024  # aiohttp's reading stops at twice this; the best for uvloop


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection began that another worker accepted: the peer's address, and TLS or not."""

    remote_ip: str
    secure: bool


class Connections(web.Server):
    """The protocol factory that the listening socket calls for each connection.

    Args:
        handler: answers one request and returns aiohttp's idea of a reply.
        limits: of heads and connections.
    """

    def __init__(self, handler: Handler, limits: HttpLimits) -> None:
        super().__init__(handler, handler_cancellation=True)
        self.limits = limits

    def __call__(self) -> Connection:
        limits = self.limits
        return Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_timeout_s,
            lingering_time=0,  # web.exchange discards what a handler did not read
            max_line_size=limits.max_line_bytes,
            max_field_size=limits.max_line_bytes,
            max_headers=limits.max_headers,
            read_bufsize=_READ_BYTES,
            auto_decompress=False,  # Content-Encoding: gzip is the object's, not the transfer's
            access_log=None,
            logger=_log,
        )

    def adopted(self, head: bytes, origin: Origin) -> Connection:
        """A connection that another worker accepted, to be made of its socket.

        Args:
            head: of the request that it stands at; taken as if it came now.
            origin: where it began.
        """
        connection = self()
        connection.origin, connection.handed_over = origin, head
        return connection

    def retire(self) -> None:
        """Close what is idle; the rest ends with the reply to its request.

        Not aiohttp's `pre_shutdown`: that makes busy connections drop what still comes of a body.
        """
        for connection in self.connections:
            cast(Connection, connection).close_if_idle()


class Connection(web.RequestHandler):
    """aiohttp's protocol for one connection. Relies on its `_request_count`, heads seen so far.

    Attributes:
        origin: where it began, if not here.
        handed_over: the head it came with, if another worker accepted it.
    """

    __slots__ = (
        "_answered",
        "_head_bytes",
        "_head_timer",
        "_limits",
        "_nothing_behind",
        "handed_over",
        "origin",
    )

    def __init__(self, manager: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._limits = manager.limits
        self._answered = 0
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._nothing_behind = False
        self.handed_over = b""
        self.origin: Origin | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if (
            self._manager is not None
            and len(self._manager.connections) > self._limits.max_connections
        ):
            self._refuse(BusyError("Too many connections (http.limits.max_connections)."))
        elif self.handed_over:
            self.data_received(self.handed_over)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        seen = self._request_count
        super().data_received(data)
        self._nothing_behind = self._request_count == seen + 1 and data.endswith(_HEAD_END)
        if self._request_count != seen:
            self._head_ended()
        elif data and seen == self._answered:
            self._head_grew(len(data))

    def answered(self) -> None:
        """Told by the handler once a request's reply is out and its body is read or given up."""
        self._answered += 1

    @property
    def stands_at_head(self) -> bool:
        """Whether the client sent one bodiless request and nothing since, and has all replies."""
        transport = self.transport
        return (
            transport is not None
            and self._nothing_behind
            and self._request_count == self._answered + 1
            and transport.get_write_buffer_size() == 0
        )

    def give_up(self) -> None:
        """Forget the connection: its transport is another's now."""
        self.transport = None
        self.connection_lost(None)

    def close_if_idle(self) -> None:
        """Close, unless a request is being answered."""
        if self._request_count == self._answered:
            self.force_close()

    def _head_grew(self, length_bytes: int) -> None:
        self._head_bytes += length_bytes
        if self._head_bytes > self._limits.max_header_bytes:
            self._refuse(ClientError(S3Code.REQUEST_HEADER_SECTION_TOO_LARGE))
        elif self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(
                self._limits.header_timeout_s,
                self._refuse,
                ClientError(S3Code.REQUEST_TIMEOUT),
            )

    def _head_ended(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: GatewayError) -> None:
        """Answer a head that is not there yet, and close."""
        if self.transport is not None:
            reply = _rendered(error)
            self.transport.write(reply.head(formatdate(usegmt=True), close=True) + reply.body)
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer heads that aiohttp's parser refuses (and bugs in the handler)."""
        reply = _rendered(_blame(status, exc))
        headers = {name: value for name, value in reply.headers if name != "content-length"}
        response = web.Response(status=reply.status, headers=headers, body=reply.body)
        response.force_close()
        return response


def _blame(status: int, exc: BaseException | None) -> GatewayError:
    """The error behind aiohttp's; its text is not passed on, as it quotes the head."""
    if status >= 500:
        _log.error("a reply failed outside the pipeline", exc_info=exc)
        return InternalError("a reply failed outside the pipeline")
    _log.debug("refused a head: %s", type(exc).__name__)
    match exc:
        case LineTooLong():
            return ClientError(S3Code.REQUEST_HEADER_SECTION_TOO_LARGE)
        case BadHttpMethod():
            return ClientError(S3Code.METHOD_NOT_ALLOWED)
        case InvalidURLError():
            return ClientError(S3Code.INVALID_URI)
    if exc is not None and "Too many headers" in str(exc):
        return ClientError(S3Code.REQUEST_HEADER_SECTION_TOO_LARGE)
    return ClientError(S3Code.INVALID_REQUEST, "The request is not well-formed HTTP/1.1.")


def _rendered(error: GatewayError) -> HttpReply:
    return render_error(error, method="", resource="", request_id=new_request_id())


def new_request_id() -> str:
    """16 upper-case hex digits, unpredictable."""
    return secrets.token_hex(8).upper()
