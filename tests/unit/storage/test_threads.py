"""A cancelled caller waits for its thread, and gives back what the thread made."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.storage.threads import settle


async def test_settle__cancelled_twice_while_working__ends_after_the_work() -> None:
    go, undone = threading.Event(), []
    with ThreadPoolExecutor(1) as executor:
        task = asyncio.create_task(
            settle(executor, lambda: go.wait(10) and "made", undo=undone.append)
        )
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert undone == ["made"]


async def test_settle__work_fails__its_error() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with ThreadPoolExecutor(1) as executor, pytest.raises(ZeroDivisionError):
        await settle(executor, fail, undo=lambda _: pytest.fail("nothing was made"))
