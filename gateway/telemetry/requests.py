"""The numbers of HTTP requests, counted as each one ends. One event loop's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gateway.telemetry.catalogue import (
    FIRST_BYTE_SECONDS,
    LIMIT_HITS,
    MOVED_BYTES,
    REQUEST_SECONDS,
    REQUESTS,
)
from gateway.telemetry.measures import Distribution, Sample
from gateway.telemetry.record import RequestRecord

DURATION_BOUNDS_S = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
_NAMELESS = "none"  # what was refused before it was known what it asks for


class RequestMeters:
    """Counts requests by operation and status, how long they took and what they moved.

    A request costs three look-ups and two bisections here; nothing is formatted before a scrape.
    """

    def __init__(self) -> None:
        self._count: Counter[tuple[str, int]] = Counter()
        self._refused: Counter[str] = Counter()
        self._took: dict[str, tuple[Distribution, Distribution]] = {}
        self._received_bytes = self._sent_bytes = 0

    def record(self, record: RequestRecord) -> None:
        """One request is over."""
        operation = record.trail.operation or _NAMELESS
        self._count[operation, record.status] += 1
        took = self._took.get(operation)
        if took is None:
            took = Distribution(DURATION_BOUNDS_S), Distribution(DURATION_BOUNDS_S)
            self._took[operation] = took
        took[0].observe(record.seconds)
        if record.status:
            took[1].observe(record.first_byte_s)
        if record.trail.limit:
            self._refused[record.trail.limit] += 1
        self._received_bytes += record.received_bytes
        self._sent_bytes += record.sent_bytes

    def metrics(self) -> Iterator[Sample]:
        for (operation, status), count in self._count.items():
            yield REQUESTS.sample(count, operation, str(status))
        for operation, (whole, first_byte) in self._took.items():
            yield REQUEST_SECONDS.sample(whole, operation)
            yield FIRST_BYTE_SECONDS.sample(first_byte, operation)
        for limit, count in self._refused.items():
            yield LIMIT_HITS.sample(count, limit)
        yield MOVED_BYTES.sample(self._received_bytes, "http", "in")
        yield MOVED_BYTES.sample(self._sent_bytes, "http", "out")
