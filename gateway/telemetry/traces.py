"""Traces of requests: request → auth, storage, data. Off until `set_up`; then OpenTelemetry's.

Span names and what is said of a request are made here alone. A failure is told by its name, never
by its text, which may quote what a client sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from gateway.telemetry.trail import Trail

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_NAME = "s3rdma"
_PARENT = "traceparent"  # https://www.w3.org/TR/trace-context/


class _Spans(Protocol):
    """Makes spans; another one does when traces are switched on."""

    def request(self, known: Trail, parent: str | None) -> AbstractContextManager[object]: ...

    def part(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]: ...


class _NoSpans:
    """Traces are off: nothing is made."""

    _nothing = nullcontext()

    def request(self, known: Trail, parent: str | None) -> AbstractContextManager[object]:
        del known, parent
        return self._nothing

    def part(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
        del name, attributes
        return self._nothing


_spans: _Spans = _NoSpans()


def request_span(known: Trail, parent: str | None) -> AbstractContextManager[object]:
    """The span of a whole request; on leaving it says what its trail knows.

    Args:
        known: the request's trail.
        parent: its ``traceparent`` header.
    """
    return _spans.request(known, parent)


def span(name: str, **attributes: str) -> AbstractContextManager[object]:
    """A part of the request that runs: "auth", "storage", "data"."""
    return _spans.part(name, attributes)


def set_up(provider: TracerProvider) -> Callable[[], None]:
    """Make spans from now on, by a provider; returns what switches them off again."""
    global _spans  # noqa: PLW0603  (one process, one stream of traces, like the root logger)
    _spans = _OtelSpans(provider)

    def tear_down() -> None:
        global _spans  # noqa: PLW0603
        _spans = _NoSpans()
        provider.shutdown()

    return tear_down


def otlp_provider(endpoint: str, sample_ratio: float, version: str) -> TracerProvider:
    """A provider that sends spans by OTLP over HTTP, from a thread of its own, in batches.

    Args:
        endpoint: ``http://HOST:4318/v1/traces``.
        sample_ratio: of requests that no sampled parent sent, 0..1.
        version: of the gateway.

    Raises:
        ImportError: the extra ``otel`` is not installed.
    """
    # Optional packages, heavy ones: loaded where traces are wanted.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415

    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(sample_ratio),
        resource=Resource.create({"service.name": _NAME, "service.version": version}),
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return provider


class _OtelSpans:
    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._tracer = provider.get_tracer(_NAME)
        self._kind, self._error = SpanKind.SERVER, StatusCode.ERROR
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, known: Trail, parent: str | None) -> Iterator[object]:
        context = self._propagator.extract({_PARENT: parent}) if parent else None
        with self._tracer.start_as_current_span(
            "request",
            context,
            self._kind,
            record_exception=False,
            set_status_on_exception=False,
        ) as one:
            try:
                yield one
            finally:
                self._finish(one, known)

    @contextmanager
    def part(self, name: str, attributes: Mapping[str, str]) -> Iterator[object]:
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as one:
            try:
                yield one
            except BaseException as error:
                one.set_status(self._error, type(error).__name__)
                raise

    def _finish(self, one: Span, known: Trail) -> None:
        """Names after https://opentelemetry.io/docs/specs/semconv/ where it has them."""
        one.update_name(known.operation or "request")
        said: dict[str, str | int] = {
            "http.response.status_code": known.status,
            "aws.request_id": known.request_id,
            "aws.s3.bucket": known.bucket,
            "aws.s3.key": known.key,
            "error.type": known.error,
            "s3rdma.path": known.path,
            "s3rdma.session": known.session,
            "s3rdma.moved_bytes": known.moved_bytes,
        }
        one.set_attributes({name: value for name, value in said.items() if value})
        if known.status >= 500:
            one.set_status(self._error, known.error)
