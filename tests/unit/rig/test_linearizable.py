"""The checker itself: histories that are known to be right, and known to be wrong."""

import random
from itertools import permutations
from math import inf

import pytest
from linearizable import Kind, Operation, linearizable


def write(value: str | None, called: float, returned: float = inf) -> Operation:
    return Operation(Kind.WRITE, value, called, returned)


def read(value: str | None, called: float, returned: float = inf) -> Operation:
    return Operation(Kind.READ, value, called, returned)


RIGHT = {
    "nothing": [],
    "one after the other": [write("a", 0, 1), read("a", 2, 3), write(None, 4, 5), read(None, 6, 7)],
    "read beside a write sees the old": [write("a", 0, 1), write("b", 2, 5), read("a", 3, 4)],
    "read beside a write sees the new": [write("a", 0, 1), write("b", 2, 5), read("b", 3, 4)],
    "two writes at once, either order": [write("a", 0, 3), write("b", 1, 2), read("a", 4, 5)],
    "two readers, old then new": [write("a", 0, 9), read(None, 1, 2), read("a", 3, 4)],
    "no answer, took effect late": [write("a", 0), read(None, 1, 2), read("a", 3, 4)],
    "no answer, took no effect": [write("a", 0), read(None, 1, 2), read(None, 3, 4)],
    "the same value twice": [write("a", 0, 1), write("b", 2, 3), write("a", 4, 5), read("a", 6, 7)],
}
WRONG = {
    "read of what was never written": [write("a", 0, 1), read("b", 2, 3)],
    "stale read": [write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)],
    "lost update": [write("a", 0, 1), read(None, 2, 3)],
    "deleted, and seen again": [write("a", 0, 1), write(None, 2, 3), read("a", 4, 5)],
    "read before it was written": [read("a", 0, 1), write("a", 2, 3)],
    "two readers, new then old": [write("a", 0, 9), read("a", 1, 2), read(None, 3, 4)],
    "readers disagree on the order": [
        write("a", 0, 1),
        write("b", 0, 1),
        read("a", 2, 3),
        read("b", 4, 5),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_linearizable__right_history__true(name: str) -> None:
    assert linearizable(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_linearizable__wrong_history__false(name: str) -> None:
    assert not linearizable(WRONG[name])


def brute(history: list[Operation]) -> bool:
    """Every order, tried."""
    for order in permutations(history):
        if any(
            later.returned_at < earlier.called_at
            for number, earlier in enumerate(order)
            for later in order[number + 1 :]
        ):
            continue
        value: str | None = None
        for operation in order:
            if operation.kind is Kind.WRITE:
                value = operation.value
            elif operation.value != value:
                break
        else:
            return True
    return False


def test_linearizable__random_short_histories__as_trying_every_order() -> None:
    chance = random.Random(1)
    verdicts = set()
    for _ in range(400):
        times = chance.sample(range(100), 10)
        history = [
            Operation(
                chance.choice(list(Kind)),
                chance.choice([None, "a", "b"]),
                *sorted(times[n : n + 2]),
            )
            for n in range(0, 10, 2)
        ]
        assert linearizable(history) is brute(history)
        verdicts.add(brute(history))
    assert verdicts == {True, False}


def test_linearizable__long_and_crowded__decided_fast_and_one_stale_read_found() -> None:
    """Eight clients on one register, each operation of which takes effect within its time."""
    chance = random.Random(2)
    clients = [0.0] * 8
    history: list[Operation] = []
    points: list[tuple[float, int]] = []
    for number in range(3000):
        client = min(range(8), key=clients.__getitem__)
        called = clients[client] + chance.random()
        returned = clients[client] = called + 1 + chance.random()
        history.append(Operation(chance.choice(list(Kind)), str(number), called, returned))
        points.append((chance.uniform(called, returned), number))
    value: str | None = None
    for _, number in sorted(points):
        one = history[number]
        if one.kind is Kind.WRITE:
            value = one.value
        else:
            history[number] = Operation(Kind.READ, value, one.called_at, one.returned_at)
    assert linearizable(history)
    stale = next(one.value for one in history if one.kind is Kind.WRITE)
    late = max(one.returned_at for one in history)
    assert not linearizable([*history, read(stale, late + 1, late + 2)])
