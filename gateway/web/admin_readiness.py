"""Whether the gateway can do its work now: each thing it stands on, really tried.

A try that does not answer in time is reported and left alone: what hangs in a thread or a device
can't be stopped from here, and a second try beside it would only hang, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from gateway.errors import GatewayError
from gateway.telemetry.catalogue import READY
from gateway.telemetry.measures import Sample

Try = Callable[[], Awaitable[None]]
"""Does a little real work. Raises GatewayError where that failed."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Check:
    """One thing that is tried. `reason` is "" where it went well, None before the first try."""

    attempt: Try
    reason: str | None = None
    tried_s: float = -inf
    running: asyncio.Task[None] | None = field(default=None)


class Readiness:
    """Tries everything when asked, at most once in `interval_s`. One event loop.

    Args:
        tries: by name.
        timeout_s: for each; they run side by side.
        interval_s: that an answer is good for, so that many probes cost no more than one.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        tries: Mapping[str, Try],
        timeout_s: float,
        interval_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._checks = {name: _Check(attempt) for name, attempt in tries.items()}
        self._timeout_s = timeout_s
        self._interval_s = interval_s
        self._clock = clock

    async def verdict(self) -> Mapping[str, str]:
        """By name why it can't be used; "" where it can."""
        now_s = self._clock()
        for check in self._checks.values():
            if check.running is None and now_s - check.tried_s >= self._interval_s:
                check.tried_s = now_s
                check.running = asyncio.ensure_future(self._try(check))
        trying = [check for check in self._checks.values() if check.running is not None]
        left_s = max((check.tried_s + self._timeout_s - now_s for check in trying), default=0)
        if left_s > 0:
            await asyncio.wait([one.running for one in trying if one.running], timeout=left_s)
        for check in trying:
            if check.running is not None:
                check.reason = f"no answer within {self._timeout_s:g} s"
        return {name: check.reason or "" for name, check in self._checks.items()}

    def metrics(self) -> Iterator[Sample]:
        for name, check in self._checks.items():
            if check.reason is not None:
                yield READY.sample(check.reason == "", name)

    async def _try(self, check: _Check) -> None:
        try:
            await check.attempt()
            check.reason = ""
        except GatewayError as error:
            check.reason = getattr(error, "cause", error.message)  # for the operator, not a client
            _log.warning("not ready: %s", check.reason)
        except Exception as error:  # noqa: BLE001  (a bug is a reason, too)
            check.reason = type(error).__name__
            _log.exception("not ready, by a bug")
        finally:
            check.running = None
