"""Staging slots: who gets the next ones. Fair among owners, and bounded. Pure but for its futures.

One pool of equal slots serves every connection's moves. An owner is an access key: the slots that
become free go round the owners that wait, so that a key with a thousand requests delays another
key's one by a single turn; and no key gets the last ones, if it has some already.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from gateway.errors import BusyError

MOVE_SLOTS = 4
"""Most of one move: enough to read a disk, wait for the wire and store at the same time."""

_NEWCOMERS_SHARE = 8
"""One part in so many of the pool, and at least a move's slots, is left to owners that have none:
an owner whose peers are slow, or dead until their retries end, holds its own for as long. Of a pool
that is hardly larger than that, nothing is."""


@dataclass(slots=True)
class _Waiter:
    count: int
    granted: asyncio.Future[tuple[int, ...]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class SlotPool:
    """Numbered slots to lend. One event loop's thread.

    Args:
        count: how many there are, >= MOVE_SLOTS.
        max_waiting: moves that may wait for slots; one more is refused.

    Attributes:
        per_owner: most that one owner holds, though never less than a move needs; 0 is no limit.
            Who has as many waits for its own to come back, while others are served.
    """

    def __init__(self, count: int, max_waiting: int) -> None:
        self._free = list(range(count))
        self._count = count
        self._max_waiting = max_waiting
        self.per_owner = 0
        reserve = max(MOVE_SLOTS, count // _NEWCOMERS_SHARE)
        self._reserve = reserve if count >= 4 * reserve else 0
        self._waiting = 0
        self._owners: dict[int, str] = {}
        self._held: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()

    @property
    def in_use(self) -> int:
        return self._count - len(self._free)

    @property
    def count(self) -> int:
        return self._count

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def waiters(self) -> dict[str, int]:
        """How many wait, by owner."""
        return {owner: len(queue) for owner, queue in self._queues.items()}

    async def take(self, owner: str, count: int) -> tuple[int, ...]:
        """`count` slots, 1..MOVE_SLOTS, once it is the owner's turn.

        Raises:
            BusyError: too many wait already.
        """
        if not self._queues and self._may_have(owner, count) and self._is_free(owner, count):
            return self._grant(owner, count)
        if self._waiting >= self._max_waiting:
            raise BusyError(
                "Too many RDMA requests wait for staging (rdma.max_waiting); retry.",
                limit="rdma.max_waiting",
            )
        waiter = _Waiter(count)
        self._queues.setdefault(owner, deque()).append(waiter)
        self._waiting += 1
        self._serve()  # those before it may wait for slots of their own
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            self._withdraw(owner, waiter)
            raise

    def give_back(self, slots: tuple[int, ...]) -> None:
        """Nothing touches these slots any more."""
        self._free.extend(slots)
        for slot in slots:
            owner = self._owners.pop(slot)
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
        self._serve()

    def _grant(self, owner: str, count: int) -> tuple[int, ...]:
        granted = tuple(self._free[-count:])
        del self._free[-count:]
        self._owners |= dict.fromkeys(granted, owner)
        self._held[owner] += count
        return granted

    def _may_have(self, owner: str, count: int) -> bool:
        """Whether an owner would keep below its bound with so many more."""
        return not self.per_owner or self._held[owner] + count <= max(self.per_owner, MOVE_SLOTS)

    def _is_free(self, owner: str, count: int) -> bool:
        """Whether so many can be had by this owner now."""
        left = len(self._free) - count
        return left >= (self._reserve if self._held[owner] else 0)

    def _next_owner(self) -> str | None:
        """Whose oldest request is served now; None where what comes next has to be waited for.

        It is the owner whose turn it is. While that has slots already and waits for more, one that
        has none goes before it. A larger request of an owner without any is waited for: smaller
        ones that overtook it would starve it.
        """
        ahead_has_slots = False
        for owner, queue in self._queues.items():
            count = queue[0].count
            if not self._may_have(owner, count) or (ahead_has_slots and self._held[owner]):
                continue
            if self._is_free(owner, count):
                return owner
            if not self._held[owner]:
                return None
            ahead_has_slots = True
        return None

    def _serve(self) -> None:
        """Serve whoever can be served now."""
        while (owner := self._next_owner()) is not None:
            queue = self._queues[owner]
            waiter = queue.popleft()
            self._waiting -= 1
            self._queues.move_to_end(owner)
            if not queue:
                del self._queues[owner]
            if not waiter.granted.cancelled():  # else its task has yet to hear that it was
                waiter.granted.set_result(self._grant(owner, waiter.count))

    def _withdraw(self, owner: str, waiter: _Waiter) -> None:
        """The one who waited was cancelled, perhaps in the moment it was granted its slots."""
        if waiter.granted.done() and not waiter.granted.cancelled():
            self.give_back(waiter.granted.result())
            return
        queue = self._queues.get(owner)
        if queue is None or waiter not in queue:
            return  # its turn came, and passed, while the cancellation was on its way here
        queue.remove(waiter)
        self._waiting -= 1
        if not queue:
            del self._queues[owner]
        self._serve()
