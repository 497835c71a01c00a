from __future__ import annotations

import asyncio

import pytest

from gateway.rdma.aio import Alarm, Background, to_the_end


async def test_to_the_end__undisturbed__returns_the_result():
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await to_the_end(work()) == 7


async def test_to_the_end__failure__is_raised():
    async def work() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await to_the_end(work())


@pytest.mark.parametrize("fails", [False, True])
async def test_to_the_end__cancelled_again_and_again__work_ends_first(fails):
    gate, steps = asyncio.Event(), []

    async def work() -> None:
        steps.append("begun")
        await gate.wait()
        steps.append("done")
        if fails:
            raise OSError("unseen")

    waiting = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert steps == ["begun", "done"]


async def test_background__task_with_a_bug__is_logged_and_forgotten(caplog):
    async def fails() -> None:
        raise ValueError("bug")

    background = Background()
    background.start(fails())
    assert len(background) == 1
    await background.idle(asyncio.get_running_loop().time, 1.0)
    assert len(background) == 0
    assert "a bug in a background task" in caplog.text


async def test_background__one_starts_another__both_are_waited_for():
    background, done = Background(), []

    async def second() -> None:
        done.append(2)

    async def first() -> None:
        background.start(second())

    background.start(first())
    await background.idle(asyncio.get_running_loop().time, 1.0)
    assert done == [2]


async def test_background__one_hangs__is_waited_for_no_longer_than_the_grace():
    background = Background()
    hanging = background.start(asyncio.Event().wait())
    await background.idle(asyncio.get_running_loop().time, 0.01)
    assert len(background) == 1
    hanging.cancel()


async def test_alarm__set_again__rings_once_at_the_earliest_time():
    rung = asyncio.Event()
    count = []

    def ring() -> None:
        count.append(1)
        rung.set()

    alarm = Alarm(lambda: 100.0, ring)
    alarm.set(100.0)
    alarm.set(100.001)
    await asyncio.wait_for(rung.wait(), 1.0)
    assert count == [1]
    alarm.set(99.0)
    alarm.set(float("inf"))
    await asyncio.sleep(0)
    assert count == [1]
    alarm.set(1e9)
    alarm.set(99.0)
    await asyncio.sleep(0.001)
    assert count == [1, 1]
