"""A backup is a store as the first one was at one moment, also when that is never the same."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storing import complete, etag, get, initiate, new_bucket, put, put_part

from gateway.errors import InternalError
from gateway.storage import backup as module
from gateway.storage.backup import backup
from gateway.storage.fsck import check
from gateway.storage.port import ListQuery
from gateway.storage.store import Store

MakeStore = Callable[..., Store]
Files = Callable[[], list[Path]]
SIZES_BYTES = (100, 20_000, 100_000)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backups" / "monday"


def fail_links(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Of data files; the target's own trial of unnamed files works."""
    real = os.link

    def link(*args: Any, **named: Any) -> None:
        if not named:
            raise OSError(error, os.strerror(error))
        real(*args, **named)

    monkeypatch.setattr(os, "link", link)


def plain_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_file())


def for_others(directory: Path) -> bool:
    """Whether anybody but the owner may do anything."""
    return any(path.stat().st_mode & 0o077 for path in directory.rglob("*"))


async def contents(store: Store) -> dict[str, bytes]:
    page = await store.list_objects(ListQuery("bucket"))
    return {info.key: await get(store, info.key) for info in page.objects}


async def test_backup__store_in_use__restored_by_serving_it(
    make_store: MakeStore, root: Path, target: Path
) -> None:
    store = make_store(inline_max_bytes=8192)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    for size in SIZES_BYTES:
        await put(store, str(size), os.urandom(size))
    upload_id = await initiate(store, "parts")
    parts = [await put_part(store, "parts", upload_id, n, b"part") for n in (1, 2)]
    await complete(store, "parts", upload_id, parts)
    (root / "credentials").write_text("keys")
    saved = await asyncio.to_thread(backup, root, target)
    assert (saved.linked, saved.copied, saved.missing) == (4, 0, 0)
    kept = await contents(store)
    await store.delete_object("bucket", "parts", None)
    await put(store, "100", b"replaced")
    await store.stop()

    assert (target / "credentials").read_text() == "keys"
    assert not for_others(target)
    assert plain_files(target) == ["catalog.db", "credentials"]
    assert check(target).exit_code == 0
    restored = make_store(root=target)
    await restored.start()
    assert await contents(restored) == kept


async def test_backup__under_load__every_object_in_it_is_whole(
    make_store: MakeStore, root: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few keys, replaced all the time: what the first round takes is gone before the last one."""
    monkeypatch.setattr(module, "FEW_FILES", 2)
    store = make_store()
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    writing = True

    async def replace(key: str) -> int:
        number = 0
        while writing:
            number += 1
            await put(store, key, f"{key} {number} ".encode() * 2000)
        return number

    tasks = [asyncio.create_task(replace(f"k{n}")) for n in range(8)]
    saved = await asyncio.to_thread(backup, root, target)
    writing = False
    replaced = sum(await asyncio.gather(*tasks))
    await store.stop()
    assert saved.missing == 0
    assert replaced > 16
    assert check(target).exit_code == 0
    restored = make_store(root=target)
    await restored.start()
    for info in (await restored.list_objects(ListQuery("bucket"))).objects:
        assert etag(await get(restored, info.key)) == info.etag


async def test_backup__other_file_system__bytes_of_its_own(
    store: Store,
    root: Path,
    target: Path,
    make_store: MakeStore,
    data_files: Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await put(store, "key", b"data")

    fail_links(monkeypatch, errno.EXDEV)
    saved = backup(root, target)
    monkeypatch.undo()
    assert (saved.linked, saved.copied) == (0, 1)
    for path in data_files():
        path.write_bytes(b"overwritten")
    await store.stop()
    restored = make_store(root=target)
    await restored.start()
    assert await get(restored, "key") == b"data"


async def test_backup__a_file_is_gone__counted(
    store: Store, root: Path, target: Path, data_files: Files
) -> None:
    await put(store, "key", b"data")
    data_files()[0].unlink()
    assert backup(root, target).missing == 1


async def test_backup__disk_fails__says_where(
    store: Store, root: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, "key", b"data")

    fail_links(monkeypatch, errno.ENOSPC)
    with pytest.raises(InternalError) as caught:
        backup(root, target)
    assert "free space" in caught.value.cause


async def test_backup__target_not_empty_or_no_store__refused(
    store: Store, root: Path, target: Path, tmp_path: Path
) -> None:
    with pytest.raises(InternalError) as caught:
        backup(tmp_path / "absent", target)
    assert "there is no store" in caught.value.cause
    with pytest.raises(InternalError) as caught:
        backup(root, root)
    assert "not empty" in caught.value.cause
