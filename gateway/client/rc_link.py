"""The connection to the gateway that a client's transfers share (PROTOCOL.md section 3).

It is made when the first transfer wants it, and made again after it broke. Each has a queue pair
and a protection domain of its own; its peer reaches what is registered for it, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from gateway.client.connection import Call, Connection
from gateway.client.errors import S3Error, S3RdmaError, TransferError, UnsupportedError
from gateway.client.memory import Borrowed
from gateway.client.registrations import Holds, Registrations
from gateway.client.retry import while_busy
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Fabric, Link, QpAddress
from gateway.errors import GatewayError
from gateway.rdma.aio import to_the_end
from gateway.wire import rc_connection as wire
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.rdma_headers import SESSION

_NOT_SPOKEN = frozenset({400, 404, 405, 501})
"""How servers without connections answer: to them the path names a bucket, or nothing."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A link in use, and the id that the gateway knows it by."""

    link: Link
    connection: str
    holds: Holds
    registrations: Registrations

    @asynccontextmanager
    async def offered(self, view: memoryview, *, remote_write: bool) -> AsyncIterator[str]:
        """The token for a buffer that the gateway may read, or write where remote_write.

        Where the body fails without an answer the link is closed first: then nothing of the
        gateway's is on its way to the buffer, nor from it, when this is left. An answer, also one
        that says no, says as well that the gateway is done with it.
        """
        span, offset_bytes = self.holds.covering(view)
        async with self.registrations.lent(span, remote_write=remote_write) as whole:
            try:
                yield wire.TransferToken(
                    self.connection, whole.addr + offset_bytes, len(view), whole.rkey
                ).format()
            except S3Error:
                raise
            except BaseException:
                await to_the_end(self.link.close())
                raise


class LinkKeeper:
    """One link to one endpoint, for one event loop.

    Args:
        connection: signed HTTP to the endpoint.
        limits: deadlines.
    """

    def __init__(self, connection: Connection, limits: ClientLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._linked: Linked | None = None
        self._making = asyncio.Lock()
        self._reason: str | None = None
        self._holds = Holds()

    @asynccontextmanager
    async def holding(self, borrowed: Borrowed) -> AsyncIterator[None]:
        """While this lasts, parts of the buffer share one registration of all of it."""
        try:
            with self._holds.holding(borrowed):
                yield
        finally:
            if self._linked is not None:
                await self._linked.registrations.settle()

    async def linked(self, fabric: Fabric) -> Linked:
        """The link, made now where there is none that works.

        Raises:
            UnsupportedError: the gateway makes no connections; asked only once.
        """
        if self._linked is not None and self._linked.link.usable:
            return self._linked
        async with self._making:
            if self._reason is not None:
                raise UnsupportedError(self._reason)
            if self._linked is None or not self._linked.link.usable:
                try:
                    self._linked = await self._connect(fabric)
                except UnsupportedError as error:
                    self._reason = str(error)
                    raise
            return self._linked

    async def drop(self, linked: Linked) -> None:
        """The gateway no longer knows it."""
        await to_the_end(linked.link.close())

    async def close(self) -> None:
        """Disconnect, as far as the gateway can be reached; then nothing is registered."""
        linked, self._linked = self._linked, None
        if linked is None:
            return
        call = Call("POST", wire.DISCONNECT_PATH, {SESSION: linked.connection})
        try:
            with suppress(S3RdmaError):
                await self._connection.fetch(call, self._limits.cancel_timeout_s)
        finally:
            await to_the_end(linked.link.close())

    async def _connect(self, fabric: Fabric) -> Linked:
        try:
            link = fabric.dial()
        except GatewayError as error:
            raise TransferError(error.message) from error
        try:
            reply = await while_busy(lambda: self._ask(fabric, link), self._limits)
            token = reply.token
            link.connect(QpAddress(token.qpn, reply.psn, token.gid, token.lid))
        except BaseException as error:
            await to_the_end(link.close())
            if isinstance(error, GatewayError):
                raise UnsupportedError(error.message) from error
            raise
        registrations = Registrations(link, self._limits)
        return Linked(link, reply.connection, self._holds, registrations)

    async def _ask(self, fabric: Fabric, link: Link) -> wire.ConnectReply:
        local = link.local
        token = RcToken(
            Transport.RC, local.qpn, local.gid, port_num=fabric.info.port, lid=local.lid
        )
        headers = dict(wire.connect_headers(wire.ConnectRequest(token, local.psn)))
        try:
            reply = await self._connection.fetch(Call("POST", wire.CONNECT_PATH, headers))
        except S3Error as error:
            if error.status in _NOT_SPOKEN:
                raise UnsupportedError(f"the server makes no RDMA connections: {error}") from error
            raise
        if SESSION not in reply.headers:
            raise UnsupportedError("the server makes no RDMA connections")
        return wire.parse_connect_reply(reply.headers.items())
