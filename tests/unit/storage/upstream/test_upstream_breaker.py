"""The circuit breaker, on a clock that stands until it is moved."""

import pytest

from gateway.errors import GatewayError, S3Code
from gateway.storage.upstream.breaker import Breaker, State


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(failures=2, open_s=10, clock=clock)


def open_it(breaker: Breaker) -> None:
    for _ in range(2):
        breaker.admit()
        breaker.failed()
    assert breaker.state is State.OPEN


def refused(breaker: Breaker) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        breaker.admit()
    assert caught.value.code is S3Code.SERVICE_UNAVAILABLE
    return caught.value


def test_breaker__failures_not_in_a_row__stays_closed(breaker: Breaker) -> None:
    for _ in range(5):
        breaker.admit()
        breaker.failed()
        breaker.admit()
        breaker.succeeded()
    assert breaker.state is State.CLOSED


def test_breaker__open__refuses_and_says_how_long(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now_s = 2.5
    assert refused(breaker).headers == {"Retry-After": "8"}


@pytest.mark.parametrize("good", [True, False])
def test_breaker__its_time_is_over__one_probe_decides(
    breaker: Breaker, clock: Clock, good: bool
) -> None:
    open_it(breaker)
    clock.now_s = 10
    breaker.admit()
    refused(breaker)
    if good:
        breaker.succeeded()
        breaker.admit()
        assert breaker.state is State.CLOSED
    else:
        breaker.failed()
        refused(breaker)
        assert breaker.state is State.OPEN


def test_breaker__probe_given_up__the_next_one_probes(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now_s = 10
    breaker.admit()
    breaker.abandoned()
    breaker.admit()
    assert breaker.state is State.PROBING
