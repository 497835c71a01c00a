"""Two stores on one root, as two processes have them: each sees and spares what the other does."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from storing import complete, draft, get, initiate, new_bucket, put, put_part, raises, stage

from gateway.errors import S3Code
from gateway.storage.port import Versioning
from gateway.storage.store import Store

MakeStore = Callable[..., Store]
Files = Callable[[], list[Path]]


@pytest.fixture
async def other(store: Store, make_store: MakeStore) -> Store:
    """A second one, started beside the first."""
    second = make_store()
    await second.start()
    return second


async def test_bucket__changed_by_one__the_other_sees_it_at_once(
    store: Store, other: Store
) -> None:
    assert (await other.head_bucket("bucket")).versioning is Versioning.OFF
    await store.update_bucket("bucket", lambda info: replace(info, versioning=Versioning.ENABLED))
    assert (await other.head_bucket("bucket")).versioning is Versioning.ENABLED
    await store.delete_bucket("bucket")
    with raises(S3Code.NO_SUCH_BUCKET):
        await other.head_bucket("bucket")
    await other.create_bucket(new_bucket("bucket", owner="other"))
    assert (await store.head_bucket("bucket")).owner == "other"


async def test_start__beside_another__leaves_what_that_one_has_under_way(
    store: Store, make_store: MakeStore, data_files: Files, root: Path
) -> None:
    staged = await stage(store, b"on its way")
    upload_id = await initiate(store, "up")
    part = await put_part(store, "up", upload_id, 1, b"part")
    about_to_be_named = "00112233445566778899aabbccddeeff"
    (root / "objects" / "ff" / about_to_be_named).write_bytes(b"not committed yet")
    second = make_store()
    await second.start()
    assert len(data_files()) == 2
    await store.commit_object(staged, "bucket", "key", draft(b"on its way"))
    assert await get(second, "key") == b"on its way"
    assert await complete(second, "up", upload_id, [part])
    assert await get(store, "up") == b"part"
    await store.stop()
    await second.stop()
    third = make_store()
    await third.start()  # alone: it sweeps
    await third.swept()
    assert len(data_files()) == 2


async def test_start__beside_another__ends_old_uploads_with_their_files(
    store: Store, make_store: MakeStore, data_files: Files, clock: Callable[[], int]
) -> None:
    await put_part(store, "up", await initiate(store, "up"), 1, b"part")
    clock.advance(7 * 86_400 + 1)  # type: ignore[attr-defined]
    second = make_store()
    await second.start()
    await asyncio.wrap_future(second._removals.submit(int))
    assert data_files() == []


async def test_reader__object_of_many_files_deleted_by_the_other__reads_on_and_cleans_up(
    store: Store, other: Store, data_files: Files
) -> None:
    bodies = [os.urandom(100_000), os.urandom(50_000)]
    upload_id = await initiate(store, "key")
    parts = [await put_part(store, "key", upload_id, n, b) for n, b in enumerate(bodies, 1)]
    await complete(store, "key", upload_id, parts)
    first = await other.open_object("bucket", "key", None)
    second = await store.open_object("bucket", "key", None)
    await store.delete_object("bucket", "key", None)
    await asyncio.wrap_future(store._removals.submit(int))
    assert len(data_files()) == 2
    await second.close()
    assert len(data_files()) == 2
    assert await first.read(0, 150_000) == b"".join(bodies)
    await first.close()
    assert data_files() == []


async def test_writes__by_both_at_once__none_is_lost(store: Store, other: Store) -> None:
    async def write(one: Store, name: str) -> None:
        for number in range(20):
            await put(one, f"{name}/{number}", name.encode())

    await asyncio.gather(write(store, "a"), write(other, "b"), write(store, "c"))
    for name in "abc":
        for number in range(20):
            assert await get(store if name == "b" else other, f"{name}/{number}") == name.encode()
