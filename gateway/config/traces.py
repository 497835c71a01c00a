"""Traces."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import setting


@dataclass(frozen=True, slots=True)
class TracesConfig:
    """OpenTelemetry; needs the extra ``otel``."""

    endpoint: str = setting("", "OTLP over HTTP: http://HOST:4318/v1/traces; empty for no traces")
    sample_ratio: float = setting(1.0, "of requests without a sampled parent", low=0, high=1)
