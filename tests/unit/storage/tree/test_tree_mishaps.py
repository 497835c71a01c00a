"""What comes between the steps of a write: others' changes, and a file system that refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storing import complete, draft, get, initiate, put, put_part, raises, stage

from gateway.errors import GatewayError, InternalError, S3Code
from gateway.storage.port import ListQuery
from gateway.storage.tree import bucket as bucket_module
from gateway.storage.tree import parts as parts_module
from gateway.storage.tree import root as root_module
from gateway.storage.tree.storage import TreeStorage
from gateway.wire.conditional import Conditions

Make = Callable[..., TreeStorage]
ABSENT = Conditions(if_none_match=("*",))


def refusing(number: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.fixture
def apart(root: Path, tree: TreeStorage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bucket's directory, which seems to be a mount of its own."""
    open_beneath = root_module.open_beneath

    def stay(*args: Any, same_mount: bool = False, **kwargs: Any) -> int:
        if same_mount:
            refusing(errno.EXDEV)()
        return open_beneath(*args, **kwargs)

    monkeypatch.setattr(root_module, "open_beneath", stay)
    return root / "bucket"


async def test_bucket__a_mount_of_its_own__staged_and_uploaded_there(
    apart: Path, tree: TreeStorage, root: Path
) -> None:
    await put(tree, "k", b"data")
    upload_id = await initiate(tree, "up")
    part = await put_part(tree, "up", upload_id, 1, b"part")
    assert os.listdir(apart / ".s3rdma" / "uploads" / "bucket") == [upload_id]
    assert not (root / ".s3rdma" / "uploads").exists()
    await complete(tree, "up", upload_id, [part])
    assert await get(tree, "up") == b"part"
    listed = (await tree.list_objects(ListQuery("bucket"))).objects
    assert [info.key for info in listed] == ["k", "up"]


async def test_put__on_a_mount_inside_the_bucket__says_what_to_do(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch, leftovers: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(os, "rename", refusing(errno.EXDEV))
    monkeypatch.setattr(os, "link", linking(os.link))
    for conditions in (Conditions(), ABSENT):
        with pytest.raises(InternalError) as caught:
            await put(tree, "k", b"data", conditions=conditions)
        assert "make that one a bucket" in caught.value.cause
    assert leftovers() == []


def linking(link: Callable[..., None]) -> Callable[..., None]:
    """os.link that works for unnamed files only."""

    def only_unnamed(source: str, *args: Any, **kwargs: Any) -> None:
        if not source.startswith("/proc"):
            refusing(errno.EXDEV)()
        link(source, *args, **kwargs)

    return only_unnamed


async def test_put__bucket_goes_in_the_middle__no_such_bucket(
    tree: TreeStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_parents = bucket_module.Bucket.make_parents

    def gone(self: bucket_module.Bucket, *args: Any, **kwargs: Any) -> int:
        (root / "bucket").rmdir()
        return make_parents(self, *args, **kwargs)

    for key in ("k", "dir/k", "dir/"):
        monkeypatch.setattr(bucket_module.Bucket, "make_parents", gone)
        with raises(S3Code.NO_SUCH_BUCKET):
            await put(tree, key)
        monkeypatch.undo()
        (root / "bucket").mkdir()


async def test_put__the_way_is_never_clear__a_conflict_to_be_retried(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch, leftovers: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(bucket_module.Bucket, "make_parents", refusing(errno.ENOENT))
    for key in ("k", "dir/"):
        with raises(S3Code.CONDITIONAL_REQUEST_CONFLICT):
            await put(tree, key)
    assert leftovers() == []


async def test_put_if_absent__another_program_was_faster__precondition_failed(
    tree: TreeStorage, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the file between the look and the link."""
    make_parents = bucket_module.Bucket.make_parents

    def faster(self: bucket_module.Bucket, *args: Any, **kwargs: Any) -> int:
        (bucket / "k").write_bytes(b"theirs")
        return make_parents(self, *args, **kwargs)

    monkeypatch.setattr(bucket_module.Bucket, "make_parents", faster)
    with raises(S3Code.PRECONDITION_FAILED):
        await put(tree, "k", b"mine", conditions=ABSENT)
    assert await get(tree, "k") == b"theirs"


@pytest.mark.parametrize(("times", "served"), [(3, True), (100, False)])
async def test_read__stale_file_handle__asked_again_a_few_times(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch, times: int, served: bool
) -> None:
    await put(tree, "k", b"data")
    open_beneath, left = bucket_module.open_beneath, [times]

    def stale(*args: Any, **kwargs: Any) -> int:
        left[0] -= 1
        if left[0] >= 0:
            refusing(errno.ESTALE)()
        return open_beneath(*args, **kwargs)

    monkeypatch.setattr(bucket_module, "open_beneath", stale)
    if served:
        assert await get(tree, "k") == b"data"
    else:
        with pytest.raises(InternalError):
            await get(tree, "k")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
async def test_read__the_gateways_user_may_not__denied_and_not_listed(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    await put(tree, "secret/k", b"data")
    open_beneath = bucket_module.open_beneath

    def forbidden(directory: int, path: bytes, *args: Any, **kwargs: Any) -> int:
        if path.startswith(b"secret"):
            refusing(number)()
        return open_beneath(directory, path, *args, **kwargs)

    monkeypatch.setattr(bucket_module, "open_beneath", forbidden)
    with raises(S3Code.ACCESS_DENIED):
        await get(tree, "secret/k")
    with raises(S3Code.ACCESS_DENIED):
        await put(tree, "secret/new/k", b"data")
    for delimiter in ("", "/"):
        page = await tree.list_objects(ListQuery("bucket", delimiter=delimiter))
        assert (page.objects, page.prefixes) == ((), ())


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP])
async def test_complete__no_copy_file_range__the_kernel_sends(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    upload_id = await initiate(tree, "k")
    bodies = [os.urandom(100_000), b"", os.urandom(5)]
    parts = [await put_part(tree, "k", upload_id, n, body) for n, body in enumerate(bodies, 1)]
    monkeypatch.setattr(os, "copy_file_range", refusing(number))
    await complete(tree, "k", upload_id, parts)
    assert await get(tree, "k") == b"".join(bodies)


async def test_complete__a_part_was_shortened_or_lost_its_attribute__an_error(
    tree: TreeStorage, meta: Path
) -> None:
    upload_id = await initiate(tree, "k")
    part = await put_part(tree, "k", upload_id, 1, b"part")
    file = meta / "uploads" / "bucket" / upload_id / "00001"
    os.truncate(file, 2)
    with pytest.raises(InternalError) as caught:
        await complete(tree, "k", upload_id, [part])
    assert "shortened by another program" in caught.value.cause
    os.removexattr(file, "user.s3rdma.part")
    with pytest.raises(InternalError) as caught:
        await complete(tree, "k", upload_id, [part])
    assert "has lost its attribute: abort it" in caught.value.cause
    await tree.abort_upload("bucket", "k", upload_id)


async def test_complete__copies_of_one_call_are_bounded__any_length(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "_COPY_BYTES", 7)
    upload_id = await initiate(tree, "k")
    part = await put_part(tree, "k", upload_id, 1, b"0123456789" * 3)
    await complete(tree, "k", upload_id, [part])
    assert await get(tree, "k") == b"0123456789" * 3


async def test_complete__its_end_fails__done_all_the_same_and_made_up_for(
    tree: TreeStorage, make_tree: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = await initiate(tree, "k")
    part = await put_part(tree, "k", upload_id, 1, b"part")
    rename = os.rename

    def keep_uploads(source: object, *args: Any, **kwargs: Any) -> None:
        if source == upload_id.encode():
            refusing(errno.EIO)()
        rename(source, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", keep_uploads)
    info = await complete(tree, "k", upload_id, [part])
    monkeypatch.undo()
    assert await tree.completed_upload("bucket", "k", upload_id) == info
    await put(tree, "other", b"")
    await (again := make_tree()).start()
    assert (await again.list_uploads("bucket", "", "", "", "", 10)).uploads == ()
    assert await complete(again, "k", upload_id, [part]) == info


async def test_abort__after_a_complete_that_a_crash_cut_short__no_harm(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = await initiate(tree, "k")
    part = await put_part(tree, "k", upload_id, 1, b"part")
    with monkeypatch.context() as patch:
        patch.setattr("gateway.storage.tree.uploads._end", lambda *_: None)
        info = await complete(tree, "k", upload_id, [part])
    with raises(S3Code.NO_SUCH_UPLOAD):
        await tree.abort_upload("bucket", "k", upload_id)
    assert await tree.head_object("bucket", "k", None) == info
    assert await complete(tree, "k", upload_id, [part]) == info


async def test_stage__disk_is_full__refused_and_the_place_is_free_again(
    make_tree: Make, tree: TreeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make_tree(max_staged=1)
    await small.start()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refusing(errno.ENOSPC))
        for _ in range(3):
            with pytest.raises(InternalError, match="internal error") as caught:
                await small.stage("bucket", 1_000_000)
            assert "free space" in caught.value.cause
    staged = await stage(small, b"data")
    await small.commit_object(staged, "bucket", "k", draft(b"data"))


async def test_every_operation__many_times__leaves_no_descriptor_open(
    tree: TreeStorage, open_files: Callable[[], int]
) -> None:
    async def everything() -> None:
        await put(tree, "a/k", b"data")
        await get(tree, "a/k")
        for key in ("a", "a/k/b", "..", "a/"):
            for attempt in (put(tree, key, b"x"), get(tree, key)):
                with pytest.raises(GatewayError):
                    await attempt
        upload_id = await initiate(tree, "up")
        part = await put_part(tree, "up", upload_id, 1, b"part")
        await complete(tree, "up", upload_id, [part])
        await tree.list_objects(ListQuery("bucket", delimiter="/"))
        await tree.update_object("bucket", "up", None, lambda info: info.attributes)
        await tree.list_buckets()
        await tree.delete_object("bucket", "a/k", None)
        await tree.delete_object("bucket", "up", None)
        await tree.check()

    await everything()
    before = open_files()
    for _ in range(5):
        await everything()
    assert open_files() == before


async def test_delete_bucket__empty_directories_whoever_made_them__go_with_it(
    tree: TreeStorage, bucket: Path
) -> None:
    (bucket / "theirs" / "below").mkdir(parents=True)
    await put(tree, "theirs/k")
    with raises(S3Code.BUCKET_NOT_EMPTY):
        await tree.delete_bucket("bucket")
    await tree.delete_object("bucket", "theirs/k", None)
    await put(tree, "marker/")
    with raises(S3Code.BUCKET_NOT_EMPTY):
        await tree.delete_bucket("bucket")
    await tree.delete_object("bucket", "marker/", None)
    await tree.delete_bucket("bucket")
    assert "bucket" not in os.listdir(bucket.parent)


async def test_delete_bucket__it_cannot_go__says_why(
    tree: TreeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rmdir", refusing(errno.EBUSY))
    with raises(S3Code.ACCESS_DENIED) as caught:
        await tree.delete_bucket("bucket")
    assert "mount point" in caught.value.message
    monkeypatch.setattr(os, "rmdir", refusing(errno.EROFS))
    with pytest.raises(InternalError) as failed:
        await tree.delete_bucket("bucket")
    assert "remount it read-write" in failed.value.cause


async def test_io_errors__each_operation__an_error_that_names_the_place(
    tree: TreeStorage, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(tree, "k", b"data")
    for call, attempt in (
        ("pread", lambda: get(tree, "k")),
        ("rename", lambda: put(tree, "k", b"new")),
        ("unlink", lambda: tree.delete_object("bucket", "k", None)),
        ("mkdir", lambda: put(tree, "dir/k", b"new")),
        ("scandir", lambda: tree.list_objects(ListQuery("bucket"))),
        ("getxattr", lambda: tree.head_object("bucket", "k", None)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refusing(errno.EIO))
            with pytest.raises(InternalError) as caught:
                await attempt()
        assert str(bucket) in caught.value.cause, call
        assert "the disk reports a failure" in caught.value.cause
    assert await get(tree, "k") == b"data"


async def test_read_only__asked_to_write_within__refuses(
    tree: TreeStorage, make_tree: Make
) -> None:
    reading = make_tree(read_only=True)
    with pytest.raises(InternalError) as caught:
        await reading.check()
    assert "not started" in caught.value.cause
    await reading.start()
    with pytest.raises(InternalError) as caught:
        _ = reading._root.meta.staging
    assert "read-only" in caught.value.cause


async def test_start__another_gateway_completes_an_upload__neither_waits_nor_fails(
    tree: TreeStorage, make_tree: Make
) -> None:
    upload_id = await initiate(tree, "k")
    part = await put_part(tree, "k", upload_id, 1, b"part")
    with tree._root.locks.hold("upload", upload_id):
        other = make_tree(lock_timeout_s=60.0, upload_expiry_s=0.001)
        await other.start()
        await initiate(other, "another")
    await complete(tree, "k", upload_id, [part])
