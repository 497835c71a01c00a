"""The composition root: the only place that knows which drivers stand behind the ports."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import secrets
import signal
import string
import sys
import time
from contextlib import AsyncExitStack
from ipaddress import IPv6Address
from pathlib import Path

import uvloop

from gateway import telemetry
from gateway.auth.credentials import Credentials, CredentialStore
from gateway.auth.credentials_file import CredentialsFile, CredentialsFileError
from gateway.config import Config, RdmaConfig
from gateway.dataplane.port import Fabric, FabricUnavailable
from gateway.errors import GatewayError
from gateway.rdma.service import RdmaService
from gateway.s3.route import route
from gateway.storage.store import Store
from gateway.web.pipeline import Pipeline, Verbs
from gateway.web.server import Server

_log = logging.getLogger(__name__)

_M_ARENA_MAX = -8  # malloc.h
_CREDENTIALS_FILE = "credentials"
_OR_SET = "or set S3RDMA_ACCESS_KEY and S3RDMA_SECRET_KEY"
_ACCESS_KEY_CHARACTERS = string.ascii_uppercase + string.digits


class StartError(Exception):
    """The gateway can't start; the text is one line for the operator."""


def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError."""
    telemetry.set_up(config.log.level, config.log.format)
    _share_one_heap()
    _open_as_many_files_as_allowed()
    uvloop.run(serve(config))


def _share_one_heap() -> None:
    """One malloc arena for all threads (mallopt(3)).

    Buffers are made in one thread and freed in another; with an arena for each, glibc kept half as
    much again as was ever in use at once. Where libc has no mallopt, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def _open_as_many_files_as_allowed() -> None:
    """The soft RLIMIT_NOFILE up to the hard one: a multipart object may be 10,000 open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(config: Config) -> None:
    """Start everything, say so on standard output, wait for a signal, and stop in order."""
    async with AsyncExitStack() as stack:
        stopped = _stop_on_signals()
        storage = Store(config.store)
        try:
            await storage.start()
        except GatewayError as error:
            raise StartError(getattr(error, "cause", error.message)) from error
        stack.push_async_callback(storage.stop)
        credentials, made = load_credentials(config)
        fabric, rdma_state = _open_fabric(config.rdma)
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
        _say(f"s3rdma: serving http://{address} (store {config.store.root}, RDMA: {rdma_state})")
        await stopped.wait()
        _log.info("stopping: running requests have %g s", config.http.limits.shutdown_grace_s)


def load_credentials(config: Config) -> tuple[CredentialStore, Credentials | None]:
    """The configured key and file of keys; with neither the store's own file, made where missing.

    The files have the format of AWS's own, so AWS_SHARED_CREDENTIALS_FILE may point at them.

    Returns:
        The keys, and the one among them that was made now.

    Raises:
        StartError: a file can't be read, written or understood.
    """
    configured = [Credentials(config.access_key, config.secret_key)] if config.access_key else []
    if config.credentials_file:
        return _watched_credentials(Path(config.credentials_file), configured), None
    if configured:
        return CredentialStore(configured), None
    path = config.store.root / _CREDENTIALS_FILE
    made = None if path.exists() else _make_credentials(path)
    return _watched_credentials(path, []), made


def _watched_credentials(path: Path, configured: list[Credentials]) -> CredentialStore:
    """The keys of a file that is read again when it changes, and at once at SIGHUP."""
    file = CredentialsFile(path, time.monotonic)

    def changed() -> list[Credentials] | None:
        keys = file.changed()
        return None if keys is None else [*keys, *configured]

    try:
        store = CredentialStore([*file.read(), *configured], changed=changed)
    except CredentialsFileError as error:
        raise StartError(f"{error}; repair it, {_OR_SET}") from error
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, file.look_again)
    return store


def _make_credentials(file: Path) -> Credentials:
    """A new key, kept in a file that only its owner may read."""
    made = Credentials(
        "".join(secrets.choice(_ACCESS_KEY_CHARACTERS) for _ in range(20)),
        secrets.token_urlsafe(30),
    )
    try:
        _write_credentials(file, made)
    except OSError as error:
        raise StartError(f"{file}: {error.strerror or error}; {_OR_SET}") from error
    return made


def _write_credentials(file: Path, made: Credentials) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "w", encoding="utf-8") as stream:
        stream.write(
            f"[default]\naws_access_key_id = {made.access_key}\n"
            f"aws_secret_access_key = {made.secret_key}\n"
        )
        stream.flush()
        os.fsync(fd)


def _open_fabric(config: RdmaConfig) -> tuple[Fabric | None, str]:
    """The fabric and its line for the operator; None where RDMA is off, with the reason.

    Raises:
        StartError: "verbs" or "soft" was demanded and can't be had.
    """
    if config.fabric == "off":
        return None, "off: rdma.fabric is off"
    try:
        # Here and not above: where the C core was not built, the gateway still serves HTTP.
        from gateway.dataplane.engine import open_fabric  # noqa: PLC0415

        fabric = open_fabric(config, arena=True)
    except (FabricUnavailable, ImportError) as error:
        if config.fabric in ("verbs", "soft"):
            raise StartError(f"no RDMA: {error}") from error
        return None, f"off: {error}"
    info = fabric.info
    gid = IPv6Address(info.gid)
    where = (
        "soft fabric (RoCE v2 over UDP)"
        if info.kind == "soft"
        else f"{info.device} port {info.port}"
    )
    gid_text = gid.ipv4_mapped or gid
    return fabric, f"{where}, GID {gid_text}, MTU {info.mtu_bytes}, because {info.because}"


def _stop_on_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; a second one ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopped


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announce_key(made: Credentials, root: Path) -> None:
    _say(
        f"s3rdma: made a key and kept it in {root / _CREDENTIALS_FILE}; it is shown this once:\n"
        f"  access key  {made.access_key}\n  secret key  {made.secret_key}"
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
