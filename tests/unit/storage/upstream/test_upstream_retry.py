"""Waits between attempts."""

from gateway.storage.upstream.retry import Backoff

BACKOFF = Backoff(attempts=4, first_s=0.1, most_s=0.3)


def test_delay__attempts_fail__doubles_up_to_the_most_then_ends() -> None:
    assert [BACKOFF.delay_s(n, draw=1.0) for n in range(1, 5)] == [0.1, 0.2, 0.3, None]


def test_delay__any_draw__in_the_upper_half() -> None:
    for _ in range(100):
        delay_s = BACKOFF.delay_s(2)
        assert delay_s is not None
        assert 0.1 <= delay_s <= 0.2
