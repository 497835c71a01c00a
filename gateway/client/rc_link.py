"""The connections to the gateway that a client's transfers share (PROTOCOL.md section 3).

The first is made when the first transfer wants it, and made again after it broke. GETs get more as
each that there is has enough under way: a queue pair is one path, so it is one port of a bond and
one of the ways through the network. PUTs stay with one: their bytes answer READs, which no
acknowledgement paces, and those of several queue pairs together overrun a receiver that has no
flow control (Soft-RoCE lost one PUT in seven).

All are in one protection domain, where a buffer is registered once for them: their peer reaches
what is registered for it, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from gateway.client.connection import Call, Connection
from gateway.client.errors import S3Error, S3RdmaError, TransferError, UnsupportedError
from gateway.client.memory import Borrowed
from gateway.client.registrations import Holds, Registrations
from gateway.client.retry import BUSY, while_busy
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Domain, Fabric, Link, QpAddress
from gateway.errors import GatewayError
from gateway.rdma.aio import Background, to_the_end
from gateway.wire import rc_connection as wire
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.rdma_headers import SESSION

_log = logging.getLogger(__name__)

_NOT_SPOKEN = frozenset({400, 404, 405, 501})
"""How servers without connections answer: to them the path names a bucket, or nothing."""


@dataclass(slots=True, eq=False)
class Linked:
    """A link in use.

    Attributes:
        connection: the id that the gateway knows it by.
        number: in the order in which its keeper made them, from 1.
        moving_bytes: of what is offered by it now.
    """

    link: Link
    connection: str
    registrations: Registrations
    number: int
    moving_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no connection was made, and until when that is taken as so."""

    reason: str = ""
    until_s: float = math.inf

    @property
    def lasts(self) -> bool:
        return bool(self.reason) and time.monotonic() < self.until_s


class LinkKeeper:
    """The links to one endpoint, for one event loop.

    Args:
        connection: signed HTTP to the endpoint.
        limits: how many links, and deadlines.

    Attributes:
        made: how many links there have been.
    """

    def __init__(self, connection: Connection, limits: ClientLimits) -> None:
        self.made = 0
        self._connection = connection
        self._limits = limits
        self._links: list[Linked] = []
        self._making = asyncio.Lock()
        self._none = Refusal()
        self._no_more = Refusal()
        self._partings = Background()
        self._holds = Holds()
        self._domain: Domain | None = None
        self._registrations: Registrations | None = None

    @asynccontextmanager
    async def holding(self, borrowed: Borrowed) -> AsyncIterator[None]:
        """While this lasts, parts of the buffer share one registration of all of it."""
        try:
            with self._holds.holding(borrowed):
                yield
        finally:
            if self._registrations is not None:
                await self._registrations.settle()

    async def linked(self, fabric: Fabric, *, spread: bool = False, newer_than: int = 0) -> Linked:
        """The link to use next, made now where there is none, or where another is worth it.

        Args:
            fabric: the same each time.
            spread: the one with the least under way will do; else always the oldest.
            newer_than: a link of a higher number, where one can be had; what made one of these
                fail may have come over all that there were.

        Raises:
            UnsupportedError: the gateway makes no connections, which is asked only once; or it, or
                this host's device, has none to spare, which is asked again after a while.
        """
        best = self._best(spread, newer_than)
        if best is not None and not (spread and self._worth_another(best)):
            return best
        async with self._making:
            best = self._best(spread, newer_than)  # somebody may have made one meanwhile
            if best is None:
                return await self._needed(fabric, instead=self._best(spread))
            if spread and self._worth_another(best):
                return await self._another(fabric) or best
            return best

    @asynccontextmanager
    async def offered(
        self, linked: Linked, view: memoryview, *, remote_write: bool
    ) -> AsyncIterator[str]:
        """The token for a buffer that the gateway may read, or write where remote_write.

        Where the body fails without an answer the link is dropped first: then nothing of the
        gateway's is on its way to the buffer, nor from it, when this is left. An answer, also one
        that says no, says as well that the gateway is done with it.
        """
        span, offset_bytes = self._holds.covering(view)
        linked.moving_bytes += len(view)
        try:
            async with linked.registrations.lent(span, remote_write=remote_write) as whole:
                try:
                    yield wire.TransferToken(
                        linked.connection, whole.addr + offset_bytes, len(view), whole.rkey
                    ).format()
                except S3Error:
                    raise
                except BaseException:
                    await self.drop(linked)
                    raise
        finally:
            linked.moving_bytes -= len(view)

    async def drop(self, linked: Linked) -> None:
        """Nothing comes or goes by it any more; the gateway is told when there is time."""
        if linked in self._links:
            self._links.remove(linked)
            self._partings.start(self._disconnect(linked))
        await to_the_end(linked.link.close())

    async def close(self) -> None:
        """Disconnect, as far as the gateway can be reached; then nothing is registered."""
        links, self._links = self._links, []
        for linked in links:
            self._partings.start(self._disconnect(linked))
        try:
            await self._partings.idle(time.monotonic, 2 * self._limits.cancel_timeout_s)
        finally:
            if self._domain is not None:
                await to_the_end(self._domain.close())

    async def _disconnect(self, linked: Linked) -> None:
        call = Call("POST", wire.DISCONNECT_PATH, {SESSION: linked.connection})
        with suppress(S3RdmaError):
            await self._connection.fetch(call, self._limits.cancel_timeout_s)

    def _best(self, spread: bool, newer_than: int = 0) -> Linked | None:
        """Of those with as little under way the newest: older ones may be forgotten as idle."""
        usable = [one for one in self._links if one.link.usable and one.number > newer_than]
        if not spread:
            return usable[0] if usable else None
        return min(usable, key=lambda one: (one.moving_bytes, -one.number), default=None)

    def _worth_another(self, least_busy: Linked) -> bool:
        usable = sum(one.link.usable for one in self._links)
        busy = least_busy.moving_bytes >= self._limits.link_bytes
        return busy and usable < self._limits.max_links and not self._no_more.lasts

    async def _needed(self, fabric: Fabric, instead: Linked | None) -> Linked:
        """A new link, worth a moment's wait where there is nothing `instead`, once.

        No more than that, for sessions and HTTP are there, and carry transfers meanwhile.
        """
        if instead is not None:
            return await self._another(fabric) or instead
        if self._none.lasts:
            raise UnsupportedError(self._none.reason)
        attempts = 1 if self._none.reason else self._limits.link_attempts
        try:
            linked = await self._connect(fabric, attempts)
        except UnsupportedError as error:
            self._none = Refusal(str(error))
            raise
        except TransferError as error:  # of this host's device
            raise self._none_now(str(error)) from error
        except S3Error as error:
            if error.status != BUSY:
                raise
            reason = f"the server has no RDMA connection to spare: {error}"
            raise self._none_now(reason) from error
        self._none = Refusal()
        return linked

    def _none_now(self, reason: str) -> UnsupportedError:
        self._none = Refusal(reason, time.monotonic() + self._limits.link_pause_s)
        return UnsupportedError(reason)

    async def _another(self, fabric: Fabric) -> Linked | None:
        """One more; None where it can't be had, for it is not needed."""
        try:
            return await self._connect(fabric, attempts=1)
        except S3RdmaError as error:
            _log.debug("no further connection: %s", error)
            self._no_more = Refusal(str(error), time.monotonic() + self._limits.link_pause_s)
            return None

    async def _connect(self, fabric: Fabric, attempts: int) -> Linked:
        try:
            if self._domain is None:
                self._domain = fabric.domain()
            registrations = self._registrations or Registrations(self._domain, self._limits)
            self._registrations = registrations
            link = self._domain.dial()
        except GatewayError as error:
            raise TransferError(error.message) from error
        try:
            limits = replace(self._limits, attempts=attempts)
            reply = await while_busy(lambda: self._ask(fabric, link), limits)
            token = reply.token
            link.connect(QpAddress(token.qpn, reply.psn, token.gid, token.lid))
        except BaseException as error:
            await to_the_end(link.close())
            if isinstance(error, GatewayError):
                raise UnsupportedError(error.message) from error
            raise
        self.made += 1
        linked = Linked(link, reply.connection, registrations, self.made)
        self._links.append(linked)
        return linked

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
