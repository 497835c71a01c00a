"""The admin listener's place in the gateway: where it may listen, and what it asks."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from gateway.app.errors import StartError
from gateway.config import AdminConfig, Config, TlsConfig
from gateway.dataplane.port import Fabric
from gateway.errors import BusyError
from gateway.rdma.self_test import try_fabric
from gateway.storage.port import Storage
from gateway.web.admin import AdminServer, Answers, is_loopback
from gateway.web.admin_readiness import Readiness, Try
from gateway.web.admin_status import Status
from gateway.web.server import Server

_log = logging.getLogger(__name__)


def check_admin(config: AdminConfig) -> None:
    """Refuse to show everybody what the gateway does.

    Raises:
        StartError: an address beyond loopback, and neither clients' certificates nor the
            operator's word.
    """
    asks = config.tls and config.client_ca
    if config.host and not (asks or config.insecure or is_loopback(config.host)):
        raise StartError(
            f"admin.host is {config.host}, which others reach, and the admin port asks nobody who "
            "they are: set admin.tls and admin.client_ca, or admin.insecure, or leave it on "
            "127.0.0.1"
        )


def tls_of_admin(config: Config) -> TlsConfig:
    """The S3 port's certificate, shown to clients that others vouch for."""
    if not config.admin.tls:
        return TlsConfig()
    return replace(config.tls, client_ca=config.admin.client_ca)


def readiness(
    config: AdminConfig, storage: Storage, fabric: Fabric | None, server: Server
) -> Readiness:
    """What must work for the gateway to be sent requests."""

    async def listening() -> None:
        if not server.accepting:
            raise BusyError("The gateway does not take connections now.")

    tries: Mapping[str, Try] = {"http": listening, "storage": storage.check}
    if fabric is not None:
        tries = {**tries, "fabric": partial(try_fabric, fabric, config.check_timeout_s / 2)}
    return Readiness(tries, config.check_timeout_s, config.check_interval_s, time.monotonic)


async def start_admin(
    config: AdminConfig, status: Status, ready: Readiness, tls: ssl.SSLContext | None
) -> tuple[AdminServer, str]:
    """Listen; returns the server and the operator's line of where it is.

    Of several workers each listens on a port of its own, the next after the one before.

    Raises:
        StartError: the port is taken, or there is no certificate.
    """
    if config.tls and tls is None:
        raise StartError("admin.tls needs tls.certificate: set it, or leave admin.tls off")
    answers = Answers(status.registry, ready, status)
    server = AdminServer(config, answers, tls)
    wanted = config.port + status.worker if config.port else 0
    try:
        port = await server.start(wanted)
    except OSError as error:
        raise StartError(
            f"can't listen on {address(config.host, wanted)} for admin.port: "
            f"{error.strerror or error}; set admin.port to another, or admin.host to nothing"
        ) from error
    where = f"{'https' if config.tls else 'http'}://{address(config.host, port)}"
    _log.info("metrics, health and status are at %s", where)
    return server, f"s3rdma: admin {where}\n"


def address(host: str, port: int) -> str:
    """``HOST:PORT``, as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
