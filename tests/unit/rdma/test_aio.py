from __future__ import annotations

import asyncio

import pytest

from gateway.rdma.aio import to_the_end


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
