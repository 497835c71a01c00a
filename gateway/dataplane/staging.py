"""The arena: which lanes are free, which rest, and which one a transfer gets. Pure bookkeeping.

Lanes come in classes of one length. A lane that was given back rests for the quarantine, so that a
late packet of the old session finds no queue pair of the same number in use (PROTOCOL section 5.7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gateway.dataplane.census import Occupancy
from gateway.dataplane.port import Need
from gateway.errors import BusyError, ClientError, S3Code

L = TypeVar("L")


@dataclass(slots=True)
class _Class(Generic[L]):
    """Free lanes of one length, in the order in which their rest ends."""

    length_bytes: int
    free: deque[tuple[float, L]] = field(default_factory=deque)

    def take(self, now_s: float) -> L | None:
        """The lane that has rested longest, or None."""
        if self.free and self.free[0][0] <= now_s:
            return self.free.popleft()[1]
        return None


class Arena(Generic[L]):
    """Lanes to lend.

    Args:
        lanes: (length in bytes, lane).
        ring_bytes: what a SEND can make use of; longer lanes would idle.
        quarantine_s: rest of a lane between two uses, >= 0.
        clock: seconds, monotonic.
        exhausted: what to say where none is free; it names the setting.
    """

    def __init__(
        self,
        lanes: Iterable[tuple[int, L]],
        *,
        ring_bytes: int,
        quarantine_s: float,
        clock: Callable[[], float],
        exhausted: str = "All RDMA staging lanes of this size are in use (rdma.lanes); retry.",
    ) -> None:
        self._exhausted = exhausted
        self._ring_bytes = ring_bytes
        self._quarantine_s = quarantine_s
        self._clock = clock
        self._classes: dict[int, _Class[L]] = {}
        for length_bytes, lane in lanes:
            cls = self._classes.setdefault(length_bytes, _Class(length_bytes))
            cls.free.append((float("-inf"), lane))
        self._leased = 0
        self._classes = dict(sorted(self._classes.items()))

    def __len__(self) -> int:
        """Lanes that are free or resting."""
        return sum(len(cls.free) for cls in self._classes.values())

    def occupancy(self) -> Occupancy:
        """What has become of its lanes, but for those that were lost."""
        now_s = self._clock()
        free = sum(ready_s <= now_s for cls in self._classes.values() for ready_s, _ in cls.free)
        return Occupancy(free, self._leased, len(self) - free)

    def take(self, need: Need, length_bytes: int) -> L:
        """The free lane that wastes least: see `_candidates`.

        Raises:
            ClientError: 413, a RECEIVE longer than any lane.
            BusyError: all fitting lanes are lent or resting.
        """
        longest_bytes = max(self._classes, default=0)
        if need is Need.RECEIVE and length_bytes > longest_bytes:
            raise ClientError(
                S3Code.RDMA_TRANSFER_TOO_LARGE,
                f"An RDMA transfer carries at most {longest_bytes} bytes here (rdma.lanes); "
                "use multipart upload.",
            )
        now_s = self._clock()
        for cls in self._candidates(need, length_bytes):
            lane = cls.take(now_s)
            if lane is not None:
                self._leased += 1
                return lane
        raise BusyError(self._exhausted)

    def give_back(self, length_bytes: int, lane: L) -> None:
        """`lane` is drained and recycled; it may be lent again after its rest."""
        self._leased -= 1
        ready_s = self._clock() + self._quarantine_s
        self._classes[length_bytes].free.append((ready_s, lane))

    def lose(self) -> None:
        """A lane that was lent can't be lent again."""
        self._leased -= 1

    def _candidates(self, need: Need, length_bytes: int) -> Iterator[_Class[L]]:
        """Classes in order of preference.

        RECEIVE takes the shortest that fits. SEND wants a ring, not the whole object; where that
        class is out it makes do with a shorter ring before it takes a long lane from a RECEIVE.
        """
        classes = list(self._classes.values())
        wanted_bytes = length_bytes if need is Need.RECEIVE else min(length_bytes, self._ring_bytes)
        fitting = [cls for cls in classes if cls.length_bytes >= wanted_bytes]
        yield from fitting[:1]
        if need is Need.SEND:
            yield from (cls for cls in reversed(classes) if cls.length_bytes < wanted_bytes)
        yield from fitting[1:]
