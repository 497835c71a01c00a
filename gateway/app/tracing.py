"""Traces, where they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway import __version__
from gateway.app.errors import StartError
from gateway.config import TracesConfig
from gateway.telemetry import traces


@contextmanager
def tracing(config: TracesConfig) -> Iterator[None]:
    """Send spans while this lasts; nothing where no endpoint is set. Raises StartError."""
    if not config.endpoint:
        yield
        return
    try:
        provider = traces.otlp_provider(config.endpoint, config.sample_ratio, __version__)
    except ImportError as error:
        raise StartError(
            f"traces.endpoint needs OpenTelemetry ({error.name} is not installed): "
            "pip install 's3-rdma-gateway[otel]', or leave it empty"
        ) from error
    tear_down = traces.set_up(provider)
    try:
        yield
    finally:
        tear_down()
