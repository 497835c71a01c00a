"""A circuit breaker: a service that is down is not asked by everybody, one after the other.

Closed, it lets all through and counts failures in a row. Open, it refuses at once. When its time is
over one call probes; its success closes it, its failure opens it anew. Pure: no I/O, no waiting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto

from gateway.errors import GatewayError, S3Code


class State(Enum):
    """Where it stands."""

    CLOSED = auto()
    OPEN = auto()
    PROBING = auto()


class Breaker:
    """One service's. Belongs to one event loop.

    Args:
        failures: in a row, until it opens; > 0.
        open_s: until a probe.
        clock: seconds, monotonic.
    """

    def __init__(self, failures: int, open_s: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._closes_at_s = 0.0
        self._state = State.CLOSED

    @property
    def state(self) -> State:
        return self._state

    def admit(self) -> None:
        """Ask before each call, and tell its end by `succeeded`, `failed` or `abandoned`.

        Raises:
            GatewayError: ServiceUnavailable with Retry-After.
        """
        left_s = self._closes_at_s - self._clock()
        match self._state:
            case State.OPEN if left_s <= 0:
                self._state = State.PROBING
            case State.OPEN | State.PROBING:
                raise unavailable("The storage service does not answer.", max(left_s, 1))

    def succeeded(self) -> None:
        """The service answered, be it with a refusal."""
        self._failures = 0
        self._state = State.CLOSED

    def failed(self) -> None:
        """No answer, or one that says it is broken."""
        self._failures += 1
        if self._state is State.PROBING or self._failures >= self._limit:
            self._state = State.OPEN
            self._closes_at_s = self._clock() + self._open_s

    def abandoned(self) -> None:
        """Nobody waited for the end: it says nothing, but another may probe."""
        if self._state is State.PROBING:
            self._state = State.OPEN


def unavailable(message: str, retry_after_s: float) -> GatewayError:
    """503 ServiceUnavailable, with the whole seconds after which to try again."""
    after = {"Retry-After": str(math.ceil(retry_after_s))}
    return GatewayError(S3Code.SERVICE_UNAVAILABLE, message, headers=after)
