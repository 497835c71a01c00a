from __future__ import annotations

import asyncio

import pytest
from storing import new_bucket

from gateway.errors import ClientError, S3Code
from gateway.storage.bucket_cache import BucketCache
from gateway.storage.port import BucketInfo


class Shelf:
    """Answers look-ups, slowly where told so, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def find(self, name: str) -> BucketInfo:
        self.asked.append(name)
        found = new_bucket(name, owner=str(len(self.asked)))
        await self.go_on.wait()
        if name == "none":
            raise ClientError(S3Code.NO_SUCH_BUCKET)
        return found


async def get(cache: BucketCache, shelf: Shelf, name: str = "shop") -> str:
    return (await cache.get(name, lambda: shelf.find(name))).owner


async def test_get__again__is_not_looked_up_again() -> None:
    cache, shelf = BucketCache(), Shelf()
    assert [await get(cache, shelf) for _ in range(3)] == ["1", "1", "1"]


async def test_get__forgotten__is_looked_up_again() -> None:
    cache, shelf = BucketCache(), Shelf()
    await get(cache, shelf)
    cache.forget("shop")
    assert await get(cache, shelf) == "2"


async def test_get__changed_while_it_was_looked_up__is_not_kept() -> None:
    cache, shelf = BucketCache(), Shelf()
    shelf.go_on.clear()
    reading = asyncio.create_task(get(cache, shelf))
    await asyncio.sleep(0)
    cache.forget("shop")
    shelf.go_on.set()
    assert await reading == "1"  # it was asked for before the change
    assert await get(cache, shelf) == "2"


async def test_get__missing__is_asked_for_each_time() -> None:
    cache, shelf = BucketCache(), Shelf()
    for _ in range(2):
        with pytest.raises(ClientError):
            await get(cache, shelf, "none")
    assert shelf.asked == ["none", "none"]


async def test_get__more_than_it_holds__forgets_the_oldest() -> None:
    cache, shelf = BucketCache(max_buckets=2), Shelf()
    for name in ("a", "b", "c", "b", "a"):
        await get(cache, shelf, name)
    assert shelf.asked == ["a", "b", "c", "a"]
