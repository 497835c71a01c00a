"""Which connections there are, whose they are, and when they end. Pure bookkeeping.

A connection belongs to the access key that made it. One that was made unsigned, where that is
allowed, belongs to the first key that uses it; until then it counts against a cap of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.dataplane.port import Connection
from gateway.errors import BusyError


@dataclass(slots=True)
class Held:
    """One connection.

    Attributes:
        id: 32 hex digits; nobody can foresee them.
        owner: an access key; None until the first use of one that was made unsigned.
        users: requests that use it now; it doesn't expire under them.
        idle_since_s: on the caller's clock.
    """

    id: str
    owner: str | None
    connection: Connection
    users: int = 0
    idle_since_s: float = 0.0


class ConnectionTable:
    """The connections of one gateway.

    Args:
        max_per_key: connections of one access key at once.
        max_unsigned: connections that no key has used yet.
        idle_timeout_s: until an unused one ends.
        new_id: the source of ids: 32 hex digits that nobody can foresee.
    """

    def __init__(
        self,
        max_per_key: int,
        max_unsigned: int,
        idle_timeout_s: float,
        new_id: Callable[[], str],
    ) -> None:
        self._max_per_key = max_per_key
        self._max_unsigned = max_unsigned
        self._idle_timeout_s = idle_timeout_s
        self._new_id = new_id
        self._held: dict[str, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def owners(self) -> Counter[str]:
        """How many each access key has; of "" those that no key has used yet."""
        return Counter(held.owner or "" for held in self._held.values())

    def check_room(self, owner: str | None) -> None:
        """Raises BusyError where this key, or unsigned clients, have as many as they may."""
        count = sum(held.owner == owner for held in self._held.values())
        if owner is None and count >= self._max_unsigned:
            raise BusyError(
                "Too many RDMA connections wait for their first signed request "
                "(rdma.max_unsigned_connections); retry.",
                limit="rdma.max_unsigned_connections",
            )
        if owner is not None and count >= self._max_per_key:
            raise BusyError(
                "This access key has as many RDMA connections as it may "
                "(rdma.connections_per_key); close one, or retry.",
                limit="rdma.connections_per_key",
            )

    def add(self, owner: str | None, connection: Connection, now_s: float) -> Held:
        """A connection that is ready for use."""
        held = Held(self._new_id(), owner, connection, idle_since_s=now_s)
        self._held[held.id] = held
        return held

    def find(self, connection_id: str, owner: str | None) -> Held | None:
        """The key's connection of that id, or one that is to become it; else None."""
        held = self._held.get(connection_id)
        if held is None or held.owner not in (None, owner):
            return None
        held.owner = owner
        return held

    def remove(self, held: Held) -> bool:
        """Forget it; whether it was still there."""
        return self._held.pop(held.id, None) is not None

    def expired(self, now_s: float) -> tuple[Held, ...]:
        """Those that nobody has used for too long, or that broke; to be removed and closed."""
        return tuple(
            held
            for held in self._held.values()
            if held.users == 0 and (self.deadline_s(held) <= now_s or not held.connection.usable)
        )

    def next_deadline_s(self) -> float:
        """When the next one may expire; infinity where none is idle."""
        return min(
            (self.deadline_s(held) for held in self._held.values() if held.users == 0),
            default=math.inf,
        )

    def deadline_s(self, held: Held) -> float:
        """When it expires, if nobody uses it until then."""
        return held.idle_since_s + self._idle_timeout_s

    def all(self) -> Iterator[Held]:
        yield from tuple(self._held.values())
