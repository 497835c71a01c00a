"""Staging slots: fair among owners, bounded, and never lost."""

from __future__ import annotations

import asyncio

import pytest

from gateway.dataplane.slots import SlotPool
from gateway.errors import BusyError


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_take__slots_are_free__are_distinct() -> None:
    pool = SlotPool(8, max_waiting=1)
    first, second = await pool.take("a", 4), await pool.take("a", 4)
    assert sorted(first + second) == list(range(8))
    assert pool.in_use == 8


async def test_take__none_free__waits_its_turn_among_owners() -> None:
    pool, order = SlotPool(4, max_waiting=100), []
    held = await pool.take("greedy", 4)

    async def use(owner: str) -> None:
        slots = await pool.take(owner, 4)
        order.append(owner)
        pool.give_back(slots)

    greedy = [asyncio.ensure_future(use("greedy")) for _ in range(50)]
    await settle()
    modest = asyncio.ensure_future(use("modest"))
    await settle()
    pool.give_back(held)
    await asyncio.gather(*greedy, modest)
    assert order.index("modest") == 1
    assert pool.in_use == 0
    assert pool.waiting == 0


async def test_take__a_large_request_waits__small_ones_do_not_starve_it() -> None:
    pool = SlotPool(4, max_waiting=100)
    held = [await pool.take("small", 1) for _ in range(4)]
    large = asyncio.ensure_future(pool.take("large", 4))
    await settle()
    small = asyncio.ensure_future(pool.take("small", 1))
    for slots in held:
        pool.give_back(slots)
        await settle()
    assert large.done()
    assert not small.done()
    pool.give_back(large.result())
    assert len(await small) == 1


async def test_take__too_many_wait__is_busy() -> None:
    pool = SlotPool(4, max_waiting=1)
    held = await pool.take("a", 4)
    waiting = asyncio.ensure_future(pool.take("a", 1))
    await settle()
    with pytest.raises(BusyError, match=r"rdma\.max_waiting"):
        await pool.take("b", 1)
    pool.give_back(held)
    assert len(await waiting) == 1


async def test_take__cancelled_while_waiting__leaves_the_queue() -> None:
    pool = SlotPool(4, max_waiting=10)
    held = await pool.take("a", 4)
    waiting = asyncio.ensure_future(pool.take("a", 4))
    behind = asyncio.ensure_future(pool.take("b", 2))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pool.waiting == 1
    pool.give_back(held)
    assert len(await behind) == 2


async def test_take__cancelled_in_the_moment_of_its_grant__gives_the_slots_back() -> None:
    pool = SlotPool(4, max_waiting=10)
    held = await pool.take("a", 4)
    waiting = asyncio.ensure_future(pool.take("a", 4))
    await settle()
    pool.give_back(held)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pool.in_use == 0


async def test_waiters__some_wait__are_told_by_owner() -> None:
    pool = SlotPool(4, max_waiting=10)
    held = await pool.take("a", 4)
    waiting = [asyncio.ensure_future(pool.take(owner, 1)) for owner in ("b", "c", "b")]
    await settle()
    assert pool.waiters == {"b": 2, "c": 1}
    pool.give_back(held)
    await asyncio.gather(*waiting)
    assert pool.waiters == {}


@pytest.mark.parametrize("behind", [0, 1])
async def test_take__its_turn_comes_while_a_cancellation_is_on_its_way__loses_no_slot(
    behind: int,
) -> None:
    """A cancelled task hears of it a turn of the loop later; slots may come back before that."""
    pool = SlotPool(4, max_waiting=10)
    held = await pool.take("a", 4)
    waiting = [asyncio.ensure_future(pool.take("a", 4)) for _ in range(1 + behind)]
    await settle()
    waiting[0].cancel()
    pool.give_back(held)
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    for next_one in waiting[1:]:
        pool.give_back(await next_one)
    assert (pool.in_use, pool.waiting) == (0, 0)
    assert len(await pool.take("b", 4)) == 4


async def test_take__an_owner_has_some__the_last_ones_are_for_those_that_have_none() -> None:
    pool = SlotPool(64, max_waiting=10)
    greedy = [await pool.take("greedy", 4) for _ in range(14)]
    waiting = asyncio.ensure_future(pool.take("greedy", 4))
    await settle()
    assert not waiting.done()
    newcomers = [await pool.take(owner, 4) for owner in ("b", "c")]
    assert pool.in_use == 64
    pool.give_back(newcomers[0])
    await settle()
    assert not waiting.done()  # they are for the next newcomer
    for slots in greedy:
        pool.give_back(slots)
    assert len(await waiting) == 4


async def test_take__newcomers_come_one_after_another__who_waits_is_served_in_the_end() -> None:
    pool = SlotPool(16, max_waiting=100)
    held = [await pool.take("greedy", 4) for _ in range(3)]
    waiting = asyncio.ensure_future(pool.take("greedy", 4))
    await settle()
    for number in range(20):
        newcomer = asyncio.ensure_future(pool.take(f"new{number}", 4))
        await settle()
        assert newcomer.done()
        assert not waiting.done()
        pool.give_back(newcomer.result())
    for slots in held:
        pool.give_back(slots)
    await settle()
    assert waiting.done()
