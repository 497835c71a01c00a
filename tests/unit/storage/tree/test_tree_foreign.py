"""Files that other programs add, change, move and remove are seen at once, and told as they are."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from storing import complete, etag, get, initiate, put, put_part, raises

from gateway.errors import InternalError, S3Code
from gateway.storage.port import ListQuery, ObjectAttributes, VersionQuery
from gateway.storage.tree.storage import TreeStorage
from gateway.wire.conditional import Conditions
from gateway.wire.grants import Grant, Permission

TAGGED = ObjectAttributes(tags=(("a", "b"),), grants=(Grant("1" * 64, Permission.READ),))


async def keys(tree: TreeStorage) -> list[str]:
    return [info.key for info in (await tree.list_objects(ListQuery("bucket"))).objects]


async def test_head__file_of_another_program__size_time_and_an_etag_that_is_no_md5(
    tree: TreeStorage, bucket: Path
) -> None:
    (bucket / "sub").mkdir()
    (bucket / "sub" / "file").write_bytes(b"foreign")
    info = await tree.head_object("bucket", "sub/file", None)
    stat = (bucket / "sub" / "file").stat()
    assert (info.size_bytes, info.modified_ns) == (7, stat.st_mtime_ns)
    assert re.fullmatch(r"[0-9a-f]{32}-0", info.etag)
    assert (info.attributes, info.checksums, info.owner) == (ObjectAttributes(), {}, "")
    assert await get(tree, "sub/file") == b"foreign"
    assert (await tree.list_objects(ListQuery("bucket"))).objects == (info,)


async def test_etag__foreign_file_changes__changes_with_it(tree: TreeStorage, bucket: Path) -> None:
    seen = set()
    file = bucket / "file"
    for turn, content in enumerate((b"one", b"two", b"three")):
        file.write_bytes(content)
        os.utime(file, ns=(turn, turn))
        seen.add((await tree.head_object("bucket", "file", None)).etag)
    (bucket / "other").write_bytes(b"three")
    os.utime(bucket / "other", ns=(2, 2))
    (bucket / "other").rename(file)  # the same size and time, but another file
    seen.add((await tree.head_object("bucket", "file", None)).etag)
    assert len(seen) == 4


async def test_etag__foreign_file_untouched_in_content__stays(
    tree: TreeStorage, bucket: Path
) -> None:
    file = bucket / "file"
    file.write_bytes(b"same")
    before = await tree.head_object("bucket", "file", None)
    file.chmod(0o600)
    os.link(file, bucket.parent / "elsewhere")
    file.rename(bucket / "renamed")
    after = await tree.head_object("bucket", "renamed", None)
    assert after == replace(before, key="renamed")


async def test_object__another_program_writes_into_it__content_is_new_and_meaning_stays(
    tree: TreeStorage, bucket: Path
) -> None:
    upload_id = await initiate(tree, "k")
    parts = [await put_part(tree, "k", upload_id, 1, b"part")]
    await complete(tree, "k", upload_id, parts)
    tagged = await tree.update_object("bucket", "k", None, lambda _: TAGGED)
    assert tagged.parts == tuple(parts)
    with (bucket / "k").open("ab") as file:
        file.write(b" and more")
    info = await tree.head_object("bucket", "k", None)
    assert info.etag.endswith("-0")
    assert (info.size_bytes, info.parts, info.checksums) == (13, (), {})
    assert info.attributes == TAGGED
    assert await get(tree, "k") == b"part and more"


async def test_multipart_object__written_into_then_tagged__the_upload_is_still_remembered(
    tree: TreeStorage, bucket: Path
) -> None:
    upload_id = await initiate(tree, "k")
    parts = [await put_part(tree, "k", upload_id, 1, b"part")]
    done = await complete(tree, "k", upload_id, parts)
    (bucket / "k").write_bytes(b"something else")
    tagged = await tree.update_object("bucket", "k", None, lambda _: TAGGED)
    assert await tree.head_object("bucket", "k", None) == tagged
    assert await complete(tree, "k", upload_id, parts) == done
    assert await get(tree, "k") == b"something else"


async def test_object__another_program_replaces_it__nothing_of_the_old_one_stays(
    tree: TreeStorage, bucket: Path
) -> None:
    await put(tree, "k", b"mine")
    await tree.update_object("bucket", "k", None, lambda _: TAGGED)
    (bucket / "new").write_bytes(b"mine")
    (bucket / "new").rename(bucket / "k")
    info = await tree.head_object("bucket", "k", None)
    assert (info.etag[-2:], info.attributes) == ("-0", ObjectAttributes())


async def test_object__moved_by_another_program__takes_all_it_is_along(
    tree: TreeStorage, bucket: Path
) -> None:
    upload_id = await initiate(tree, "k")
    parts = [await put_part(tree, "k", upload_id, n, b"%d" % n) for n in (1, 2)]
    info = await complete(tree, "k", upload_id, parts)
    (bucket / "dir").mkdir()
    (bucket / "k").rename(bucket / "dir" / "moved")
    assert await tree.head_object("bucket", "dir/moved", None) == replace(info, key="dir/moved")
    assert await keys(tree) == ["dir/moved"]


async def test_object__copied_with_its_attributes__is_the_same_object(
    tree: TreeStorage, bucket: Path
) -> None:
    info = await put(tree, "k", b"data")
    shutil.copy2(bucket / "k", bucket / "copy")
    assert await tree.head_object("bucket", "copy", None) == replace(info, key="copy")


async def test_attribute__garbage_of_another_program__is_as_if_there_were_none(
    tree: TreeStorage, bucket: Path
) -> None:
    for value in (b"", b"\xff", b"[]", b"{}", b"null", b'[1,2,3,4,5,"FULL_OBJECT",null,7]'):
        (bucket / "k").write_bytes(b"data")
        os.setxattr(bucket / "k", "user.s3rdma.object", value)
        assert (await tree.head_object("bucket", "k", None)).etag.endswith("-0")


async def test_foreign_file__conditions_copy_and_delete__as_any_object(
    tree: TreeStorage, bucket: Path
) -> None:
    (bucket / "k").write_bytes(b"foreign")
    info = await tree.head_object("bucket", "k", None)
    with raises(S3Code.PRECONDITION_FAILED):
        await put(tree, "k", b"new", conditions=Conditions(if_none_match=("*",)))
    with raises(S3Code.PRECONDITION_FAILED):
        await put(tree, "k", b"new", conditions=Conditions(if_match=("other",)))
    new = await put(tree, "k", b"new", conditions=Conditions(if_match=(info.etag,)))
    assert new.etag == etag(b"new")
    assert (await tree.delete_object("bucket", "k", None)).existed
    assert not (bucket / "k").exists()


async def test_foreign_file__tagged__keeps_its_time_and_etag(
    tree: TreeStorage, bucket: Path
) -> None:
    (bucket / "k").write_bytes(b"foreign")
    before = await tree.head_object("bucket", "k", None)
    after = await tree.update_object("bucket", "k", None, lambda _: TAGGED)
    assert after == replace(before, attributes=TAGGED)
    assert await tree.head_object("bucket", "k", None) == after


async def test_buckets__directories_of_another_program__are_buckets_with_defaults(
    tree: TreeStorage, root: Path
) -> None:
    for name in ("existing", "No Bucket", "lost+found", "ab"):
        (root / name).mkdir()
    (root / "a-file").write_bytes(b"")
    (root / "a-link").symlink_to(root / "existing")
    assert [info.name for info in await tree.list_buckets()] == ["bucket", "existing"]
    info = await tree.head_bucket("existing")
    assert (info.region, info.owner, info.settings) == ("us-east-1", "", {})
    assert info.created_ns == (root / "existing").stat().st_mtime_ns
    configured = await tree.update_bucket(
        "existing", lambda info: replace(info, settings={"policy": "{}"})
    )
    assert await tree.head_bucket("existing") == configured
    (root / "existing").rmdir()
    with raises(S3Code.NO_SUCH_BUCKET):
        await tree.head_bucket("existing")


async def test_listing__what_is_no_object__is_left_out(tree: TreeStorage, bucket: Path) -> None:
    (bucket / "empty" / "below").mkdir(parents=True)
    (bucket / "link").symlink_to("file")
    os.mkfifo(bucket / "pipe")
    (bucket / "file").write_bytes(b"")
    os.close(os.open(os.fsencode(bucket) + b"/not-\xff-text", os.O_CREAT))
    deep = Path(*["d" * 200] * 6)
    (bucket / deep).mkdir(parents=True)
    (bucket / deep / "file").write_bytes(b"")  # over 1024 bytes: no key
    (bucket / ".s3rdma").mkdir()
    (bucket / ".s3rdma" / "file").write_bytes(b"")
    for delimiter in ("", "/", "e"):
        page = await tree.list_objects(ListQuery("bucket", "", delimiter))
        shown = [info.key for info in page.objects] + list(page.prefixes)
        assert shown == ["file"]
    versions = (await tree.list_versions(VersionQuery("bucket"))).versions
    assert [(info.key, info.version_id, info.latest) for info in versions] == [
        ("file", "null", True)
    ]


async def test_directory__of_another_program__is_no_object_and_stays_when_it_gets_empty(
    tree: TreeStorage, bucket: Path
) -> None:
    (bucket / "theirs").mkdir()
    with raises(S3Code.NO_SUCH_KEY):
        await tree.head_object("bucket", "theirs/", None)
    await put(tree, "theirs/ours/k", b"data")
    await tree.delete_object("bucket", "theirs/ours/k", None)
    assert os.listdir(bucket) == ["theirs"]
    assert os.listdir(bucket / "theirs") == []


async def test_reader__another_program_shortens_the_file__an_error_and_no_wrong_bytes(
    tree: TreeStorage, bucket: Path
) -> None:
    await put(tree, "k", bytes(100_000))
    reader = await tree.open_object("bucket", "k", None)
    os.truncate(bucket / "k", 50_000)
    with pytest.raises(InternalError) as caught:
        await reader.read(0, 100_000)
    assert "was shortened by another program" in caught.value.cause
    await reader.close()
    with pytest.raises(InternalError):
        reader.extents(0, 1)
