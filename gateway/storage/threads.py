"""Blocking work in threads, seen from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def settle(
    executor: Executor, work: Callable[[], T], undo: Callable[[T], object] | None = None
) -> T:
    """Run `work` in a thread and wait for its end, even when cancelled.

    A thread can't be interrupted: if the caller went on, it would close a descriptor or reuse a
    buffer that the thread still works with. So a cancellation is delivered only after the end;
    `undo` then gives back what the result holds.
    """
    future = asyncio.get_running_loop().run_in_executor(executor, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return future.result()
    if future.exception() is None and undo is not None:
        undo(future.result())
    raise cancelled
