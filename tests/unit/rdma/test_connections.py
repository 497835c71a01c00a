"""The table of connections: owners, caps, and who may still use what when."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.errors import BusyError
from gateway.rdma.connections import ConnectionTable


@dataclass
class FakeConnection:
    usable: bool = True


def table(max_per_key: int = 2, max_unsigned: int = 1) -> ConnectionTable:
    ids = (f"{number:032x}" for number in itertools.count(1))
    return ConnectionTable(max_per_key, max_unsigned, 300.0, lambda: next(ids))


def connection() -> Any:
    return FakeConnection()


def test_find__another_key__sees_nothing() -> None:
    connections = table()
    held = connections.add("alice", connection(), 0.0)
    assert connections.find(held.id, "alice") is held
    assert connections.find(held.id, "bob") is None
    assert connections.find(held.id, None) is None
    assert connections.find("f" * 32, "alice") is None


def test_find__made_unsigned__belongs_to_the_first_key_that_uses_it() -> None:
    connections = table()
    held = connections.add(None, connection(), 0.0)
    assert connections.find(held.id, "bob") is held
    assert connections.find(held.id, "alice") is None
    assert connections.find(held.id, "bob") is held


def test_check_room__cap_of_a_key__does_not_touch_another() -> None:
    connections = table()
    for _ in range(2):
        connections.check_room("alice")
        connections.add("alice", connection(), 0.0)
    with pytest.raises(BusyError, match=r"rdma\.connections_per_key"):
        connections.check_room("alice")
    connections.check_room("bob")


def test_check_room__unsigned__has_a_cap_of_its_own_until_used() -> None:
    connections = table()
    held = connections.add(None, connection(), 0.0)
    with pytest.raises(BusyError, match=r"rdma\.max_unsigned_connections"):
        connections.check_room(None)
    connections.find(held.id, "alice")
    connections.check_room(None)


def test_expired__idle_for_too_long__but_not_one_in_use() -> None:
    connections = table()
    idle = connections.add("alice", connection(), 0.0)
    busy = connections.add("alice", connection(), 0.0)
    busy.users = 1
    assert connections.expired(299.9) == ()
    assert connections.expired(300.0) == (idle,)
    assert connections.next_deadline_s() == 300.0
    idle.users = 1
    assert connections.next_deadline_s() == math.inf


def test_expired__broken__at_once() -> None:
    connections = table()
    held = connections.add("alice", connection(), 0.0)
    held.connection.usable = False  # type: ignore[misc]
    assert connections.expired(0.0) == (held,)


def test_remove__twice__only_the_first_removes() -> None:
    connections = table()
    held = connections.add("alice", connection(), 0.0)
    assert connections.remove(held)
    assert not connections.remove(held)
    assert len(connections) == 0


def test_owners__keys_and_unsigned__are_counted_apart() -> None:
    connections = table()
    for owner in ("alice", None, "alice"):
        connections.add(owner, connection(), 0.0)
    assert connections.owners() == {"alice": 2, "": 1}
