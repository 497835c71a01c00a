"""All of RDMA that the gateway's one path meets: three protocols behind one door."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.auth.sigv4 import Verified
from gateway.config import RdmaConfig
from gateway.dataplane.port import Fabric
from gateway.rdma import cuobject
from gateway.rdma.hipobj_rc import Authorise, HipobjService
from gateway.rdma.hipobj_rc import Perform as PerformForRequester
from gateway.rdma.live import LiveSession
from gateway.rdma.orders import Route
from gateway.rdma.rc_connection import ConnectionService
from gateway.rdma.rc_transfer import Carriage, Perform
from gateway.s3.operations import Operation
from gateway.s3.requester import Requester
from gateway.s3.results import Reply
from gateway.telemetry.catalogue import MOVED_BYTES, RC_CONNECTIONS, SESSIONS, TRANSFERS
from gateway.telemetry.measures import Sample
from gateway.wire import rc_connection, rdma_headers
from gateway.wire.request import RequestHead
from gateway.wire.session_id import new_session_id

_NAMES = MappingProxyType(
    {
        rdma_headers.PREPARE_PATH: "RdmaPrepare",
        rdma_headers.READY_PATH: "RdmaReady",
        rdma_headers.CANCEL_PATH: "RdmaCancel",
        rc_connection.CONNECT_PATH: "RdmaConnect",
        rc_connection.DISCONNECT_PATH: "RdmaDisconnect",
    }
)


@dataclass(frozen=True, slots=True)
class RdmaUsage:
    """What clients hold now.

    Attributes:
        sessions: of hipobj-rc-v2, by state ("prepared", "moving", …); zeros included.
        connections: that are open, by access key; of "" those that no key has used yet.
    """

    sessions: Mapping[str, int]
    connections: Mapping[str, int]


class RdmaService:
    """hipobj-rc-v2, connections with their tokens, and tokens of others. One event loop.

    Args:
        fabric: the opened port, or None where RDMA is off.
        config: limits and deadlines.
        route / authorise / perform: the gateway's one path, as ``HipobjService`` takes it.
        clock: seconds, monotonic.
        new_id: the source of the ids of sessions and connections.
    """

    def __init__(
        self,
        fabric: Fabric | None,
        config: RdmaConfig,
        *,
        route: Route,
        authorise: Authorise,
        perform: PerformForRequester,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = new_session_id,
    ) -> None:
        self._fabric = fabric
        self.hipobj = HipobjService(
            fabric,
            config,
            route=route,
            authorise=authorise,
            perform=perform,
            clock=clock,
            new_id=new_id,
        )
        self.connections = ConnectionService(fabric, config, clock=clock, new_id=new_id)
        self.carriage = Carriage(self.connections, config.transfer_timeout_s, clock)

    @staticmethod
    def handles(path: str) -> bool:
        """Whether a raw path steers RDMA transfers, and names no object."""
        return HipobjService.handles(path) or ConnectionService.handles(path)

    @staticmethod
    def name_of(path: str) -> str:
        """What a raw path that `handles` knows asks for, as metrics and logs name it."""
        return _NAMES[path]

    async def handle(self, head: RequestHead, verified: Verified, requester: Requester) -> Reply:
        """Answer a request to a path that `handles` knows. Raises GatewayError."""
        if ConnectionService.handles(head.raw_path):
            return await self.connections.handle(head, verified)
        return await self.hipobj.handle(head, verified, requester)

    async def answer(
        self, head: RequestHead, operation: Operation, verified: Verified, perform: Perform
    ) -> Reply:
        """Perform an authorised operation, by RDMA where its request asks for it and it can be."""
        return await cuobject.answer(head, operation, verified, perform, self.carriage)

    def usage(self) -> RdmaUsage:
        sessions = self.hipobj.stats().sessions
        return RdmaUsage(
            sessions={state.name.lower(): count for state, count in sessions.items()},
            connections=self.connections.owners(),
        )

    def limit_staging(self, max_bytes: int) -> None:
        """What an access key may hold, from now on: by its sessions, and again by its connections.

        A session that would need more is refused; a move of a connection waits. 0 is no limit.
        """
        self.hipobj.limit_staging(max_bytes)
        if self._fabric is not None:
            self._fabric.limit_staging(max_bytes)

    def live(self) -> Iterator[LiveSession]:
        """Every session and connection there is."""
        yield from self.hipobj.live()
        yield from self.connections.live()

    def metrics(self) -> Iterator[Sample]:
        usage = self.usage()
        for state, count in usage.sessions.items():
            yield SESSIONS.sample(count, state)
        yield RC_CONNECTIONS.sample(sum(usage.connections.values()))
        for path, stats in (("rdma", self.hipobj.stats()), ("rc", self.carriage.stats())):
            yield TRANSFERS.sample(stats.transfers, path, "done")
            yield TRANSFERS.sample(stats.failures, path, "failed")
            yield MOVED_BYTES.sample(stats.received_bytes, path, "in")
            yield MOVED_BYTES.sample(stats.sent_bytes, path, "out")
        yield TRANSFERS.sample(self.carriage.stats().declined, "rc", "declined")

    async def stop(self, grace_s: float) -> None:
        """End sessions and connections; call it before the fabric is closed."""
        await self.hipobj.stop(grace_s)
        await self.connections.stop(grace_s)
