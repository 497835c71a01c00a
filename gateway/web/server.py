"""aiohttp on one side, `web.pipeline` on the other: heads in, replies out, and when to hang up.

Nothing here knows S3. aiohttp's router is left out on purpose: it decodes paths, which SigV4 can't
take, and sends 100-continue before anyone has authenticated.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from aiohttp import web

from gateway.config import HttpConfig
from gateway.errors import ClientError
from gateway.web.body import Digesting
from gateway.web.connection import Connection, Connections
from gateway.web.delivery import ReadAhead
from gateway.web.exchange import Exchange, Sent
from gateway.web.heads import check_head
from gateway.web.pipeline import Pipeline
from gateway.web.render import HttpReply

_BACKLOG = 1024  # connections that the kernel completes before they are accepted
_CUT_S = 0.1  # for a cancelled handler to let go of what it holds; 0 would mean for ever


class Server:
    """The listening socket and everything behind it. Made and used inside the event loop.

    Args:
        config: where to listen, and the limits.
        pipeline: answers requests.
    """

    def __init__(self, config: HttpConfig, pipeline: Pipeline) -> None:
        limits = config.limits
        self._config = config
        self._pipeline = pipeline
        self._digesting = Digesting(limits.digest_threads, limits.max_settling)
        self._ahead = ReadAhead(limits.max_read_aheads, limits.read_ahead_bytes)
        self._connections = Connections(self._serve, limits)
        self._listener: asyncio.Server | None = None
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopping = False

    async def start(self) -> int:
        """Listen; returns the port. Raises OSError where the address is taken or not ours."""
        self._listener = await asyncio.get_running_loop().create_server(
            self._connections, self._config.host, self._config.port, backlog=_BACKLOG
        )
        return cast(int, self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accept nothing more, let running requests end within the grace, then cut them."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        self._connections.retire()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.limits.shutdown_grace_s):
                await self._quiet.wait()
        await self._connections.shutdown(timeout=_CUT_S)
        self._digesting.close()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer aiohttp's call: one request from head to hang-up."""
        self._running += 1
        self._quiet.clear()
        exchange = Exchange(request, self._config.limits, self._digesting)
        try:
            reply = await self._respond(exchange)
            await exchange.send(reply, self._ahead, stopping=self._stopping)
            await exchange.discard_rest()
        finally:
            exchange.log()
            cast(Connection, request.protocol).answered()
            self._running -= 1
            if not self._running:
                self._quiet.set()
        return Sent(keep=exchange.keep)

    async def _respond(self, exchange: Exchange) -> HttpReply:
        try:
            check_head(exchange.head, self._config.limits)
        except ClientError as error:
            exchange.keep = False
            return exchange.failed(error)
        return await self._pipeline.respond(exchange.head, exchange.body, exchange.request_id)
