"""slots: one owner's share is bounded, and that holds nobody else up."""

from __future__ import annotations

import asyncio

from gateway.dataplane.slots import MOVE_SLOTS, SlotPool

PATIENT = 100


def pool(per_owner: int, count: int = 16) -> SlotPool:
    made = SlotPool(count, PATIENT)
    made.per_owner = per_owner
    return made


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_take__owner_has_its_share__waits_for_its_own_alone() -> None:
    slots = pool(per_owner=8)
    first, second = await slots.take("greedy", 4), await slots.take("greedy", 4)
    third = asyncio.ensure_future(slots.take("greedy", 1))
    await settled()
    assert not third.done()
    assert slots.waiters == {"greedy": 1}
    others = await slots.take("modest", 4)  # though somebody waits
    assert slots.in_use == 12
    slots.give_back(others)
    await settled()
    assert not third.done()
    slots.give_back(first)
    assert len(await third) == 1
    slots.give_back(second)
    slots.give_back(third.result())
    assert (slots.in_use, slots.waiting) == (0, 0)


async def test_take__bound_below_a_move__still_lets_one_move() -> None:
    slots = pool(per_owner=1)
    one = await slots.take("key", MOVE_SLOTS)
    more = asyncio.ensure_future(slots.take("key", 1))
    await settled()
    assert not more.done()
    slots.give_back(one)
    await more


async def test_take__nothing_free__goes_by_turns_among_those_below_their_bound() -> None:
    slots = pool(per_owner=4, count=8)
    held = [await slots.take(owner, 4) for owner in ("a", "b")]
    waiting = {name: asyncio.ensure_future(slots.take(name[0], 4)) for name in ("a2", "c1", "d1")}
    await settled()
    slots.give_back(held[1])
    await settled()
    assert [name for name, one in waiting.items() if one.done()] == ["c1"]  # a is at its bound
    slots.give_back(held[0])
    await settled()
    assert [name for name, one in waiting.items() if one.done()] == ["a2", "c1"]
    slots.give_back(waiting["c1"].result())
    assert len(await waiting["d1"]) == 4


async def test_take__cancelled_while_at_its_bound__leaves_nothing_behind() -> None:
    slots = pool(per_owner=4)
    held = await slots.take("key", 4)
    waiting = asyncio.ensure_future(slots.take("key", 4))
    await settled()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert slots.waiting == 0
    slots.give_back(held)
    assert slots.in_use == 0
