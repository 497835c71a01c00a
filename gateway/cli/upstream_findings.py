"""What ``s3rdma doctor`` finds of the S3 service upstream: does it answer, what can it do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gateway.app.errors import StartError
from gateway.app.storages import Examined, examine_upstream
from gateway.cli.diagnosis import Finding, Level
from gateway.config import Config
from gateway.errors import GatewayError, InternalError

_SUBJECT = "upstream"


def look(config: Config) -> Iterator[Finding]:
    """Ask the service, with the gateway's own key."""
    where = config.upstream.endpoint or "AWS"
    try:
        examined = asyncio.run(examine_upstream(config))
    except (GatewayError, StartError) as error:
        told = error.cause if isinstance(error, InternalError) else str(error)
        remedy = "see upstream.endpoint, upstream.access_key and upstream.region"
        yield Finding(Level.BROKEN, _SUBJECT, f"{where}: {told}", remedy)
        return
    yield Finding(Level.GOOD, _SUBJECT, f"{where} answers")
    yield from _abilities(examined)


def _abilities(examined: Examined) -> Iterator[Finding]:
    can = ", ".join(name for name, able in examined if able)
    yield Finding(Level.GOOD, _SUBJECT, f"it can: {can}")
    cannot = ", ".join(name for name, able in examined if not able)
    if cannot:
        remedy = "requests that need these get 501; nothing is emulated"
        yield Finding(Level.NOTE, _SUBJECT, f"it can't: {cannot}", remedy)
