"""Several things at once, bounded, where the first failure ends the rest and is what is raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sized
from contextlib import asynccontextmanager
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run two coroutines together; when one fails the other is cancelled, and has ended."""
    async with _first_failure() as group:
        tasks = group.create_task(first), group.create_task(second)
    return tasks[0].result(), tasks[1].result()


async def for_each(
    items: Iterable[A], work: Callable[[A], Awaitable[None]], concurrency: int
) -> None:
    """Call `work` with every item, at most `concurrency` at once, started in their order."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:  # shared: each item goes to whichever worker is free
            await work(item)

    count = min(concurrency, len(items)) if isinstance(items, Sized) else concurrency
    await workers(worker, count)


async def workers(worker: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    """Run `count` of them together, to the end of all or to the first failure."""
    if count == 1:  # as most transfers: no task is needed
        await worker()
        return
    async with _first_failure() as group:
        for _ in range(count):
            group.create_task(worker())


@asynccontextmanager
async def _first_failure() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first error itself, not a group of one."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
