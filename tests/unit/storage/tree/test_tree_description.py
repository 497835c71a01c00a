"""What is said of an object: in the file's attribute, or beside it where that has no room."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from storing import complete, draft, initiate, put, put_part, raises, stage

from gateway.errors import InternalError, S3Code
from gateway.storage.port import ListQuery, ObjectAttributes, ObjectInfo
from gateway.storage.tree import found
from gateway.storage.tree.storage import TreeStorage
from gateway.wire.checksums import Algorithm
from gateway.wire.conditional import Conditions

LONG = ObjectAttributes(
    headers={"content-type": "text/plain"},
    metadata={f"key-{number}": "v" * 200 for number in range(20)},
    tags=tuple((f"tag{number}", "\u00e9" * 100) for number in range(10)),
)


async def put_long(tree: TreeStorage, key: str = "k", data: bytes = b"data") -> ObjectInfo:
    wanted = replace(draft(data, LONG), checksums={Algorithm.CRC32: "rfPzYw=="}, owner="1" * 64)
    return await tree.commit_object(await stage(tree, data), "bucket", key, wanted)


async def test_put__attributes_over_the_attributes_space__kept_beside_and_gone_with_it(
    tree: TreeStorage, leftovers: Callable[[], list[str]]
) -> None:
    info = await put_long(tree)
    assert info.attributes == LONG
    assert await tree.head_object("bucket", "k", None) == info
    assert (await tree.list_objects(ListQuery("bucket"))).objects == (info,)
    (sidecar,) = leftovers()
    assert sidecar.startswith("sidecars/bucket/")
    again = await put_long(tree)
    assert len(leftovers()) == 1
    assert leftovers() != [sidecar]
    assert await tree.head_object("bucket", "k", None) == again
    await put(tree, "k", b"short")
    assert leftovers() == []
    await put_long(tree)
    await tree.delete_object("bucket", "k", None)
    assert leftovers() == []


async def test_update__longer_and_shorter_again__one_sidecar_or_none(
    tree: TreeStorage, leftovers: Callable[[], list[str]]
) -> None:
    info = await put(tree, "k", b"data")
    longer = await tree.update_object("bucket", "k", None, lambda _: LONG)
    assert longer == replace(info, attributes=LONG)
    assert await tree.head_object("bucket", "k", None) == longer
    assert len(leftovers()) == 1
    await tree.update_object("bucket", "k", None, lambda _: LONG)
    assert len(leftovers()) == 1
    await tree.update_object("bucket", "k", None, lambda _: ObjectAttributes())
    assert leftovers() == []
    assert await tree.head_object("bucket", "k", None) == info


async def test_update__multipart_object__parts_stay_whatever_is_said(tree: TreeStorage) -> None:
    upload_id = await initiate(tree, "k")
    parts = [await put_part(tree, "k", upload_id, n, b"%d" % n) for n in (1, 2)]
    info = await complete(tree, "k", upload_id, parts)
    for attributes in (LONG, ObjectAttributes(tags=(("a", "b"),)), LONG):
        changed = await tree.update_object("bucket", "k", None, lambda _, new=attributes: new)
        assert changed == replace(info, attributes=attributes)
        assert await tree.head_object("bucket", "k", None) == changed
    assert await tree.completed_upload("bucket", "k", upload_id) is not None


async def test_put__refused_by_a_condition__leaves_no_sidecar(
    tree: TreeStorage, leftovers: Callable[[], list[str]]
) -> None:
    await put(tree, "k", b"old")
    staged = await stage(tree, b"data")
    with raises(S3Code.PRECONDITION_FAILED):
        await tree.commit_object(
            staged, "bucket", "k", draft(b"data", LONG), Conditions(if_none_match=("*",))
        )
    assert leftovers() == []


async def test_marker__attributes_over_the_attributes_space__kept_beside(
    tree: TreeStorage, leftovers: Callable[[], list[str]]
) -> None:
    info = await put_long(tree, "dir/", b"")
    assert await tree.head_object("bucket", "dir/", None) == info
    await tree.delete_object("bucket", "dir/", None)
    assert leftovers() == []


async def test_read__sidecar_gone_with_its_object__looks_again(
    tree: TreeStorage,
    meta: Path,
    leftovers: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The object is replaced between the look at its file and that at its sidecar."""
    await put_long(tree)
    (sidecar,) = leftovers()
    (meta / sidecar).unlink()
    assert (await tree.head_object("bucket", "k", None)).attributes == ObjectAttributes()
    turns: Iterator[int] = count()

    def replaced(*_: object) -> None:
        if next(turns) == 0:
            os.removexattr(meta.parent / "bucket" / "k", "user.s3rdma.object")

    monkeypatch.setattr(found, "read_sidecar", replaced)
    assert (await tree.head_object("bucket", "k", None)).etag.endswith("-0")
    assert next(turns) == 1


class Xattrs:
    """os.setxattr that fails for values over a length."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, room_bytes: int) -> None:
        self._set, self._number, self._room_bytes = os.setxattr, number, room_bytes
        monkeypatch.setattr(os, "setxattr", self)

    def __call__(self, path: int, name: bytes, value: bytes, *flags: int) -> None:
        if len(value) > self._room_bytes:
            raise OSError(self._number, os.strerror(self._number))
        self._set(path, name, value, *flags)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EDQUOT])
async def test_put__others_attributes_fill_the_space__kept_beside(
    tree: TreeStorage,
    leftovers: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    Xattrs(monkeypatch, number, room_bytes=150)
    attributes = ObjectAttributes(metadata={"a": "b" * 100})
    staged = await stage(tree, b"data")
    info = await tree.commit_object(staged, "bucket", "k", draft(b"data", attributes))
    assert len(leftovers()) == 1
    assert await tree.head_object("bucket", "k", None) == info


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space for"),
        (errno.ENOTSUP, "keeps no extended attributes; mount it with user_xattr"),
        (errno.EIO, "the disk reports a failure"),
    ],
)
async def test_put__no_attribute_can_be_set__fails_and_names_the_remedy(
    tree: TreeStorage,
    bucket: Path,
    leftovers: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    words: str,
) -> None:
    Xattrs(monkeypatch, number, room_bytes=0)
    for key in ("k", "dir/k", "dir/"):
        with pytest.raises(InternalError) as caught:
            await put(tree, key)
        assert words in caught.value.cause
    assert not (bucket / "k").exists()
    assert leftovers() == []
