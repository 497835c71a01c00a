"""Reading is verifying: no byte of a rotten block is given out, whichever way it is asked for."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storing import complete, draft, get, initiate, new_bucket, put, put_part, stage

from gateway.errors import InternalError
from gateway.storage.blocks import BLOCK_BYTES, STRIDE_BYTES
from gateway.storage.store import Store

Files = Callable[[], list[Path]]
SIZE_BYTES = 2 * STRIDE_BYTES + 5


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


async def test_read__one_block_rotten__only_ranges_that_touch_it_fail(
    store: Store, data_files: Files
) -> None:
    data = os.urandom(SIZE_BYTES)
    await put(store, "key", data)
    (path,) = data_files()
    flip(path, BLOCK_BYTES)
    reader = await store.open_object("bucket", "key", None)
    for offset, length in ((0, BLOCK_BYTES), (2 * BLOCK_BYTES, SIZE_BYTES - 2 * BLOCK_BYTES)):
        assert await reader.read(offset, length) == data[offset : offset + length]
        await reader.verify(offset, length)
    for offset, length in ((0, SIZE_BYTES), (BLOCK_BYTES + 9, 1), (0, BLOCK_BYTES + 1)):
        with pytest.raises(InternalError) as caught:
            await reader.read(offset, length)
        assert f"{path} is damaged (the block at {BLOCK_BYTES}" in caught.value.cause
        with pytest.raises(InternalError):
            await reader.verify(offset, length)
    await reader.close()


async def test_read__a_part_rotten__names_its_file(store: Store, data_files: Files) -> None:
    upload_id = await initiate(store, "key")
    bodies = [os.urandom(100_000), os.urandom(100_001)]
    parts = [await put_part(store, "key", upload_id, n, b) for n, b in enumerate(bodies, 1)]
    await complete(store, "key", upload_id, parts)
    second = max(data_files(), key=lambda path: path.stat().st_size)
    flip(second, 0)
    reader = await store.open_object("bucket", "key", None)
    assert await reader.read(0, 100_000) == bodies[0]
    await reader.verify(0, 100_000)
    with pytest.raises(InternalError) as caught:
        await reader.verify(99_999, 2)
    assert str(second) in caught.value.cause
    await reader.close()


async def test_verify__small_object__was_read_already(store: Store, data_files: Files) -> None:
    await put(store, "key", b"data")
    reader = await store.open_object("bucket", "key", None)
    flip(data_files()[0], 0)
    await reader.verify(0, 4)
    assert await reader.read(0, 4) == b"data"
    with pytest.raises(ValueError, match="leave an object"):
        await reader.verify(0, 5)
    await reader.close()


async def test_put__up_to_the_limit__kept_in_the_catalog(
    make_store: Any, data_files: Files
) -> None:
    store = make_store(inline_max_bytes=100)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    for size in (0, 1, 100, 101):
        data = os.urandom(size)
        await put(store, str(size), data)
        assert await get(store, str(size)) == data
    assert len(data_files()) == 1
    reader = await store.open_object("bucket", "100", None)
    (extent,) = reader.extents(1, 5)
    assert os.pread(extent.fd, 5, extent.offset_bytes) == await reader.read(1, 5)
    await reader.verify(1, 5)
    await store.delete_object("bucket", "100", None)
    assert len(await reader.read(0, 100)) == 100
    await reader.close()


async def test_put__longer_than_its_hint__goes_into_a_file(
    make_store: Any, data_files: Files
) -> None:
    store = make_store(inline_max_bytes=100)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    staged = await store.stage("bucket", 5)
    assert staged.fileno() is None
    data = os.urandom(101)
    await staged.write(data)
    await store.commit_object(staged, "bucket", "key", draft(data))
    assert len(data_files()) == 1
    assert await get(store, "key") == data


async def test_commit_part__small__is_a_file_all_the_same(
    make_store: Any, data_files: Files
) -> None:
    store = make_store(inline_max_bytes=100)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    upload_id = await initiate(store, "key")
    part = await put_part(store, "key", upload_id, 1, b"part")
    assert len(data_files()) == 1
    await complete(store, "key", upload_id, [part])
    assert await get(store, "key") == b"part"


async def test_staged_in_memory__written_through_a_descriptor__refused(make_store: Any) -> None:
    store = make_store(inline_max_bytes=100, max_staged=1)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    staged = await store.stage("bucket", 4)
    with pytest.raises(InternalError):
        staged.written(4)
    await staged.discard()
    await staged.discard()
    again = await stage(store, b"data")  # its place was given back
    await again.discard()


async def test_open_object__catalog_lost_its_bytes__says_so(store: Store) -> None:
    await put(store, "key", b"data")
    store._writer._db.execute("DELETE FROM pieces")  # type: ignore[union-attr]
    with pytest.raises(InternalError) as caught:
        await store.open_object("bucket", "key", None)
    assert "s3rdma fsck" in caught.value.cause
