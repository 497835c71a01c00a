"""recent: the newest warnings, with what they belong to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from gateway.telemetry import Trail, begin
from gateway.telemetry.catalogue import LOG_LINES
from gateway.telemetry.recent import KEPT, RecentErrors

log = logging.getLogger("gateway.test_recent")


@pytest.fixture
def recent() -> Iterator[RecentErrors]:
    handler = RecentErrors()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def warn_as(trail: Trail, text: str) -> None:
    begin(trail)
    log.warning("%s", text)


def test_newest__warning_in_a_request__carries_its_ids(recent: RecentErrors) -> None:
    copy_context().run(warn_as, Trail("REQ", session="77d7e0e2"), "it broke")
    (one,) = recent.newest()
    assert (one.level, one.request_id, one.session, one.message) == (
        *("warning", "REQ", "77d7e0e2"),
        "it broke",
    )


def test_newest__many__are_bounded_and_the_newest_first(recent: RecentErrors) -> None:
    for number in range(KEPT + 5):
        log.error("number %d", number)
    log.info("not worth it")
    shown = recent.newest()
    assert len(shown) == KEPT
    assert shown[0].message == f"number {KEPT + 4}"
    counts = {one.labels: one.value for one in recent.metrics() if one.family is LOG_LINES}
    assert counts == {("warning",): 0, ("error",): KEPT + 5}


def test_newest__long_message__is_cut(recent: RecentErrors) -> None:
    log.error("x" * 10_000)
    assert len(recent.newest()[0].message) < 1000
