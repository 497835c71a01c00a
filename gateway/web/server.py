"""aiohttp on one side, `web.pipeline` on the other: heads in, replies out, and when to hang up.

Nothing here knows S3. aiohttp's router is left out on purpose: it decodes paths, which SigV4 can't
take, and sends 100-continue before anyone has authenticated.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any, cast

from aiohttp import web

from gateway.config import HttpConfig
from gateway.errors import BusyError, ClientError
from gateway.telemetry import Recorder, log_request
from gateway.telemetry.catalogue import (
    DIGEST_JOBS,
    HTTP_CONNECTIONS,
    READ_AHEADS,
    RUNNING,
    SETTLING,
)
from gateway.telemetry.measures import Sample
from gateway.telemetry.traces import request_span
from gateway.web.body import Digesting
from gateway.web.connection import Connection, Connections, Origin
from gateway.web.delivery import ReadAhead
from gateway.web.exchange import Exchange, Sent
from gateway.web.handover import Handover, Mailboxes
from gateway.web.heads import check_head
from gateway.web.listener import Listener
from gateway.web.pipeline import Pipeline
from gateway.web.render import HttpReply

_CUT_S = 0.1  # for a cancelled handler to let go of what it holds; 0 would mean for ever


class Server:
    """The listening socket and everything behind it. Made and used inside the event loop.

    Args:
        config: where to listen, and the limits.
        pipeline: answers requests.
        mailboxes: those of all workers that share the port, where there are several.
        recorder: told of each request that is over.
        tls: None for plain HTTP.
        handshake_timeout_s: of TLS; None without.
    """

    def __init__(
        self,
        config: HttpConfig,
        pipeline: Pipeline,
        mailboxes: Mailboxes | None = None,
        *,
        recorder: Recorder = log_request,
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float | None = None,
    ) -> None:
        limits = config.limits
        self._config = config
        self._pipeline = pipeline
        self._recorder = recorder
        self._digesting = Digesting(limits.digest_threads, limits.max_settling)
        self._ahead = ReadAhead(limits.max_read_aheads, limits.read_ahead_bytes)
        self._connections = Connections(self._serve, limits)
        self.listener = Listener(self._connections, tls, handshake_timeout_s)
        self._handover = None if mailboxes is None else Handover(mailboxes, self._adopt)
        self._adopting: set[asyncio.Task[Any]] = set()
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopping = False

    async def start(self) -> int:
        """Listen; returns the port. Raises OSError where the address is taken or not ours."""
        port = await self.listener.start(
            self._config.host, self._config.port, shared=self._handover is not None
        )
        if self._handover is not None:
            self._handover.start()
        return port

    @property
    def accepting(self) -> bool:
        """Whether new connections are taken."""
        return self.listener.open and not self._stopping

    async def stop(self) -> None:
        """Accept nothing more, let running requests end within the grace, then cut them."""
        self._stopping = True
        self.listener.close()
        if self._handover is not None:
            self._handover.stop()
        self._connections.retire()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.limits.shutdown_grace_s):
                await self._quiet.wait()
        await self._connections.shutdown(timeout=_CUT_S)
        self._digesting.close()

    def metrics(self) -> Iterator[Sample]:
        yield RUNNING.sample(self._running)
        yield HTTP_CONNECTIONS.sample(len(self._connections.connections))
        yield SETTLING.sample(self._digesting.settling)
        yield DIGEST_JOBS.sample(self._digesting.jobs)
        yield READ_AHEADS.sample(self._ahead.in_use)
        if self._handover is not None:
            yield from self._handover.metrics()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer aiohttp's call: one request from head to hang-up."""
        self._running += 1
        self._quiet.clear()
        exchange = Exchange(request, self._config.limits, self._digesting)
        try:
            with request_span(exchange.trail, exchange.head.get("traceparent")):
                reply = await self._respond(exchange)
                if reply is None:
                    return Sent(keep=False)
                await exchange.send(reply, self._ahead, stopping=self._stopping)
            await exchange.discard_rest()
        finally:
            if not exchange.passed_on:
                self._recorder(exchange.record())
            cast(Connection, request.protocol).answered()
            self._running -= 1
            if not self._running:
                self._quiet.set()
        return Sent(keep=exchange.keep)

    async def _respond(self, exchange: Exchange) -> HttpReply | None:
        """The reply; None where the connection went to another worker, and is answered there."""
        try:
            check_head(exchange.head, self._config.limits)
            if self._handover is not None and await self._handover.passed_on(exchange):
                return None
        except (ClientError, BusyError) as error:
            exchange.keep = False
            return exchange.failed(error)
        return await self._pipeline.respond(exchange.head, exchange.body, exchange.request_id)

    def _adopt(self, sock: socket.socket, head: bytes, origin: Origin) -> None:
        """Go on with a connection that another worker accepted."""
        task = asyncio.ensure_future(
            asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connections.adopted(head, origin), sock
            )
        )
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)
