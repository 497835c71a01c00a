"""Buckets are remembered until one changes, in this process or in another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from storing import new_bucket

from gateway.errors import ClientError, InternalError, S3Code
from gateway.storage.bucket_cache import BucketCache, Generation
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


@pytest.fixture
def generation(tmp_path: Path) -> Iterator[Generation]:
    made = Generation(tmp_path / "generation")
    yield made
    made.close()


@pytest.fixture
def other(tmp_path: Path, generation: Generation) -> Iterator[Generation]:
    """The same number, as another process maps it."""
    made = Generation(tmp_path / "generation")
    yield made
    made.close()


@pytest.fixture
def cache(generation: Generation) -> BucketCache:
    return BucketCache(generation.settled)


async def get(cache: BucketCache, shelf: Shelf, name: str = "shop") -> str:
    return (await cache.get(name, lambda: shelf.find(name))).owner


async def test_get__again__is_not_looked_up_again(cache: BucketCache) -> None:
    shelf = Shelf()
    assert [await get(cache, shelf) for _ in range(3)] == ["1", "1", "1"]


async def test_get__changed_by_another_process__is_looked_up_again(
    cache: BucketCache, other: Generation
) -> None:
    shelf = Shelf()
    await get(cache, shelf)
    other.begin()
    other.end()
    assert [await get(cache, shelf) for _ in range(2)] == ["2", "2"]


async def test_get__while_a_change_is_under_way__is_asked_for_each_time(
    cache: BucketCache, other: Generation
) -> None:
    shelf = Shelf()
    await get(cache, shelf)
    other.begin()  # and its process may have died since
    assert [await get(cache, shelf) for _ in range(2)] == ["2", "3"]
    other.end()
    assert [await get(cache, shelf) for _ in range(2)] == ["4", "4"]


async def test_get__changed_while_it_was_looked_up__is_not_kept(
    cache: BucketCache, generation: Generation
) -> None:
    shelf = Shelf()
    shelf.go_on.clear()
    reading = asyncio.create_task(get(cache, shelf))
    await asyncio.sleep(0)
    generation.begin()
    generation.end()
    shelf.go_on.set()
    assert await reading == "1"  # it was asked for before the change
    assert await get(cache, shelf) == "2"


async def test_get__missing__is_asked_for_each_time(cache: BucketCache) -> None:
    shelf = Shelf()
    for _ in range(2):
        with pytest.raises(ClientError):
            await get(cache, shelf, "none")
    assert shelf.asked == ["none", "none"]


async def test_get__more_than_it_holds__forgets_the_oldest(generation: Generation) -> None:
    cache, shelf = BucketCache(generation.settled, max_buckets=2), Shelf()
    for name in ("a", "b", "c", "b", "a"):
        await get(cache, shelf, name)
    assert shelf.asked == ["a", "b", "c", "a"]


def test_generation__file_cannot_be_made__says_which(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as caught:
        Generation(tmp_path / "absent" / "generation")
    assert "absent/generation" in caught.value.cause
