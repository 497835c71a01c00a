"""Keys are paths: what they can't be is said in words, and two keys never fight over one name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from storing import draft, get, initiate, put, raises, stage

from gateway.errors import ClientError, S3Code
from gateway.storage.port import Deletion, ListQuery, ObjectAttributes, ObjectInfo
from gateway.storage.tree.storage import TreeStorage
from gateway.wire.conditional import Conditions

ABSENT = Conditions(if_none_match=("*",))

UNHOLDABLE = [
    ("..", 'no segment "." or ".."'),
    ("a/../b", 'no segment "." or ".."'),
    ("./a", 'no segment "." or ".."'),
    ("a/.", 'no segment "." or ".."'),
    ("a//b", "no empty segment"),
    ("/a", "no empty segment"),
    ("/", "no empty segment"),
    ("a//", "no empty segment"),
    ("a\0b", "no NUL"),
    ("x" * 256, "a segment has 256 bytes of 255 at most"),
    ("dir/" + "\u00e9" * 128 + "/file", "a segment has 256 bytes of 255 at most"),
    (".s3rdma", "the gateway's own (tree.meta_name)"),
    (".s3rdma/locks", "the gateway's own (tree.meta_name)"),
]


@pytest.mark.parametrize(("key", "words"), UNHOLDABLE)
async def test_key__no_path__put_says_why_and_nothing_is_there(
    tree: TreeStorage, bucket: Path, key: str, words: str
) -> None:
    for attempt in (put(tree, key, b"data"), initiate(tree, key)):
        with raises(S3Code.INVALID_ARGUMENT) as caught:
            await attempt
        assert words in caught.value.message
        assert caught.value.details["ArgumentValue"] == key
    with raises(S3Code.NO_SUCH_KEY):
        await tree.open_object("bucket", key, None)
    with raises(S3Code.NO_SUCH_VERSION):
        await tree.update_object("bucket", key, "null", lambda info: info.attributes)
    assert await tree.delete_object("bucket", key, None) == Deletion(existed=False)
    assert (await tree.list_objects(ListQuery("bucket", prefix=key))).objects == ()
    assert os.listdir(bucket) == []


async def test_key__odd_but_a_path__is_that_file(tree: TreeStorage, bucket: Path) -> None:
    odd = [
        "x" * 255,
        "a b+c%2F",
        "-",
        "\x01\x7f",
        ".hidden/...",
        "sub/.s3rdma",
        "\u00fc/\U0001f600",
    ]
    for key in odd:
        await put(tree, key, key.encode())
        assert (bucket / key).read_bytes() == key.encode()
    listed = (await tree.list_objects(ListQuery("bucket"))).objects
    assert [info.key for info in listed] == sorted(odd, key=str.encode)


async def test_put__below_an_object__409_that_says_so(tree: TreeStorage, bucket: Path) -> None:
    await put(tree, "a", b"file")
    for key in ("a/b", "a/b/c", "a/"):
        with raises(S3Code.OBJECT_PARENT_IS_FILE) as caught:
            await put(tree, key)
        assert caught.value.code.status == 409
        with raises(S3Code.NO_SUCH_KEY):
            await get(tree, key)
        assert not (await tree.delete_object("bucket", key, None)).existed
    assert await get(tree, "a") == b"file"
    assert os.listdir(bucket) == ["a"]


@pytest.mark.parametrize("conditions", [Conditions(), ABSENT])
async def test_put__above_objects__409_that_says_so(
    tree: TreeStorage, conditions: Conditions
) -> None:
    await put(tree, "a/b/c", b"file")
    for key in ("a", "a/b"):
        with raises(S3Code.EXISTING_OBJECT_IS_DIRECTORY) as caught:
            await put(tree, key, b"new", conditions=conditions)
        assert caught.value.code.status == 409
        with raises(S3Code.NO_SUCH_KEY):
            await get(tree, key)
    assert await get(tree, "a/b/c") == b"file"


@pytest.mark.parametrize("conditions", [Conditions(), ABSENT])
async def test_put__an_empty_directory_of_the_gateway_is_there__makes_way(
    tree: TreeStorage, bucket: Path, conditions: Conditions
) -> None:
    """As a crash leaves one, between the directory and the object in it."""
    (bucket / "a").mkdir()
    with raises(S3Code.EXISTING_OBJECT_IS_DIRECTORY):
        await put(tree, "a", b"data", conditions=conditions)
    os.setxattr(bucket / "a", "user.s3rdma.made", b"new")
    await put(tree, "a", b"data", conditions=conditions)
    assert await get(tree, "a") == b"data"


async def test_put__a_pipe_is_there__refused_where_it_would_have_to_be_absent(
    tree: TreeStorage, bucket: Path
) -> None:
    os.mkfifo(bucket / "pipe")
    with raises(S3Code.ACCESS_DENIED):
        await put(tree, "pipe", b"data", conditions=ABSENT)
    await put(tree, "pipe", b"data")
    assert await get(tree, "pipe") == b"data"


async def test_delete__last_key_of_directories__those_the_gateway_made_go(
    tree: TreeStorage, bucket: Path
) -> None:
    await put(tree, "a/b/c/one")
    await put(tree, "a/two")
    await tree.delete_object("bucket", "a/b/c/one", None)
    assert os.listdir(bucket / "a") == ["two"]
    (bucket / "a" / "foreign").write_bytes(b"")
    await tree.delete_object("bucket", "a/two", None)
    assert os.listdir(bucket / "a") == ["foreign"]
    await tree.delete_object("bucket", "a/foreign", None)
    assert os.listdir(bucket) == []


async def test_put_and_delete__in_one_directory_at_once__no_put_is_lost(
    tree: TreeStorage, bucket: Path
) -> None:
    """The directory goes and comes under the writers."""

    async def come_and_go(name: str) -> None:
        for turn in range(30):
            await put(tree, f"d/e/{name}", b"%d" % turn)
            assert await get(tree, f"d/e/{name}") == b"%d" % turn
            await tree.delete_object("bucket", f"d/e/{name}", None)

    await asyncio.gather(*(come_and_go(f"w{number}") for number in range(4)))
    assert os.listdir(bucket) == []


async def test_put__the_name_is_too_long_for_the_file_system__said_so(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.storage.tree.paths.MAX_SEGMENT_BYTES", 1000)
    for key in ("x" * 256, "x" * 256 + "/y"):
        with raises(S3Code.INVALID_ARGUMENT) as caught:
            await put(tree, key)
        assert "takes no name so long" in caught.value.message


# Directories that are objects


async def test_marker__put_and_delete__the_directory_is_the_object(
    tree: TreeStorage, bucket: Path
) -> None:
    attributes = ObjectAttributes(metadata={"a": "b"})
    described = draft(b"", attributes)
    made = await tree.commit_object(await stage(tree, b""), "bucket", "dir/sub/", described)
    assert await tree.head_object("bucket", "dir/sub/", None) == made
    assert (made.attributes, made.size_bytes) == (attributes, 0)
    assert (bucket / "dir" / "sub").is_dir()
    assert await get(tree, "dir/sub/") == b""
    await put(tree, "dir/sub/file", b"x")
    await tree.delete_object("bucket", "dir/sub/file", None)
    listed = (await tree.list_objects(ListQuery("bucket"))).objects
    assert listed == (made,)
    for key in ("dir/", "dir/sub"):
        with raises(S3Code.NO_SUCH_KEY):
            await tree.head_object("bucket", key, None)
    assert (await tree.delete_object("bucket", "dir/sub/", None)).existed
    assert os.listdir(bucket) == []


async def test_marker__conditions__judged_as_of_any_object(tree: TreeStorage) -> None:
    first = await put(tree, "dir/", conditions=ABSENT)
    with raises(S3Code.PRECONDITION_FAILED):
        await put(tree, "dir/", conditions=ABSENT)
    with raises(S3Code.NO_SUCH_KEY):
        await put(tree, "other/", conditions=Conditions(if_match=("*",)))
    await put(tree, "dir/", conditions=Conditions(if_match=(first.etag,)))


async def test_marker__with_bytes__refused(tree: TreeStorage, bucket: Path) -> None:
    for attempt in (put(tree, "dir/", b"data"), initiate(tree, "dir/")):
        with raises(S3Code.DIRECTORY_OBJECT_CONTAINS_DATA):
            await attempt
    assert os.listdir(bucket) == []


async def test_marker__on_a_directory_of_another_program__which_stays(
    tree: TreeStorage, bucket: Path
) -> None:
    (bucket / "theirs").mkdir()
    await put(tree, "theirs/")
    tagged = ObjectAttributes(tags=(("a", "b"),))
    changed = await tree.update_object("bucket", "theirs/", None, lambda _: tagged)
    assert (await tree.head_object("bucket", "theirs/", None)).attributes == tagged
    assert changed.attributes == tagged
    await tree.delete_object("bucket", "theirs/", None)
    assert os.listdir(bucket) == ["theirs"]


async def test_marker__put_while_its_directory_is_pruned__is_not_lost(tree: TreeStorage) -> None:
    for turn in range(40):
        await put(tree, f"d{turn}/file")
        await asyncio.gather(
            put(tree, f"d{turn}/"), tree.delete_object("bucket", f"d{turn}/file", None)
        )
        assert (await tree.head_object("bucket", f"d{turn}/", None)).size_bytes == 0


async def test_permit__forbids__nothing_is_removed(tree: TreeStorage) -> None:
    await put(tree, "k", b"data")

    def forbid(_: ObjectInfo) -> None:
        raise ClientError(S3Code.ACCESS_DENIED)

    with raises(S3Code.ACCESS_DENIED):
        await tree.delete_object("bucket", "k", None, permit=forbid)
    assert await get(tree, "k") == b"data"
