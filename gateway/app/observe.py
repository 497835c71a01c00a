"""What is told of the gateway while it runs: metrics, access log, the last errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gateway import __version__
from gateway.app.errors import StartError
from gateway.config import LogConfig
from gateway.telemetry import Recorder, log_request
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.catalogue import BUILD_INFO
from gateway.telemetry.measures import Sample
from gateway.telemetry.recent import RecentErrors
from gateway.telemetry.registry import Registry
from gateway.telemetry.requests import RequestMeters
from gateway.web.render import HOST_ID


@dataclass(frozen=True, slots=True)
class Observed:
    """Who is told, and who is asked.

    Attributes:
        recorders: told of each request that is over.
    """

    registry: Registry = field(default_factory=Registry)
    recent: RecentErrors = field(default_factory=RecentErrors)
    recorders: list[Recorder] = field(default_factory=lambda: [log_request])


class _Build:
    def metrics(self) -> Iterator[Sample]:
        yield BUILD_INFO.sample(1, __version__)


@contextmanager
def observing(config: LogConfig) -> Iterator[Observed]:
    """Begin; the log's handlers are as they were afterwards. Raises StartError: no access log."""
    observed, meters = Observed(), RequestMeters()
    observed.recorders.append(meters.record)
    for source in (_Build(), observed.recent, meters):
        observed.registry.add(source)
    root = logging.getLogger()
    root.addHandler(observed.recent)
    access = _open_access_log(config.access) if config.access else None
    if access is not None:
        observed.recorders.append(access.record)
    try:
        yield observed
    finally:
        root.removeHandler(observed.recent)
        if access is not None:
            access.close()


def _open_access_log(to: str) -> AccessLog:
    try:
        return AccessLog(to, HOST_ID)
    except OSError as error:
        raise StartError(
            f"log.access: {to} can't be written ({error.strerror or error}); "
            "name a file in a directory that this user may write to, or leave it empty"
        ) from error
