"""The composition root: the only place that knows which drivers stand behind the ports."""

from __future__ import annotations

import faulthandler
import logging
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from gateway import telemetry
from gateway.app.admin import address, check_admin, readiness, start_admin, tls_of_admin
from gateway.app.certificates import Tls
from gateway.app.errors import StartError
from gateway.app.keys import CREDENTIALS_FILE
from gateway.app.observe import Observed, observing
from gateway.app.parts import Parts, assemble
from gateway.app.process import (
    open_as_many_files_as_allowed,
    say,
    share_one_heap,
    stop_on_signals,
)
from gateway.app.reload import Reload
from gateway.app.share import share_of
from gateway.app.supervisor import Supervisor
from gateway.app.systemd import ServiceManager
from gateway.app.tracing import tracing
from gateway.app.worker import Place
from gateway.auth.credentials import Credentials
from gateway.config import Config
from gateway.web.admin_status import Status
from gateway.web.server import Server

__all__ = ["StartError", "run", "serve"]

_log = logging.getLogger(__name__)


def run(config: Config, read: Callable[[], Config]) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError.

    Args:
        config: of the gateway as a whole.
        read: the same from the same sources, anew, for SIGHUP; raises ConfigError.
    """
    faulthandler.enable()  # where a crash of the process was, all threads; no values
    telemetry.set_up(config.log.level, config.log.format)
    check_admin(config.admin)
    share_one_heap()
    open_as_many_files_as_allowed()

    def work(share: Config, place: Place) -> None:
        uvloop.run(serve(share, lambda: share_of(read(), place.number), place))

    if config.workers > 1:
        Supervisor(config, work, ServiceManager(os.environ)).run()
    else:
        uvloop.run(serve(config, read))


async def serve(config: Config, read: Callable[[], Config], place: Place | None = None) -> None:
    """Start everything, say so on standard output, wait for a signal, and stop in order.

    Args:
        config: this process's share of it.
        read: the same anew.
        place: among several workers; None where this is the only one.
    """
    async with AsyncExitStack() as stack:
        stopped = stop_on_signals()
        manager = ServiceManager({} if place else os.environ)  # else the supervisor talks to it
        text = await _start(config, Reload(read, manager), place, stack)
        if place is None:
            say(text)
        else:
            place.line.say(text)
            stack.callback(place.line.keep_beating())
        manager.ready(text.splitlines()[-1])
        manager.watch()
        stack.callback(manager.unwatch)
        await stopped.wait()
        manager.stopping()
        _log.info("stopping: running requests have %g s", config.http.limits.shutdown_grace_s)


async def _start(config: Config, reload: Reload, place: Place | None, stack: AsyncExitStack) -> str:
    """Start everything; `stack` ends it. Returns what the operator reads of it."""
    stack.enter_context(tracing(config.traces))
    observed = stack.enter_context(observing(config.log))
    tls = Tls(config.tls)
    stack.callback(tls.close)
    parts = await assemble(config, place, (observed, tls, reload), stack)
    worker = place.number if place else 0
    admin_state = await _open_admin(config, worker, parts, observed, reload, stack)
    for source in (reload, tls):
        observed.registry.add(source)
    port = await _listening(config, parts.server)
    stack.push_async_callback(parts.server.stop)
    tls.keep(parts.server.listener)
    reload.on_reload(lambda new: telemetry.set_level(new.log.level))
    reload.on_reload(lambda _: tls.look_again())
    reload.listen()
    return _announcement(config, parts, admin_state, port, workers=place is not None)


async def _open_admin(
    config: Config,
    worker: int,
    parts: Parts,
    observed: Observed,
    reload: Reload,
    stack: AsyncExitStack,
) -> str:
    """Start the admin listener, where one is wanted; the operator's line of where it is."""
    if not config.admin.host:
        return ""
    status = Status(
        worker=worker,
        registry=observed.registry,
        rdma=parts.rdma,
        fabric=parts.fabric,
        because=parts.rdma_state,
        recent=observed.recent,
        clock=time.time,
        started_s=time.time(),
    )
    ready = readiness(config.admin, parts.storage, parts.fabric, parts.server)
    observed.registry.add(ready)
    tls = Tls(tls_of_admin(config))
    stack.callback(tls.close)
    admin, text = await start_admin(config.admin, status, ready, tls.context)
    stack.push_async_callback(admin.stop)
    tls.keep(admin.listener)
    reload.on_reload(lambda _: tls.look_again())
    return text


async def _listening(config: Config, server: Server) -> int:
    try:
        return await server.start()
    except OSError as error:
        where = address(config.http.host, config.http.port)
        raise StartError(f"can't listen on {where}: {error.strerror or error}") from error


def _announcement(
    config: Config, parts: Parts, admin_state: str, port: int, *, workers: bool
) -> str:
    scheme = "https" if config.tls.certificate else "http"
    return (
        f"{_made_key(parts.made, config.own_root)}{admin_state}"
        f"s3rdma: serving {scheme}://{address(config.http.host, port)} "
        f"({parts.storage_state}, {f'{config.workers} workers, ' if workers else ''}"
        f"RDMA: {parts.rdma_state})"
    )


def _made_key(made: Credentials | None, root: Path) -> str:
    if made is None:
        return ""
    return (
        f"s3rdma: made a key and kept it in {root / CREDENTIALS_FILE}; it is shown this once:\n"
        f"  access key  {made.access_key}\n  secret key  {made.secret_key}\n"
    )
