"""limiter: rates by key, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gateway.config import LimitsConfig
from gateway.errors import BusyError
from gateway.telemetry import RequestRecord, Trail
from gateway.web.limiter import Limiter, unlimited


@dataclass
class Clock:
    now_s: float = 50.0

    def __call__(self) -> float:
        return self.now_s


def moved(key: str, received: int = 0, sent: int = 0, by_rdma: int = 0) -> RequestRecord:
    trail = Trail(access_key=key, moved_bytes=by_rdma)
    return RequestRecord(trail, "GET", "/b/k", 200, received, sent, 0.1, "")


def refusal(limiter: Limiter, key: str) -> BusyError:
    with pytest.raises(BusyError) as raised:
        limiter.admit(key)
    return raised.value


def test_admit__no_limits__admits_everybody() -> None:
    limiter = unlimited()
    for _ in range(1000):
        limiter.admit("AK")
    limiter.record(moved("AK", sent=1 << 40))
    limiter.admit("AK")


def test_admit__rate_of_requests__holds_and_recovers() -> None:
    clock = Clock()
    limiter = Limiter(LimitsConfig(requests_per_s=5, burst_s=2), clock)
    for _ in range(10):
        limiter.admit("AK")
    error = refusal(limiter, "AK")
    assert (error.code.status, error.headers["Retry-After"]) == (503, "1")
    assert error.limit == "limits.requests_per_s"
    assert "limits.requests_per_s" in error.message
    clock.now_s += 0.2
    limiter.admit("AK")
    refusal(limiter, "AK")


def test_admit__another_key__has_its_own() -> None:
    limiter = Limiter(LimitsConfig(requests_per_s=1), Clock())
    limiter.admit("AK1")
    limiter.admit("AK2")
    limiter.admit("")
    for key in ("AK1", "AK2", ""):
        refusal(limiter, key)


def test_admit__slow_rate__lets_one_in_at_a_time() -> None:
    clock = Clock()
    limiter = Limiter(LimitsConfig(requests_per_s=0.1, burst_s=1), clock)
    limiter.admit("AK")
    assert refusal(limiter, "AK").headers["Retry-After"] == "10"
    clock.now_s += 10
    limiter.admit("AK")


def test_record__more_bytes_than_allowed__are_owed() -> None:
    clock = Clock()
    limiter = Limiter(LimitsConfig(bytes_per_s=1000, burst_s=1), clock)
    limiter.admit("AK")
    limiter.record(moved("AK", received=1500, sent=1500, by_rdma=2000))
    error = refusal(limiter, "AK")
    assert (error.limit, error.headers["Retry-After"]) == ("limits.bytes_per_s", "4")
    limiter.admit("OTHER")
    clock.now_s += 4
    limiter.admit("AK")


def test_configure__other_limits__hold_from_then_on() -> None:
    clock = Clock()
    limiter = Limiter(LimitsConfig(requests_per_s=1), clock)
    limiter.admit("AK")
    refusal(limiter, "AK")
    limiter.configure(LimitsConfig())
    limiter.admit("AK")
    limiter.configure(LimitsConfig(requests_per_s=2, burst_s=1))
    clock.now_s += 10
    limiter.admit("AK")
    limiter.admit("AK")
    refusal(limiter, "AK")


def test_admit__more_keys_than_kept__forgets_the_longest_idle() -> None:
    limiter = Limiter(LimitsConfig(requests_per_s=1, max_keys=2), Clock())
    for key in ("AK1", "AK2", "AK3"):
        limiter.admit(key)
    refusal(limiter, "AK3")
    limiter.admit("AK1")  # forgotten, and so new again
