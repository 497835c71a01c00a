"""The arena's bookkeeping, with a clock that stands still."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dataplane.census import Occupancy
from gateway.dataplane.port import Need
from gateway.dataplane.staging import Arena
from gateway.errors import BusyError, ClientError, S3Code

LANES = ((100, "small-1"), (800, "long"), (100, "small-2"), (400, "middle"))


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def arena(clock: Clock) -> Arena[str]:
    return Arena(LANES, ring_bytes=300, quarantine_s=2.0, clock=clock)


@pytest.mark.parametrize(
    ("length", "lane"), [(1, "small-1"), (100, "small-1"), (101, "middle"), (401, "long")]
)
def test_take__receive__shortest_lane_that_fits(arena: Arena[str], length: int, lane: str) -> None:
    assert arena.take(Need.RECEIVE, length) == lane


def test_take__receive__longer_class_where_the_fitting_one_is_out(arena: Arena[str]) -> None:
    taken = [arena.take(Need.RECEIVE, 50) for _ in range(4)]
    assert taken == ["small-1", "small-2", "middle", "long"]


def test_take__receive_longer_than_any_lane__413_that_names_the_limit(arena: Arena[str]) -> None:
    with pytest.raises(ClientError, match=r"at most 800 bytes.*rdma\.lanes.*multipart") as caught:
        arena.take(Need.RECEIVE, 801)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TOO_LARGE
    assert caught.value.code.status == 413


def test_take__send_of_any_length__ring_then_shorter_rings_then_longer_lanes(
    arena: Arena[str],
) -> None:
    taken = [arena.take(Need.SEND, 5_000_000) for _ in range(4)]
    assert taken == ["middle", "small-1", "small-2", "long"]


def test_take__short_send__leaves_the_long_lanes_alone(arena: Arena[str]) -> None:
    assert arena.take(Need.SEND, 10) == "small-1"


def test_take__all_lent__busy_with_the_settings_name_and_retry_after(arena: Arena[str]) -> None:
    for _ in range(4):
        arena.take(Need.RECEIVE, 1)
    with pytest.raises(BusyError, match=r"rdma\.lanes") as caught:
        arena.take(Need.RECEIVE, 1)
    assert caught.value.headers["Retry-After"] == "1"
    assert len(arena) == 0


def test_take__lane_still_resting__only_after_the_quarantine(
    arena: Arena[str], clock: Clock
) -> None:
    arena.give_back(800, arena.take(Need.RECEIVE, 800))
    assert len(arena) == 4
    clock.now_s += 1.9
    with pytest.raises(BusyError):
        arena.take(Need.RECEIVE, 800)
    clock.now_s += 0.2
    assert arena.take(Need.RECEIVE, 800) == "long"


def test_take__empty_arena__413() -> None:
    empty: Arena[str] = Arena((), ring_bytes=1, quarantine_s=0, clock=lambda: 0.0)
    with pytest.raises(ClientError):
        empty.take(Need.RECEIVE, 1)
    with pytest.raises(BusyError):
        empty.take(Need.SEND, 1)


@given(st.lists(st.tuples(st.sampled_from(Need), st.integers(1, 800)), max_size=30))
def test_take__any_sequence__no_lane_is_lent_twice_and_every_receive_fits(
    wishes: list[tuple[Need, int]],
) -> None:
    arena: Arena[str] = Arena(LANES, ring_bytes=300, quarantine_s=0, clock=lambda: 0.0)
    lengths = {lane: length for length, lane in LANES}
    lent: list[str] = []
    for need, length in wishes:
        try:
            lane = arena.take(need, length)
        except BusyError:
            if lent:
                back = lent.pop(0)
                arena.give_back(lengths[back], back)
            continue
        assert lane not in lent
        assert need is Need.SEND or lengths[lane] >= length
        lent.append(lane)
    assert len(arena) + len(lent) == len(LANES)


def test_occupancy__lanes_come_and_go__each_is_free_lent_resting_or_lost(
    arena: Arena[str], clock: Clock
) -> None:
    assert arena.occupancy() == Occupancy(free=4, leased=0, resting=0)
    first, second = arena.take(Need.RECEIVE, 1), arena.take(Need.RECEIVE, 1)
    assert arena.occupancy() == Occupancy(free=2, leased=2, resting=0)
    arena.give_back(100, first)
    assert arena.occupancy() == Occupancy(free=2, leased=1, resting=1)
    clock.now_s += 2.0
    assert arena.occupancy() == Occupancy(free=3, leased=1, resting=0)
    arena.lose()
    assert arena.occupancy() == Occupancy(free=3, leased=0, resting=0)
    assert second not in {arena.take(Need.SEND, 1) for _ in range(3)}
