"""All of RDMA that the gateway's one path meets: three protocols behind one door."""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.auth.sigv4 import Verified
from gateway.config import RdmaConfig
from gateway.dataplane.port import Fabric
from gateway.rdma import cuobject
from gateway.rdma.hipobj_rc import Authorise, HipobjService
from gateway.rdma.hipobj_rc import Perform as PerformForRequester
from gateway.rdma.orders import Route
from gateway.rdma.rc_connection import ConnectionService
from gateway.rdma.rc_transfer import Carriage, Perform
from gateway.s3.operations import Operation
from gateway.s3.requester import Requester
from gateway.s3.results import Reply
from gateway.wire.request import RequestHead


class RdmaService:
    """hipobj-rc-v2, connections with their tokens, and tokens of others. One event loop.

    Args:
        fabric: the opened port, or None where RDMA is off.
        config: limits and deadlines.
        route / authorise / perform: the gateway's one path, as ``HipobjService`` takes it.
        clock: seconds, monotonic.
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
    ) -> None:
        self.hipobj = HipobjService(
            fabric, config, route=route, authorise=authorise, perform=perform, clock=clock
        )
        self.connections = ConnectionService(fabric, config, clock=clock)
        self.carriage = Carriage(self.connections, config.transfer_timeout_s, clock)

    @staticmethod
    def handles(path: str) -> bool:
        """Whether a raw path steers RDMA transfers, and names no object."""
        return HipobjService.handles(path) or ConnectionService.handles(path)

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

    async def stop(self, grace_s: float) -> None:
        """End sessions and connections; call it before the fabric is closed."""
        await self.hipobj.stop(grace_s)
        await self.connections.stop(grace_s)
