"""Waiting that cancellation can't cut short: for work whose memory or file others would reuse."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` until it is done; a cancellation that comes meanwhile is raised only then.

    A thread, or the C core, that still holds a buffer or a file descriptor does not stop because
    a task was cancelled. Whoever lends it to the next user too early corrupts that one's data.
    """
    task = asyncio.ensure_future(work)
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # seen; the interruption is what the caller learns
    raise interruption
