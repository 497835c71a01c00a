from __future__ import annotations

import pytest

from gateway.client.errors import S3Error
from gateway.client.retry import while_busy
from gateway.config.client import ClientLimits

LIMITS = ClientLimits(attempts=4, backoff_s=1.0, max_backoff_s=3.0)


def busy(retry_after_s: float = 0.0) -> S3Error:
    return S3Error("SlowDown", 503, retry_after_s=retry_after_s)


class Attempts:
    """Fails with these errors, in order, then succeeds; notes the pauses instead of sleeping."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.pauses_s: list[float] = []

    async def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def sleep(self, pause_s: float) -> None:
        self.pauses_s.append(pause_s)


async def test_while_busy__at_first_free__does_not_pause() -> None:
    attempts = Attempts()
    assert await while_busy(attempts, LIMITS, attempts.sleep) == "done"
    assert attempts.pauses_s == []


async def test_while_busy__busy_thrice__pauses_within_doubling_bounds() -> None:
    attempts = Attempts(busy(), busy(), busy())
    assert await while_busy(attempts, LIMITS, attempts.sleep) == "done"
    bounds_s = [1.0, 2.0, 3.0]
    assert all(
        0 <= pause_s <= bound_s
        for pause_s, bound_s in zip(attempts.pauses_s, bounds_s, strict=True)
    )


async def test_while_busy__retry_after__is_waited_for_but_capped() -> None:
    attempts = Attempts(busy(2), busy(1000))
    await while_busy(attempts, LIMITS, attempts.sleep)
    first_s, second_s = attempts.pauses_s
    assert 2 <= first_s <= 3
    assert 3 <= second_s <= 5


async def test_while_busy__busy_for_ever__raises_the_last() -> None:
    attempts = Attempts(*(busy() for _ in range(9)))
    with pytest.raises(S3Error, match="SlowDown"):
        await while_busy(attempts, LIMITS, attempts.sleep)
    assert len(attempts.pauses_s) == 3


async def test_while_busy__another_error__is_raised_at_once() -> None:
    attempts = Attempts(S3Error("InternalError", 500))
    with pytest.raises(S3Error, match="InternalError"):
        await while_busy(attempts, LIMITS, attempts.sleep)
    assert attempts.pauses_s == []
