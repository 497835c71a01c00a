"""What is synced before a write is acknowledged, and what isn't synced twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from storing import get, new_bucket, put

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage.tree.storage import TreeStorage

Make = Callable[..., TreeStorage]


@pytest.fixture
def synced(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The paths below the root that were synced since the last call; of unnamed files "#"."""
    fsync, seen = os.fsync, list[str]()

    def spy(fd: int) -> None:
        fsync(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        seen.append("#" if path.endswith("(deleted)") else os.path.relpath(path, root))

    def since() -> list[str]:
        found = list(seen)
        seen.clear()
        return found

    monkeypatch.setattr(os, "fsync", spy)
    return since


async def started(make_tree: Make, durability: Durability) -> TreeStorage:
    tree = make_tree(durability=durability)
    await tree.start()
    await tree.create_bucket(new_bucket("bucket"))
    return tree


async def test_full__new_directories__each_ones_parent_is_synced_once(
    make_tree: Make, synced: Callable[[], list[str]]
) -> None:
    tree = await started(make_tree, Durability.FULL)
    synced()
    await put(tree, "a/b/k", b"data")
    assert synced() == ["#", "bucket/a", "bucket", ".", "bucket/a/b"]
    await put(tree, "a/b/other", b"data")
    assert synced() == ["#", "bucket/a/b"]
    await put(tree, "a/c/k", b"data")
    assert synced() == ["#", "bucket/a", "bucket/a/c"]
    await tree.delete_object("bucket", "a/c/k", None)
    assert synced() == ["bucket/a/c"]


async def test_full__directory_of_another_program__made_durable_once(
    make_tree: Make, root: Path, synced: Callable[[], list[str]]
) -> None:
    tree = await started(make_tree, Durability.FULL)
    (root / "bucket" / "theirs").mkdir()
    synced()
    await put(tree, "theirs/k", b"data")
    assert synced() == ["#", "bucket", ".", "bucket/theirs"]
    await put(tree, "theirs/k", b"data")
    assert synced() == ["#", "bucket/theirs"]
    await tree.delete_object("bucket", "theirs/k", None)
    assert os.listdir(root / "bucket") == ["theirs"]


async def test_data__only_the_file_is_synced(
    make_tree: Make, synced: Callable[[], list[str]]
) -> None:
    tree = await started(make_tree, Durability.DATA)
    synced()
    await put(tree, "a/k", b"data")
    assert synced() == ["#"]


async def test_none__nothing_is_synced(make_tree: Make, synced: Callable[[], list[str]]) -> None:
    tree = await started(make_tree, Durability.NONE)
    await put(tree, "a/k", b"data")
    assert synced() == []


async def test_full__the_last_sync_fails__an_error_and_the_object_may_be_there(
    make_tree: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = await started(make_tree, Durability.FULL)
    await put(tree, "k", b"old")
    fsync = os.fsync

    def failing(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") == str(root / "bucket"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", failing)
    for attempt in (put(tree, "k", b"new"), tree.delete_object("bucket", "k", None)):
        with pytest.raises(InternalError) as caught:
            await attempt
        assert caught.value.cause.startswith("syncing the directory of")
    monkeypatch.undo()
    await put(tree, "k", b"again")
    assert await get(tree, "k") == b"again"
