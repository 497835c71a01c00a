"""Several things at once: bounded, and ended by the first failure."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client.parallel import both, for_each


@pytest.mark.parametrize(("items", "concurrency", "most"), [(1, 4, 1), (9, 4, 4), (9, 1, 1)])
async def test_for_each__any_number__runs_each_once_and_no_more_at_a_time(
    items: int, concurrency: int, most: int
) -> None:
    seen: list[int] = []
    running = 0
    highest = 0

    async def work(item: int) -> None:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        seen.append(item)
        await asyncio.sleep(0)
        running -= 1

    await for_each(range(items), work, concurrency)
    assert seen == list(range(items))
    assert highest == most


async def test_for_each__one_item__needs_no_task() -> None:
    ours = asyncio.current_task()

    async def work(_item: int) -> None:
        assert asyncio.current_task() is ours

    await for_each([1], work, concurrency=4)


@pytest.mark.parametrize("items", [1, 5])
async def test_for_each__one_fails__its_own_error_ends_the_rest(items: int) -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        if item == 0:
            await asyncio.sleep(0)
            raise OSError("disk")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(OSError, match="disk"):
        await for_each(range(items), work, concurrency=3)
    assert sorted(ended) == list(range(1, min(items, 3)))


async def test_both__one_fails__the_other_has_ended() -> None:
    ended: list[bool] = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("disk")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(OSError, match="disk"):
        await both(fails(), waits())
    assert ended == [True]
