"""traces: spans of a request on every path, read by OpenTelemetry's own exporter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loopback_gateway import LoopbackGateway
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from gateway.app.errors import StartError
from gateway.app.tracing import tracing
from gateway.config import TracesConfig
from gateway.errors import ClientError, S3Code
from gateway.telemetry import Trail, traces
from gateway.telemetry.traces import request_span, span

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tear_down = traces.set_up(provider)
    yield exporter
    tear_down()


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {one.name: one for one in exporter.get_finished_spans()}


def test_request_span__ended__has_its_trails_name_and_the_callers_trace(
    exporter: InMemorySpanExporter,
) -> None:
    known = Trail("REQ", operation="GetObject", bucket="b", key="k", status=200, moved_bytes=5)
    with request_span(known, PARENT), span("auth"):
        pass
    spans = by_name(exporter)
    request, auth = spans["GetObject"], spans["auth"]
    assert request.parent is not None
    assert auth.parent is not None
    assert f"{request.parent.trace_id:032x}" == PARENT.split("-")[1]
    assert auth.parent.span_id == request.context.span_id
    assert dict(request.attributes or {}) == {
        "http.response.status_code": 200,
        "aws.request_id": "REQ",
        "aws.s3.bucket": "b",
        "aws.s3.key": "k",
        "s3rdma.path": "http",
        "s3rdma.moved_bytes": 5,
    }


def test_span__failed__tells_the_kind_and_not_the_text(exporter: InMemorySpanExporter) -> None:
    known = Trail(operation="GetObject", status=403, error="SignatureDoesNotMatch")
    with (
        pytest.raises(ClientError),
        request_span(known, "nonsense"),
        span("auth"),
    ):
        raise ClientError(S3Code.SIGNATURE_DOES_NOT_MATCH, "signature deadbeef")
    auth = by_name(exporter)["auth"]
    assert (auth.status.status_code, auth.status.description) == (StatusCode.ERROR, "ClientError")
    assert not auth.events
    assert all("deadbeef" not in one.to_json() for one in exporter.get_finished_spans())


def test_request_span__servers_fault__is_an_error(exporter: InMemorySpanExporter) -> None:
    with request_span(Trail(status=500, error="InternalError"), None):
        pass
    (one,) = exporter.get_finished_spans()
    assert (one.name, one.status.status_code) == ("request", StatusCode.ERROR)


async def test_spans__transfer_by_rdma__has_auth_storage_and_data(
    exporter: InMemorySpanExporter,
) -> None:
    gateway = LoopbackGateway()
    await gateway.store("bucket", "key", b"x" * 1000)
    exporter.clear()
    answer, data = await gateway.get("/bucket/key", 1000)
    assert (answer.status, data) == (200, b"x" * 1000)
    spans = by_name(exporter)
    assert {"auth", "storage", "data"} <= spans.keys()
    assert dict(spans["data"].attributes or {}) == {"path": "rdma"}
    await gateway.settled()


def test_spans__switched_off__are_not_made(exporter: InMemorySpanExporter) -> None:
    traces.set_up(TracerProvider())()
    with request_span(Trail(), PARENT), span("auth"):
        pass
    assert not exporter.get_finished_spans()


def test_tracing__no_endpoint__does_nothing() -> None:
    with tracing(TracesConfig()), span("auth"):
        pass


def test_tracing__packages_missing__names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> TracerProvider:
        raise ImportError(name="opentelemetry")

    monkeypatch.setattr(traces, "otlp_provider", missing)
    with (
        pytest.raises(StartError, match=r"s3-rdma-gateway\[otel\]"),
        tracing(TracesConfig("http://127.0.0.1:4318/v1/traces")),
    ):
        pass


def test_tracing__endpoint__sends_by_otlp_until_it_ends() -> None:
    with tracing(TracesConfig("http://127.0.0.1:1/v1/traces", sample_ratio=0.0)), span("auth"):
        pass
