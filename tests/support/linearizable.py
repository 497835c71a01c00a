"""Whether a history of one register could have happened one operation at a time.

The search of Wing and Gong, with Lowe's memory of what was tried: an operation may take effect at
any moment between its call and its return; if some order of such moments explains every read, the
history is linearizable. A register is simple enough that the search hardly ever turns back.

J. Wing, C. Gong: Testing and Verifying Concurrent Objects, J. Parallel Distrib. Comput. 17 (1993);
G. Lowe: Testing for linearizability, Concurrency Comput.: Pract. Exper. 29(4) (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf


class Kind(Enum):
    """What an operation does to its register."""

    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a client.

    Attributes:
        value: what was written or read; None is "nothing there".
        called_at / returned_at: on one clock; inf where no answer came: it may still take effect.
    """

    kind: Kind
    value: str | None
    called_at: float
    returned_at: float = inf


class _Event:
    """A call, or its return, in a doubly linked list in the order of time."""

    __slots__ = ("after", "before", "bit", "operation", "returns")

    def __init__(self, operation: Operation | None, bit: int) -> None:
        self.operation = operation  # None of a return
        self.bit = bit
        self.returns: _Event | None = None
        self.before: _Event | None = None
        self.after: _Event | None = None

    def remove(self) -> None:
        assert self.before is not None
        self.before.after = self.after
        if self.after is not None:
            self.after.before = self.before

    def put_back(self) -> None:
        assert self.before is not None
        self.before.after = self
        if self.after is not None:
            self.after.before = self


def linearizable(history: Sequence[Operation], initial: str | None = None) -> bool:
    """Whether some order explains it.

    Args:
        history: all operations on one register, in any order.
        initial: what it held before.
    """
    head = _linked(history)
    value, done = initial, 0
    tried: set[tuple[int, str | None]] = set()
    taken: list[tuple[_Event, str | None]] = []
    event = head.after
    while head.after is not None:
        assert event is not None
        if event.operation is not None:
            after = _step(event.operation, value)
            state = (done | event.bit, after[1])
            if after[0] and state not in tried:
                tried.add(state)
                taken.append((event, value))
                done, value = state
                _lift(event)
                event = head.after
            else:
                event = event.after
        else:  # it returned, and took no effect yet: an earlier choice was wrong
            turned = _turn_back(taken)
            if turned is None:
                return False
            event, value, undone = turned
            done &= ~undone
            event = event.after
    return True


def _turn_back(taken: list[tuple[_Event, str | None]]) -> tuple[_Event, str | None, int] | None:
    """Take back the last write, and the reads behind it: (it, the value before, what was undone).

    A read that took effect as soon as it could is never why a history fails: it changed nothing.
    """
    undone = 0
    while taken:
        event, value = taken.pop()
        _unlift(event)
        undone |= event.bit
        if event.operation is not None and event.operation.kind is Kind.WRITE:
            return event, value, undone
    return None


def _step(operation: Operation, value: str | None) -> tuple[bool, str | None]:
    """Whether it can take effect on that value, and what is there then."""
    if operation.kind is Kind.WRITE:
        return True, operation.value
    return operation.value == value, value


def _linked(history: Sequence[Operation]) -> _Event:
    head = _Event(None, 0)
    events: list[tuple[float, int, _Event]] = []
    for number, operation in enumerate(history):
        call, returns = _Event(operation, 1 << number), _Event(None, 0)
        call.returns = returns
        events += [(operation.called_at, 0, call), (operation.returned_at, 1, returns)]
    last = head
    for _, _, event in sorted(events, key=lambda each: each[:2]):
        last.after, event.before = event, last
        last = event
    return head


def _lift(call: _Event) -> None:
    assert call.returns is not None
    call.remove()
    call.returns.remove()


def _unlift(call: _Event) -> None:
    assert call.returns is not None
    call.returns.put_back()
    call.put_back()
