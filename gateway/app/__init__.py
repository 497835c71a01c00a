"""The composition root: the only place that knows which drivers stand behind the ports."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from gateway import telemetry
from gateway.app.errors import StartError
from gateway.app.fabric import open_fabric
from gateway.app.keys import CREDENTIALS_FILE, load_credentials
from gateway.app.process import open_as_many_files_as_allowed, share_one_heap, stop_on_signals
from gateway.app.storages import open_storage
from gateway.auth.credentials import Credentials
from gateway.config import Config
from gateway.errors import GatewayError
from gateway.rdma.service import RdmaService
from gateway.s3.route import route
from gateway.web.pipeline import Pipeline, Verbs
from gateway.web.server import Server

__all__ = ["StartError", "load_credentials", "run", "serve"]

_log = logging.getLogger(__name__)


def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError."""
    telemetry.set_up(config.log.level, config.log.format)
    share_one_heap()
    open_as_many_files_as_allowed()
    uvloop.run(serve(config))


async def serve(config: Config) -> None:
    """Start everything, say so on standard output, wait for a signal, and stop in order."""
    async with AsyncExitStack() as stack:
        stopped = stop_on_signals()
        storage, storage_state = open_storage(config)
        try:
            await storage.start()
        except GatewayError as error:
            raise StartError(getattr(error, "cause", error.message)) from error
        stack.push_async_callback(storage.stop)
        credentials, made = load_credentials(config)
        fabric, rdma_state = open_fabric(config.rdma)
        if fabric is not None:
            stack.push_async_callback(fabric.close)
        verbs = Verbs(storage, config.http.region, config.http.limits, credentials)
        rdma = RdmaService(
            fabric,
            config.rdma,
            route=lambda head: route(head, config.http.domains, config.http.limits),
            authorise=verbs.authorise,
            perform=verbs.perform,
        )
        stack.push_async_callback(rdma.stop, config.rdma.drain_timeout_s)
        server = Server(config.http, Pipeline(config.http, verbs, rdma, time.time))
        try:
            port = await server.start()
        except OSError as error:
            address = _address(config.http.host, config.http.port)
            raise StartError(f"can't listen on {address}: {error.strerror or error}") from error
        stack.push_async_callback(server.stop)
        if made is not None:
            _announce_key(made, config.store.root)
        address = _address(config.http.host, port)
        _say(f"s3rdma: serving http://{address} ({storage_state}, RDMA: {rdma_state})")
        await stopped.wait()
        _log.info("stopping: running requests have %g s", config.http.limits.shutdown_grace_s)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announce_key(made: Credentials, root: Path) -> None:
    _say(
        f"s3rdma: made a key and kept it in {root / CREDENTIALS_FILE}; it is shown this once:\n"
        f"  access key  {made.access_key}\n  secret key  {made.secret_key}"
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
