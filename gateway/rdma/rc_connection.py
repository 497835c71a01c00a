"""Connections that stay: connect, disconnect, and their ends (PROTOCOL section 3).

What moves by them is `rdma.rc_transfer`'s matter.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gateway.auth.sigv4 import Verified, require_signed
from gateway.config import RdmaConfig
from gateway.dataplane.port import Fabric
from gateway.errors import ClientError, S3Code
from gateway.rdma.aio import Alarm, Background
from gateway.rdma.connections import ConnectionTable, Held
from gateway.rdma.live import LiveSession
from gateway.rdma.orders import peer_of
from gateway.s3.results import Reply
from gateway.telemetry import SHOWN_ID_DIGITS, trail
from gateway.wire import rc_connection as wire
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.rdma_headers import unsupported
from gateway.wire.request import RequestHead
from gateway.wire.session_id import new_session_id

_PATHS = frozenset({wire.CONNECT_PATH, wire.DISCONNECT_PATH})

log = logging.getLogger(__name__)


class ConnectionService:
    """Makes connections, lends them to requests, and ends them. One event loop.

    Args:
        fabric: the opened port, or None where RDMA is off: then nothing connects.
        config: limits and deadlines.
        clock: seconds, monotonic.
        new_id: the source of connection ids: 32 hex digits that nobody can foresee.
    """

    def __init__(
        self,
        fabric: Fabric | None,
        config: RdmaConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = new_session_id,
    ) -> None:
        self._fabric = fabric
        self._config = config
        self._clock = clock
        self._table = ConnectionTable(
            config.connections_per_key,
            config.max_unsigned_connections,
            config.connection_idle_timeout_s,
            new_id,
        )
        self._background = Background()
        self._alarm = Alarm(clock, self.expire)
        self._stopping = False

    @staticmethod
    def handles(path: str) -> bool:
        """Whether a raw path is this protocol's, whatever the method."""
        return path in _PATHS

    async def handle(self, head: RequestHead, verified: Verified) -> Reply:
        """Answer a connect or a disconnect.

        Args:
            head: as received; its body is empty.
            verified: what its signature proves.

        Raises:
            GatewayError: PROTOCOL section 2's statuses.
        """
        owner = self._owner(head, verified)
        if head.method != "POST":
            raise ClientError(S3Code.METHOD_NOT_ALLOWED, details={"Method": head.method})
        if head.raw_path == wire.CONNECT_PATH:
            return self._connect(head, owner)
        self._disconnect(head, owner)
        return Reply(204)

    def __len__(self) -> int:
        """How many are open."""
        return len(self._table)

    def owners(self) -> Mapping[str, int]:
        """How many each access key has open; of "" those that no key has used yet."""
        return self._table.owners()

    def live(self) -> Iterator[LiveSession]:
        """Every connection there is."""
        for held in self._table.all():
            yield LiveSession(
                held.id[:SHOWN_ID_DIGITS],
                "connection",
                held.owner or "",
                "busy" if held.users else "idle",
                running=held.users,
                idle_s=0.0 if held.users else self._clock() - held.idle_since_s,
            )

    @contextmanager
    def lend(self, connection_id: str, owner: str) -> Iterator[Held | None]:
        """The key's connection of that id, for one request; None where there is none to use."""
        held = None if self._stopping else self._table.find(connection_id, owner)
        if held is None or not held.connection.usable:
            yield None
            return
        held.users += 1
        try:
            yield held
        finally:
            held.users -= 1
            held.idle_since_s = self._clock()
            self._end_if_broken(held)
            if not self._stopping:
                self._alarm.set(self._table.deadline_s(held))

    async def stop(self, grace_s: float) -> None:
        """End every connection; moves that run end with an error. Call it before the fabric's."""
        self._stopping = True
        for held in self._table.all():
            self._end(held)
        self._watch()
        await self._background.idle(self._clock, grace_s)

    def expire(self) -> None:
        """End what has been idle for too long; a timer of the service's own calls this too."""
        for held in self._table.expired(self._clock()):
            log.debug("connection %s ends: idle", held.id[:8])
            self._end(held)
        self._watch()

    def _owner(self, head: RequestHead, verified: Verified) -> str | None:
        """Whose the request is; None for an unsigned one, where that is allowed."""
        if verified.principal.anonymous and self._config.unsigned_connect:
            return None
        require_signed(head, verified)
        return verified.principal.access_key

    def _connect(self, head: RequestHead, owner: str | None) -> Reply:
        fabric = self._fabric
        if fabric is None or not fabric.healthy or self._stopping or not self._config.connections:
            raise unsupported("This gateway makes no RDMA connections; use plain HTTP instead.")
        request = wire.parse_connect(head)
        peer = peer_of(request.token, request.psn, fabric.info)
        if peer.qpn is None:
            raise unsupported("A loopback token names no queue pair to connect to.")
        self._table.check_room(owner)
        connection = fabric.accept()
        try:
            connection.connect(peer.at(peer.qpn))
        except BaseException:
            self._background.start(connection.close())
            raise
        held = self._table.add(owner, connection, self._clock())
        trail().names(held.id)
        self._watch()
        local = connection.local
        token = RcToken(
            Transport.RC, local.qpn, local.gid, port_num=fabric.info.port, lid=local.lid
        )
        reply = wire.ConnectReply(held.id, token, local.psn)
        return Reply(200, wire.connect_reply_headers(reply))

    def _disconnect(self, head: RequestHead, owner: str | None) -> None:
        """Whatever it names, it is gone afterwards if it was the caller's."""
        connection_id = wire.parse_disconnect(head)
        held = self._table.find(connection_id, owner) if connection_id else None
        if held is not None:
            self._end(held)
            self._watch()

    def _end_if_broken(self, held: Held) -> None:
        if not held.connection.usable:
            self._end(held)

    def _end(self, held: Held) -> None:
        if self._table.remove(held):
            self._background.start(held.connection.close())

    def _watch(self) -> None:
        self._alarm.set(math.inf if self._stopping else self._table.next_deadline_s())
