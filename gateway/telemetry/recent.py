"""The last warnings and errors of the log, for the status page, and how many there were."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.telemetry.catalogue import LOG_LINES
from gateway.telemetry.measures import Sample
from gateway.telemetry.trail import trail

KEPT = 50
_SHOWN_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Incident:
    """One line of the log, without the traceback.

    Attributes:
        time_s: POSIX seconds.
        level: warning, error, critical.
    """

    time_s: float
    level: str
    logger: str
    request_id: str
    session: str
    message: str


class RecentErrors(logging.Handler):
    """Keeps the newest lines of level warning and above, and counts them all."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: deque[Incident] = deque(maxlen=KEPT)
        self._count = Counter(warning=0, error=0)

    def emit(self, record: logging.LogRecord) -> None:
        current, level = trail(), record.levelname.lower()
        self._count[level] += 1
        self._kept.append(
            Incident(
                record.created,
                level,
                record.name,
                current.request_id,
                current.session,
                record.getMessage()[:_SHOWN_CHARACTERS],
            )
        )

    def newest(self) -> tuple[Incident, ...]:
        """What is kept, the newest first."""
        return tuple(reversed(self._kept))

    def metrics(self) -> Iterator[Sample]:
        for level, count in self._count.items():
            yield LOG_LINES.sample(count, level)
