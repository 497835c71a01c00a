"""What must not be cut short, and what goes on by itself: waiting, background tasks, one timer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from gateway.errors import GatewayError

T = TypeVar("T")

log = logging.getLogger(__name__)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` until it is done; a cancellation that comes meanwhile is raised only then.

    A thread, or the C core, that still holds a buffer or a file descriptor does not stop because
    a task was cancelled. Whoever lends it to the next user too early corrupts that one's data.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as error:
        interruption = error
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen; the interruption is what the caller learns
    raise interruption


class Background:
    """Tasks that go on when whoever started them is gone; one that fails by a bug is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many run."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def idle(self, clock: Callable[[], float], grace_s: float) -> None:
        """Until none runs, those included that others start, or `grace_s` on `clock` is over."""
        ends_s = clock() + grace_s
        while self._tasks and (left_s := ends_s - clock()) > 0:
            await asyncio.wait(self._tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # the done tasks' callbacks start the next ones

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, GatewayError):
            log.error("a bug in a background task of RDMA", exc_info=error)


class Alarm:
    """One timer, on the nearest of many deadlines.

    Args:
        clock: seconds; what deadlines are told on.
        ring: what to call when one is reached.
    """

    def __init__(self, clock: Callable[[], float], ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at_s = math.inf

    def set(self, at_s: float) -> None:
        """Ring then at the latest; never, where it is infinity.

        Where it is to ring earlier already, that stays: whoever it wakes looks what is due, and
        sets it again. So a deadline that moves on with each request costs no timer each time.
        """
        if self._at_s <= at_s < math.inf:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at_s = at_s
        if at_s < math.inf:
            delay_s = max(0.0, at_s - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._rings)

    def _rings(self) -> None:
        self._timer, self._at_s = None, math.inf
        self._ring()
