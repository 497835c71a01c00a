"""What one access key may use in a second: requests and bytes, by token buckets. Pure.

A request is judged when its signature is proved, before anything is done for it. Its bytes are
charged when it is over, whichever path they took: a bucket may go below zero by then, and the key
waits until it is filled again. So nothing is cut off half-way, and over a while the rate holds.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from gateway.config import LimitsConfig
from gateway.errors import BusyError
from gateway.telemetry import RequestRecord


@dataclass(slots=True)
class _Bucket:
    """Tokens of one key for one rate; below zero is a debt."""

    tokens: float
    filled_s: float

    def fill(self, rate_per_s: float, burst_s: float, now_s: float) -> None:
        more = (now_s - self.filled_s) * rate_per_s
        self.tokens = min(self.tokens + more, _capacity(rate_per_s, burst_s))
        self.filled_s = now_s


@dataclass(frozen=True, slots=True)
class _Buckets:
    requests: _Bucket
    bytes: _Bucket


class Limiter:
    """Admits requests by key. One event loop's thread.

    Args:
        config: the limits.
        clock: seconds, monotonic.
    """

    def __init__(self, config: LimitsConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._keys: OrderedDict[str, _Buckets] = OrderedDict()

    def configure(self, config: LimitsConfig) -> None:
        """Go by other limits from now on; what was used stays used."""
        self._config = config

    def admit(self, access_key: str) -> None:
        """Let a request of a key in; "" is everybody who signs nothing.

        Raises:
            BusyError: the key has used what it may; the text names the limit, and Retry-After says
                when it is worth coming again.
        """
        config = self._config
        if not config.requests_per_s and not config.bytes_per_s:
            return
        buckets = self._buckets(access_key)
        if config.bytes_per_s:
            _check(buckets.bytes, 0, config.bytes_per_s, "limits.bytes_per_s")
        if config.requests_per_s:
            _check(buckets.requests, 1, config.requests_per_s, "limits.requests_per_s")
            buckets.requests.tokens -= 1

    def record(self, record: RequestRecord) -> None:
        """Charge what a request moved to the key that signed it."""
        if self._config.bytes_per_s:
            moved = record.received_bytes + record.sent_bytes + record.trail.moved_bytes
            self._buckets(record.trail.access_key).bytes.tokens -= moved

    def _buckets(self, access_key: str) -> _Buckets:
        """The key's, filled up to now."""
        now_s, config = self._clock(), self._config
        buckets = self._keys.get(access_key)
        if buckets is None:
            buckets = self._keys[access_key] = _Buckets(
                _Bucket(_capacity(config.requests_per_s, config.burst_s), now_s),
                _Bucket(_capacity(config.bytes_per_s, config.burst_s), now_s),
            )
            if len(self._keys) > config.max_keys:
                self._keys.popitem(last=False)
        self._keys.move_to_end(access_key)
        buckets.requests.fill(config.requests_per_s, config.burst_s, now_s)
        buckets.bytes.fill(config.bytes_per_s, config.burst_s, now_s)
        return buckets


def unlimited() -> Limiter:
    """One that admits everybody."""
    return Limiter(LimitsConfig(), time.monotonic)


def _capacity(rate_per_s: float, burst_s: float) -> float:
    """What may be used at once; at least one request, or a rate below 1/s would admit none."""
    return max(rate_per_s * burst_s, 1.0)


def _check(bucket: _Bucket, needed: float, rate_per_s: float, limit: str) -> None:
    if bucket.tokens < needed or bucket.tokens < 0:
        raise BusyError(
            f"This access key is over its limit ({limit}); come again later.",
            retry_after_s=math.ceil((needed - bucket.tokens) / rate_per_s),
            limit=limit,
        )
