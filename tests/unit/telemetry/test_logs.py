"""telemetry: lines for people and machines, with nothing in them that opens a door."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from gateway import telemetry
from gateway.telemetry import RequestRecord, Trail, log_request, redact, set_up

RECORD = RequestRecord(
    trail=Trail(operation="GetObject"),
    method="GET",
    target="/b/k?X-Amz-Signature=abc&versionId=1",
    status=200,
    received_bytes=0,
    sent_bytes=10,
    seconds=0.25,
    peer="192.0.2.1",
)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, own = logging.getLogger(), logging.getLogger("gateway")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


def logged_as(trail: Trail) -> None:
    telemetry.begin(trail)
    log_request(RECORD)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/b/k", "/b/k"),
        ("/b/k?X-Amz-Signature=abc&a=1", "/b/k?X-Amz-Signature=-&a=1"),
        ("/b/k?a=1&x-amz-credential=key%2Fscope", "/b/k?a=1&x-amz-credential=-"),
        ("/b/k?X-Amz-Security-Token=t", "/b/k?X-Amz-Security-Token=-"),
        ("/b/k\nforged line", "/b/k%0Aforged%20line"),
    ],
)
def test_redact__target__opens_nothing_and_is_one_line(target: str, expected: str) -> None:
    assert redact(target) == expected


def test_log_request__as_text__is_one_line_with_its_ids(stream: io.StringIO) -> None:
    set_up("info", "text", stream)
    copy_context().run(logged_as, Trail("ABC", session="77d7e0e2"))
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(
        "[ABC/77d7e0e2] GET /b/k?X-Amz-Signature=-&versionId=1 200 in=0 out=10 0.250000s "
        "http 192.0.2.1"
    )


def test_log_request__as_json__has_its_fields(stream: io.StringIO) -> None:
    set_up("info", "json", stream)
    log_request(RECORD)
    line = json.loads(stream.getvalue())
    assert (line["status"], line["sent_bytes"], line["carrier"]) == (200, 10, "http")
    assert line["target"] == "/b/k?X-Amz-Signature=-&versionId=1"
    assert line["time"].endswith("Z")


def test_log_request__level_is_higher__says_nothing(stream: io.StringIO) -> None:
    set_up("warning", "text", stream)
    log_request(RECORD)
    assert stream.getvalue() == ""


def test_set_level__debug__asks_no_library_for_its_secrets(stream: io.StringIO) -> None:
    set_up("debug", "text", stream)
    logging.getLogger("botocore.auth").debug("Signature: deadbeef")
    logging.getLogger("gateway.rdma").debug("lane 1")
    assert "deadbeef" not in stream.getvalue()
    assert "lane 1" in stream.getvalue()
    telemetry.set_level("error")
    logging.getLogger("gateway.rdma").warning("lane 2")
    logging.getLogger("botocore").warning("no credentials")
    assert "lane 2" not in stream.getvalue()
    assert "no credentials" not in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_log__exception__is_kept(stream: io.StringIO, form: str) -> None:
    set_up("info", form, stream)
    try:
        int("boom")
    except ValueError:
        logging.getLogger("gateway.web").exception("it failed")
    assert "it failed" in stream.getvalue()
    assert "ValueError: invalid literal" in stream.getvalue()
