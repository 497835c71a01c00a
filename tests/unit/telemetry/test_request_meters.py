"""requests: what ended is counted, once, under names that no client chooses."""

from __future__ import annotations

import time
from dataclasses import replace

from gateway.telemetry import RequestRecord, Trail
from gateway.telemetry.catalogue import (
    FIRST_BYTE_SECONDS,
    LIMIT_HITS,
    MOVED_BYTES,
    REQUEST_SECONDS,
    REQUESTS,
)
from gateway.telemetry.measures import Distribution, Family
from gateway.telemetry.requests import DURATION_BOUNDS_S, RequestMeters

GET = RequestRecord(
    trail=Trail(operation="GetObject"),
    method="GET",
    target="/b/k",
    status=200,
    received_bytes=0,
    sent_bytes=10,
    seconds=0.02,
    peer="192.0.2.1",
    first_byte_s=0.004,
)
REQUESTS_TIMED = 20_000
LIMIT_US = 25.0  # some 1 µs on a quiet machine


def values(meters: RequestMeters, family: Family) -> dict[tuple[str, ...], float | Distribution]:
    return {one.labels: one.value for one in meters.metrics() if one.family is family}


def test_record__several__are_counted_by_operation_and_status() -> None:
    meters = RequestMeters()
    for record in (GET, GET, replace(GET, status=404), replace(GET, trail=Trail(), status=400)):
        meters.record(record)
    assert values(meters, REQUESTS) == {
        ("GetObject", "200"): 2,
        ("GetObject", "404"): 1,
        ("none", "400"): 1,
    }
    assert values(meters, MOVED_BYTES) == {("http", "in"): 0, ("http", "out"): 40}


def test_record__times__fall_into_their_buckets() -> None:
    meters = RequestMeters()
    meters.record(GET)
    took = values(meters, REQUEST_SECONDS)["GetObject",]
    first = values(meters, FIRST_BYTE_SECONDS)["GetObject",]
    assert isinstance(took, Distribution)
    assert isinstance(first, Distribution)
    assert took.counts[DURATION_BOUNDS_S.index(0.025)] == 1
    assert first.counts[DURATION_BOUNDS_S.index(0.005)] == 1
    assert (took.total, first.total) == (0.02, 0.004)


def test_record__client_went_away__has_no_first_byte() -> None:
    meters = RequestMeters()
    meters.record(replace(GET, status=0, first_byte_s=0.0))
    first = values(meters, FIRST_BYTE_SECONDS)["GetObject",]
    assert isinstance(first, Distribution)
    assert sum(first.counts) == 0


def test_record__refused_by_a_limit__is_counted_by_its_name() -> None:
    meters = RequestMeters()
    refused = Trail(operation="GetObject", limit="limits.requests_per_s")
    meters.record(replace(GET, trail=refused, status=503))
    assert values(meters, LIMIT_HITS) == {("limits.requests_per_s",): 1}


def test_record__many__cost_little_each() -> None:
    meters = RequestMeters()
    begun_s = time.process_time()
    for _ in range(REQUESTS_TIMED):
        meters.record(GET)
    assert (time.process_time() - begun_s) / REQUESTS_TIMED * 1e6 < LIMIT_US
