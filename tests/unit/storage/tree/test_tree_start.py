"""What a tree needs to start, and what it leaves alone where it may only read."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from storing import complete, etag, get, initiate, new_bucket, put, put_part, raises

from gateway.errors import InternalError, S3Code
from gateway.storage.port import ListQuery, ObjectAttributes, ObjectDraft, Versioning
from gateway.storage.tree import root as root_module
from gateway.storage.tree.storage import TreeStorage

Make = Callable[..., TreeStorage]
NOW_NS = 1_700_000_000_000_000_000


async def refusal(tree: TreeStorage) -> str:
    with pytest.raises(InternalError) as caught:
        await tree.start()
    return caught.value.cause


async def test_start__no_directory__says_which_setting(
    make_tree: Make, tmp_path: Path, open_files: Callable[[], int]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "absent", tmp_path / "file"):
        assert "name an existing one (tree.root)" in await refusal(make_tree(root=path))
    assert open_files() == 0


@pytest.mark.parametrize("name", ["meta", ".", "..", ".a/b", ""])
async def test_start__meta_name_could_be_a_bucket__refused(make_tree: Make, name: str) -> None:
    assert "one name that begins with a dot" in await refusal(make_tree(meta_name=name))


@pytest.mark.parametrize("theirs", ["mode", "owner"])
async def test_start__own_directory_is_anothers__refused(
    make_tree: Make,
    meta: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_files: Callable[[], int],
    theirs: str,
) -> None:
    os.mkdir(meta)
    os.chmod(meta, 0o770 if theirs == "mode" else 0o700)
    if theirs == "owner":
        fstat, inode = os.fstat, os.stat(meta).st_ino

        def owned(fd: int) -> os.stat_result:
            found = fstat(fd)
            uid = found.st_uid + (found.st_ino == inode)
            return os.stat_result((*found[:4], uid, *found[5:]))

        monkeypatch.setattr(os, "fstat", owned)
    assert "not the gateway's alone" in await refusal(make_tree())
    assert open_files() == 0


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
async def test_start__no_openat2__says_which_linux(
    make_tree: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def missing(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(root_module, "open_beneath", missing)
    assert "Linux 5.6 or newer" in await refusal(make_tree())


async def test_start__no_extended_attributes__says_what_to_do(
    make_tree: Make,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_files: Callable[[], int],
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "setxattr", unsupported)
    told = await refusal(make_tree())
    assert "mount it with user_xattr" in told
    assert "tree.read_only" in told
    assert open_files() == 0


async def test_start__no_locks__says_what_to_do(
    make_tree: Make, monkeypatch: pytest.MonkeyPatch, open_files: Callable[[], int]
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "fcntl", no_locks)
    assert "mount Lustre with `flock`" in await refusal(make_tree())
    assert open_files() == 0


async def test_start__no_unnamed_files__staged_with_names(
    make_tree: Make, root: Path, meta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS, which has no O_TMPFILE."""
    open_file = os.open

    def named_only(path: object, flags: int, *args: object, **kwargs: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return open_file(path, flags, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", named_only)
    tree = make_tree()
    await tree.start()
    await tree.create_bucket(new_bucket("bucket"))
    staged = await tree.stage("bucket")
    await staged.write(b"data")
    assert len(list(meta.glob("staging/*/*"))) == 1  # noqa: ASYNC240
    await tree.commit_object(staged, "bucket", "k", ObjectDraft(4, etag(b"data")))
    assert await get(tree, "k") == b"data"
    await (await tree.stage("bucket")).discard()
    assert list(meta.glob("staging/*/*")) == []  # noqa: ASYNC240
    await tree.check()


async def test_capabilities__one_version__asking_for_more_is_not_implemented(
    tree: TreeStorage,
) -> None:
    wanted = new_bucket("versioned", versioning=Versioning.ENABLED)
    locked = new_bucket("locked", object_lock=True)
    for attempt in (tree.create_bucket(wanted), tree.create_bucket(locked)):
        with raises(S3Code.NOT_IMPLEMENTED) as caught:
            await attempt
        assert "storage.driver = store" in caught.value.message
    for state in (Versioning.ENABLED, Versioning.SUSPENDED):
        with raises(S3Code.NOT_IMPLEMENTED):
            await tree.update_bucket(
                "bucket", lambda _, state=state: new_bucket("x", versioning=state)
            )
    assert (await tree.head_bucket("bucket")).versioning is Versioning.OFF


# Reading only


async def test_read_only__everything_is_read_and_nothing_written(
    tree: TreeStorage, make_tree: Make, root: Path, meta: Path
) -> None:
    upload_id = await initiate(tree, "up")
    part = await put_part(tree, "up", upload_id, 1, b"part")
    done = await initiate(tree, "done")
    info = await complete(tree, "done", done, [await put_part(tree, "done", done, 1, b"x")])
    before = everything(root)
    reading = make_tree(read_only=True)
    await reading.start()
    await reading.check()
    assert await reading.head_object("bucket", "done", None) == info
    assert await get(reading, "done") == b"x"
    assert (await reading.list_objects(ListQuery("bucket"))).objects[0].key == "done"
    assert [one.name for one in await reading.list_buckets()] == ["bucket"]
    assert await reading.list_parts("bucket", "up", upload_id, 0, 10) == ((part,), False)
    assert await reading.completed_upload("bucket", "done", done) == info
    changes: tuple[Awaitable[object], ...] = (
        reading.create_bucket(new_bucket("other")),
        reading.update_bucket("bucket", lambda found: found),
        reading.delete_bucket("bucket"),
        reading.stage("bucket"),
        reading.update_object("bucket", "done", None, lambda _: ObjectAttributes()),
        reading.delete_object("bucket", "done", None),
        reading.create_upload("bucket", "k", ObjectAttributes(), None, None),
        reading.complete_upload("bucket", "up", upload_id, [part], ObjectDraft(4, "e")),
        reading.abort_upload("bucket", "up", upload_id),
    )
    for change in changes:
        with raises(S3Code.ACCESS_DENIED) as caught:
            await change
        assert "tree.read_only" in caught.value.message
    await reading.stop()
    assert everything(root) == before


def everything(root: Path) -> dict[str, tuple[int, int]]:
    """Every name below, with its time of change."""
    found = ((path, path.lstat()) for path in root.rglob("*"))
    return {str(path): (stat.st_ctime_ns, stat.st_size) for path, stat in found}


async def test_read_only__no_directory_of_the_gateway__none_is_made(
    make_tree: Make, root: Path
) -> None:
    (root / "bucket").mkdir()
    (root / "bucket" / "k").write_bytes(b"data")
    reading = make_tree(read_only=True)
    await reading.start()
    assert await get(reading, "k") == b"data"
    assert (await reading.list_uploads("bucket", "", "", "", "", 10)).uploads == ()
    with raises(S3Code.NO_SUCH_UPLOAD):
        await reading.head_upload("bucket", "k", "0" * 32)
    assert await reading.completed_upload("bucket", "k", "0" * 32) is None
    await reading.stop()
    assert os.listdir(root) == ["bucket"]


# What a start sweeps


async def test_start__what_a_dead_gateway_staged__goes_and_a_living_ones_stays(
    tree: TreeStorage, make_tree: Make, meta: Path
) -> None:
    dead = meta / "staging" / ("d" * 32)
    (dead / "upload").mkdir(parents=True)
    (dead / "file").write_bytes(b"half")
    (dead / "upload" / "00001").write_bytes(b"part")
    living = os.listdir(meta / "staging")
    other = make_tree()
    await other.start()
    assert not dead.exists()
    assert len(os.listdir(meta / "staging")) == len(living)  # its own has come
    await put(tree, "k", b"data")
    await other.stop()
    assert len(os.listdir(meta / "staging")) == 1


async def test_start__uploads_and_completions_past_their_age__gone(
    make_tree: Make, meta: Path
) -> None:
    now_ns = [NOW_NS]
    tree = make_tree(lambda: now_ns[0], upload_expiry_s=100)
    await tree.start()
    await tree.create_bucket(new_bucket("bucket"))
    ids = {}
    for key in ("kept", "replaced", "unfinished"):
        ids[key] = await initiate(tree, key)
        part = await put_part(tree, key, ids[key], 1, key.encode())
        if key != "unfinished":
            await complete(tree, key, ids[key], [part])
    await put(tree, "replaced", b"newer")
    for later_s, remembered in ((99, True), (101, False)):
        now_ns[0] = NOW_NS + later_s * 10**9
        again = make_tree(lambda: now_ns[0], upload_expiry_s=100)
        await again.start()
        uploads = (await again.list_uploads("bucket", "", "", "", "", 10)).uploads
        assert [info.key for info in uploads] == ["unfinished"] * remembered
        known = await again.completed_upload("bucket", "replaced", ids["replaced"])
        assert (known is not None) == remembered
    assert len((await again.head_object("bucket", "kept", None)).parts) == 1
    assert await get(again, "kept") == b"kept"


async def test_create_upload__old_ones__cleared_away_a_few_at_a_time(make_tree: Make) -> None:
    now_ns = [NOW_NS]
    tree = make_tree(lambda: now_ns[0], upload_expiry_s=100)
    await tree.start()
    await tree.create_bucket(new_bucket("bucket"))
    for number in range(20):
        now_ns[0] += number
        await initiate(tree, f"k{number}")
    now_ns[0] += 101 * 10**9
    await initiate(tree, "new")
    uploads = (await tree.list_uploads("bucket", "", "", "", "", 100)).uploads
    assert [info.key for info in uploads] == ["k16", "k17", "k18", "k19", "new"]


async def test_create_bucket__uploads_of_one_that_went__are_not_its_own(
    tree: TreeStorage, root: Path
) -> None:
    """Another program removed the directory, so that nobody aborted them."""
    upload_id = await initiate(tree, "k")
    (root / "bucket").rmdir()
    await tree.create_bucket(new_bucket("bucket"))
    with raises(S3Code.NO_SUCH_UPLOAD):
        await tree.head_upload("bucket", "k", upload_id)
