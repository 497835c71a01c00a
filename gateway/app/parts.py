"""The parts that serve objects, made from the settings and joined: storage, fabric, path, port."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from gateway import telemetry
from gateway.app.certificates import Tls
from gateway.app.errors import StartError
from gateway.app.fabric import open_fabric
from gateway.app.keys import load_credentials, make_key
from gateway.app.observe import Observed
from gateway.app.reload import Reload
from gateway.app.storages import Describing, Secrets, open_storage
from gateway.app.worker import Place
from gateway.auth.credentials import Credentials
from gateway.config import Config
from gateway.dataplane.meters import FabricMeters
from gateway.dataplane.port import Fabric
from gateway.errors import GatewayError
from gateway.rdma.service import RdmaService
from gateway.s3.route import route
from gateway.storage.port import Storage
from gateway.telemetry.measures import Measured
from gateway.web.limiter import Limiter
from gateway.web.pipeline import Pipeline, Verbs
from gateway.web.server import Server
from gateway.wire.session_id import session_ids


@dataclass(frozen=True, slots=True)
class Parts:
    """What was started; `server` does not listen yet.

    Attributes:
        storage_state / rdma_state: what the operator reads of it.
        made: the access key that was made now, where there was none.
    """

    storage: Storage
    storage_state: str
    fabric: Fabric | None
    rdma_state: str
    rdma: RdmaService
    server: Server
    made: Credentials | None


async def assemble(
    config: Config,
    place: Place | None,
    around: tuple[Observed, Tls, Reload],
    stack: AsyncExitStack,
) -> Parts:
    """Start storage and fabric, and join what serves. Raises StartError.

    Args:
        config: this process's share.
        place: among several workers; None where this is the only one.
        around: who is told, the port's TLS, and what SIGHUP does.
        stack: ends everything, in the order that it must end in.
    """
    observed, tls, reload = around

    def secret_of(access_key: str) -> str | None:
        return verbs.credentials.lookup(access_key)  # they are there before anybody asks

    storage, storage_state = await _started_storage(config, secret_of, stack)
    made = make_key(config)
    verbs = Verbs(storage, config.http.region, config.http.limits, load_credentials(config, reload))
    fabric, rdma_state = open_fabric(config.rdma)
    if fabric is not None:
        stack.push_async_callback(fabric.close)
        observed.registry.add(FabricMeters(fabric))
    rdma = RdmaService(
        fabric,
        config.rdma,
        route=lambda head: route(head, config.http.domains, config.http.limits),
        authorise=verbs.authorise,
        perform=verbs.perform,
        new_id=session_ids(place.number if place else 0),
    )
    stack.push_async_callback(rdma.stop, config.rdma.drain_timeout_s)
    limiter = Limiter(config.limits, time.monotonic)
    rdma.limit_staging(config.limits.staging_bytes)
    reload.on_reload(lambda new: limiter.configure(new.limits))
    reload.on_reload(lambda new: rdma.limit_staging(new.limits.staging_bytes))
    observed.recorders.append(limiter.record)
    server = Server(
        config.http,
        Pipeline(config.http, verbs, rdma, time.time, limiter),
        place.mailboxes if place else None,
        recorder=telemetry.every(observed.recorders),
        tls=tls.context,
        handshake_timeout_s=config.tls.handshake_timeout_s,
    )
    for source in (rdma, server, storage):
        if isinstance(source, Measured):  # a storage need not be
            observed.registry.add(source)
    return Parts(storage, storage_state, fabric, rdma_state, rdma, server, made)


async def _started_storage(
    config: Config, secrets: Secrets, stack: AsyncExitStack
) -> tuple[Storage, str]:
    storage, state = open_storage(config, secrets)
    try:
        await storage.start()
    except GatewayError as error:
        raise StartError(getattr(error, "cause", error.message)) from error
    stack.push_async_callback(storage.stop)
    return storage, f"{state}, {storage.describe()}" if isinstance(storage, Describing) else state
