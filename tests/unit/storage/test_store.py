"""The embedded store beyond its port: start, sweep, expiry, durability, failing disks."""

import asyncio
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from storing import complete, draft, etag, get, initiate, new_bucket, put, put_part, raises, stage

from gateway.config import Durability
from gateway.errors import BusyError, GatewayError, InternalError, S3Code
from gateway.storage import reader, staged
from gateway.storage.blocks import tail_bytes
from gateway.storage.files import DataFiles
from gateway.storage.lock import StoreLock
from gateway.storage.port import ListQuery, Versioning
from gateway.storage.store import Store
from gateway.wire.conditional import Conditions

Files = Callable[[], list[Path]]
Open = Callable[[], list[str]]
ORPHAN = "00112233445566778899aabbccddeeff"


# Start


async def test_start__new_root__private_modes(store: Store, root: Path, data_files: Files) -> None:
    await put(store, "key", b"data")
    assert len(data_files()) == 1
    found = {(stat.S_ISDIR(mode), stat.S_IMODE(mode)) for mode in _modes(root)}
    assert found == {(True, 0o700), (False, 0o600)}


def content(path: Path) -> bytes:
    """What a data file holds of an object: less than a block, and then its sum."""
    return path.read_bytes()[: -tail_bytes(1)]


def _modes(root: Path) -> list[int]:
    return [path.stat().st_mode for path in (root, *root.rglob("*"))]


async def test_start__again__objects_and_uploads_are_there(store: Store, make_store: Any) -> None:
    await put(store, "key", b"data")
    upload_id = await initiate(store, "up")
    part = await put_part(store, "up", upload_id, 1, b"part")
    done = await initiate(store, "done")
    parts = [await put_part(store, "done", done, 1, b"whole")]
    info = await complete(store, "done", done, parts)
    await store.stop()
    again = make_store()
    await again.start()
    assert await get(again, "key") == b"data"
    assert await again.list_parts("bucket", "up", upload_id, 0, 10) == ((part,), False)
    assert await complete(again, "done", done, parts) == info
    assert await get(again, "done") == b"whole"


async def test_start__somebody_has_it_alone__waits_then_names_the_process(
    store: Store, root: Path, make_store: Any
) -> None:
    await store.stop()
    alone = StoreLock(root / "lock")
    assert alone.acquire_alone(0)
    second = make_store(start_wait_s=0.1)
    with pytest.raises(InternalError) as caught:
        await second.start()
    assert f"in use by process {os.getpid()}" in caught.value.cause
    assert "store.root" in caught.value.cause
    alone.release()
    await second.start()


async def test_start__damaged_catalog__says_so_and_gives_the_lock_back(
    store: Store, root: Path, make_store: Any
) -> None:
    await put(store, "key", b"data")
    await store.stop()
    intact = (root / "catalog.db").read_bytes()
    (root / "catalog.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(InternalError) as caught:
        await make_store().start()
    assert "catalog.db" in caught.value.cause
    assert "restore it from a backup" in caught.value.cause
    (root / "catalog.db").write_bytes(intact)
    again = make_store()
    await again.start()
    assert await get(again, "key") == b"data"


@pytest.mark.parametrize(
    ("pragma", "words"),
    [("application_id = 7", "another program's"), ("user_version = 99", "has schema 99")],
)
async def test_start__foreign_or_newer_catalog__refused(
    store: Store, root: Path, make_store: Any, pragma: str, words: str
) -> None:
    await store.stop()
    with sqlite3.connect(root / "catalog.db") as connection:
        connection.execute(f"PRAGMA {pragma}")
    connection.close()
    with pytest.raises(InternalError) as caught:
        await make_store().start()
    assert words in caught.value.cause


async def test_start__catalog_lost_but_data_there__refused_and_nothing_swept(
    store: Store, root: Path, make_store: Any, data_files: Files
) -> None:
    await put(store, "key", b"data")
    await store.stop()
    os.unlink(root / "catalog.db")
    kept = data_files()
    with pytest.raises(InternalError) as caught:
        await make_store().start()
    assert "is missing" in caught.value.cause
    assert data_files() == kept != []


async def test_start__root_is_a_file__says_which(root: Path, make_store: Any) -> None:
    os.close(os.open(root, os.O_CREAT))
    with pytest.raises(InternalError) as caught:
        await make_store().start()
    assert str(root) in caught.value.cause


async def test_any_call__before_start__internal_error(make_store: Any) -> None:
    with pytest.raises(InternalError) as caught:
        await make_store().create_bucket(new_bucket("bucket"))
    assert "not started" in caught.value.cause


# Sweep and expiry


async def test_start__leftovers__removed_and_foreign_files_kept(
    store: Store, root: Path, make_store: Any, data_files: Files
) -> None:
    await put(store, "key", b"data")
    upload_id = await initiate(store, "up")
    await put_part(store, "up", upload_id, 1, b"part")
    kept = data_files()
    assert len(kept) == 2
    await store.stop()
    foreign = root / "objects" / "ff" / "README"
    foreign.write_bytes(b"not ours")
    (root / "objects" / ORPHAN[-2:] / ORPHAN).write_bytes(b"never referred to")
    (root / "staging" / ORPHAN).write_bytes(b"never whole")
    again = make_store()
    await again.start()
    await again.swept()
    assert data_files() == sorted([*kept, foreign])
    assert await get(again, "key") == b"data"


async def test_start__leftovers_of_a_time_to_come__kept_until_it_has_come(
    store: Store, root: Path, make_store: Any, clock: Any, data_files: Files
) -> None:
    """What looks younger than the start belongs to a process that is alive."""
    await store.stop()
    name = f"{clock.now_ns + 1_000_000_000:016x}{ORPHAN[16:]}"
    (root / "objects" / name[-2:] / name).write_bytes(b"about to be named")
    for seconds, left in ((0, 1), (2, 0)):
        clock.advance(seconds)
        again = make_store()
        await again.start()
        await again.swept()
        await again.stop()
        assert len(data_files()) == left


async def test_put__clock_was_set_back__its_file_is_no_leftover(
    store: Store, make_store: Any, clock: Any, data_files: Files
) -> None:
    """A name is never older than the start, from which on a sweep spares it."""
    started_ns = clock.now_ns
    clock.advance(-3600)
    second = make_store()
    await second.start()
    for number, one in enumerate((store, second), 1):
        await put(one, f"key{number}", b"data")
        assert len(data_files()) == number
    assert {int(path.name[:16], 16) for path in data_files()} == {started_ns}


async def test_stop__while_it_sweeps__ends_soon_and_the_next_start_goes_on(
    store: Store, root: Path, make_store: Any, data_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.stop()
    for number in range(4):
        (root / "objects" / f"f{number}" / f"{number:031x}f{number}"[1:]).write_bytes(b"lost")
    stopping = make_store()
    real, removed = DataFiles.remove, threading.Event()

    def remove_one(self: DataFiles, names: Any) -> None:
        real(self, names)
        if names:
            removed.set()
            stopping._sweep._stopped.wait(10)

    with monkeypatch.context() as slow:
        slow.setattr(DataFiles, "remove", remove_one)
        await stopping.start()
        await asyncio.to_thread(removed.wait, 10)
        await stopping.stop()
    assert len(data_files()) == 3
    again = make_store()
    await again.start()
    await again.swept()
    assert data_files() == []


async def test_replace_and_delete__old_files__go(store: Store, data_files: Files) -> None:
    await put(store, "a", b"1")
    await put(store, "a", b"2")
    await put(store, "b", b"3")
    await store.delete_object("bucket", "b", None)
    upload_id = await initiate(store, "up")
    parts = [await put_part(store, "up", upload_id, n, b"p") for n in (1, 1, 2, 3)]
    await complete(store, "up", upload_id, parts[1:3])
    aborted = await initiate(store, "up")
    await put_part(store, "up", aborted, 1, b"p")
    await store.abort_upload("bucket", "up", aborted)
    await store.stop()
    assert len(data_files()) == 3  # "a", and two parts of "up"


async def test_versions__hidden_or_replaced__files_stay_until_their_version_goes(
    store: Store, make_store: Any, data_files: Files
) -> None:
    await store.update_bucket("bucket", lambda info: replace(info, versioning=Versioning.ENABLED))
    made = [await put(store, "k", b"%d" % number) for number in range(2)]
    upload_id = await initiate(store, "k")
    parts = [await put_part(store, "k", upload_id, n, b"part") for n in (1, 2)]
    made.append(await complete(store, "k", upload_id, parts))
    marker = await store.delete_object("bucket", "k", None)
    await store.stop()
    assert len(data_files()) == 4  # the marker has none
    again = make_store()
    await again.start()
    await again.swept()
    assert len(data_files()) == 4  # the sweep at the start knows old versions too
    for left, info in zip((3, 2, 0), made, strict=True):
        await again.delete_object("bucket", "k", info.version_id)
        await asyncio.wrap_future(again._removals.submit(int))
        assert len(data_files()) == left
    await again.delete_object("bucket", "k", marker.version_id)
    await again.delete_bucket("bucket")


async def test_versions__null_version_replaced_while_suspended__its_file_goes(
    store: Store, data_files: Files
) -> None:
    await put(store, "k", b"first")
    await store.update_bucket("bucket", lambda info: replace(info, versioning=Versioning.SUSPENDED))
    await put(store, "k", b"second")
    await store.stop()
    assert [content(path) for path in data_files()] == [b"second"]


async def test_start__upload_past_its_age__ended_with_its_parts(
    store: Store, make_store: Any, clock: Any, data_files: Files
) -> None:
    old = await initiate(store, "old")
    await put_part(store, "old", old, 1, b"part")
    done = await initiate(store, "done")
    parts = [await put_part(store, "done", done, 1, b"whole")]
    await complete(store, "done", done, parts)
    clock.advance(3600)
    young = await initiate(store, "young")
    await store.stop()
    clock.advance(3000)
    again = make_store(upload_expiry_s=6000)
    await again.start()
    await asyncio.wrap_future(again._removals.submit(int))
    with raises(S3Code.NO_SUCH_UPLOAD):
        await again.head_upload("bucket", "old", old)
    await again.head_upload("bucket", "young", young)
    assert await again.completed_upload("bucket", "done", done) is None
    assert await get(again, "done") == b"whole"
    assert len(data_files()) == 1


async def test_create_upload__others_past_their_age__ended(
    store: Store, clock: Any, data_files: Files
) -> None:
    old = await initiate(store, "old")
    await put_part(store, "old", old, 1, b"part")
    clock.advance(7 * 86_400 + 1)
    await initiate(store, "new")
    with raises(S3Code.NO_SUCH_UPLOAD):
        await store.head_upload("bucket", "old", old)
    await store.stop()
    assert data_files() == []


# Durability


@pytest.mark.parametrize(
    ("durability", "calls", "synchronous"),
    [
        (Durability.FULL, ["fdatasync", "link", "fsync"], 2),
        (Durability.DATA, ["fdatasync", "link"], 1),
        (Durability.NONE, ["link"], 0),
    ],
)
async def test_commit_object__durability__waits_for_just_that_in_that_order(
    make_store: Any,
    monkeypatch: pytest.MonkeyPatch,
    durability: Durability,
    calls: list[str],
    synchronous: int,
) -> None:
    store = make_store(durability=durability)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    seen: list[str] = []
    for name in ("fdatasync", "link", "fsync"):
        real = getattr(os, name)

        def record(*args: Any, _name: str = name, _real: Any = real, **named: Any) -> Any:
            seen.append(_name)
            return _real(*args, **named)

        monkeypatch.setattr(os, name, record)
    await put(store, "key", b"data")
    monkeypatch.undo()
    assert seen == calls
    with sqlite3.connect(":memory:") as reference:
        reference.execute(f"PRAGMA synchronous = {synchronous}")
    reference.close()
    assert store._writer._db.execute("PRAGMA synchronous").fetchone() == (synchronous,)


async def test_publish__no_unnamed_files_here__staged_by_name_instead(
    make_store: Any, monkeypatch: pytest.MonkeyPatch, root: Path, data_files: Files
) -> None:
    real_open = os.open

    def without_tmpfile(path: Any, flags: int, *args: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real_open(path, flags, *args, **named)

    monkeypatch.setattr(os, "open", without_tmpfile)
    store = make_store()
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    half = await stage(store, b"half")
    assert [path.parent for path in data_files()] == [root / "staging"]
    await put(store, "key", b"data")
    await half.discard()
    assert [content(path) for path in data_files()] == [b"data"]
    await store.check()
    assert len(data_files()) == 1
    assert await get(store, "key") == b"data"


# Failing disks


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize(
    "call", ["open", "posix_fallocate", "pwrite", "fstat", "fdatasync", "link", "fsync"]
)
async def test_put__disk_fails_at_any_call__old_object_stays_and_nothing_is_left(
    make_store: Any,
    monkeypatch: pytest.MonkeyPatch,
    data_files: Files,
    open_files: Open,
    call: str,
    error: int,
) -> None:
    store = make_store(durability=Durability.FULL)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    old = b"old" * 1000
    await put(store, "key", old)

    def fail(*args: Any, **named: Any) -> Any:
        raise OSError(error, os.strerror(error))

    async def put_new() -> None:
        new = await store.stage("bucket", staged.PREALLOCATE_MIN_BYTES)
        try:
            await new.write(b"new")
        except InternalError:
            await new.discard()
            raise
        await store.commit_object(new, "bucket", "key", draft(b"new"))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        with pytest.raises(InternalError) as caught:
            await put_new()
    assert os.strerror(error) in caught.value.cause
    assert "store" in caught.value.cause
    assert caught.value.message == S3Code.INTERNAL_ERROR.message
    assert await get(store, "key") == old
    await put(store, "other", b"works again")
    await store.delete_object("bucket", "other", None)
    await asyncio.wrap_future(store._removals.submit(int))  # the removals before it are done
    assert len(data_files()) == 1
    assert open_files() == []


async def test_write__disk_takes_less_at_a_time__all_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:1000], at))
    data = os.urandom(10_500)
    await put(store, "key", data)
    assert await get(store, "key") == data


async def test_stage__no_preallocation_here__goes_without(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    data = os.urandom(staged.PREALLOCATE_MIN_BYTES)
    await put(store, "key", data)
    assert await get(store, "key") == data


async def test_commit_object__file_shorter_than_said__refused(
    store: Store, data_files: Files
) -> None:
    new = await store.stage("bucket", None)
    os.pwrite(new.fileno(), b"half", 0)
    new.written(8)
    with pytest.raises(InternalError) as caught:
        await store.commit_object(new, "bucket", "key", draft(b"halfhalf"))
    assert "holds 4 of 8 bytes" in caught.value.cause
    assert data_files() == []


async def test_put__database_full__refused_alone_and_works_after(
    store: Store, data_files: Files
) -> None:
    await put(store, "old", b"old")
    writer = store._writer._db  # type: ignore[union-attr]
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")

    async def put_many() -> None:
        for number in range(1000):
            await put(store, f"{number:01000d}", b"new")

    with pytest.raises(InternalError) as caught:
        await put_many()
    assert "SQLITE_FULL" in caught.value.cause
    assert "free space" in caught.value.cause
    writer.execute("PRAGMA max_page_count = 1000000")
    await put(store, "old", b"new")
    assert await get(store, "old") == b"new"
    listed = (await store.list_objects(ListQuery("bucket"))).objects
    await store.stop()
    assert len(data_files()) == len(listed)


async def test_read__file_gone_or_short__internal_error_naming_it(
    store: Store, data_files: Files
) -> None:
    data = os.urandom(reader.READ_AHEAD_BYTES + 1)
    await put(store, "key", data)
    (path,) = data_files()
    os.truncate(path, 10)
    opened = await store.open_object("bucket", "key", None)
    with pytest.raises(InternalError) as caught:
        await opened.read(0, len(data))
    assert str(path) in caught.value.cause
    await opened.close()
    path.unlink()
    with pytest.raises(InternalError) as caught:
        await store.open_object("bucket", "key", None)
    assert str(path) in caught.value.cause
    assert "gone" in caught.value.cause


async def test_open_object__small_and_short__internal_error_and_closed(
    store: Store, data_files: Files, open_files: Open
) -> None:
    await put(store, "key", b"data")
    os.truncate(data_files()[0], 1)
    with pytest.raises(InternalError):
        await store.open_object("bucket", "key", None)
    assert open_files() == []


async def test_extents__part_gone__internal_error_naming_it(
    store: Store, data_files: Files
) -> None:
    upload_id = await initiate(store, "k")
    bodies = (b"one", b"two")
    parts = [await put_part(store, "k", upload_id, n, body) for n, body in enumerate(bodies, 1)]
    await complete(store, "k", upload_id, parts)
    for path in data_files():
        if content(path) == b"two":
            path.unlink()
    opened = await store.open_object("bucket", "k", None)
    with pytest.raises(InternalError) as caught:
        opened.extents(0, 6)
    assert "something other than the gateway removed it" in caught.value.cause
    await opened.close()


async def test_check__disk_full__internal_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(InternalError) as caught:
        await store.check()
    assert "free space" in caught.value.cause


# Readers and removals


async def test_reader__multipart_deleted_while_open__files_go_at_close(
    store: Store, data_files: Files
) -> None:
    upload_id = await initiate(store, "k")
    parts = [await put_part(store, "k", upload_id, n, b"part") for n in (1, 2)]
    await complete(store, "k", upload_id, parts)
    first = await store.open_object("bucket", "k", None)
    second = await store.open_object("bucket", "k", None)
    await store.delete_object("bucket", "k", None)
    await asyncio.wrap_future(store._removals.submit(int))
    assert len(data_files()) == 2
    await first.close()
    await first.close()
    assert await second.read(0, 8) == b"partpart"
    await second.close()
    assert data_files() == []


async def test_open_object__replaced_all_the_time__always_whole(store: Store) -> None:
    async def keep_replacing() -> None:
        for number in range(60):
            if number % 2:
                await put(store, "k", b"%03d" % number * 30_000)
                continue
            upload_id = await initiate(store, "k")
            halves = [b"%03d" % number * 15_000] * 2
            parts = [await put_part(store, "k", upload_id, n, b) for n, b in enumerate(halves, 1)]
            await complete(store, "k", upload_id, parts)

    await put(store, "k", b"xyz" * 30_000)
    writing = asyncio.create_task(keep_replacing())
    while not writing.done():
        data = await get(store, "k")
        assert data == data[:3] * 30_000
    await writing


async def test_version__moved_between_the_tables_all_the_time__is_always_found(
    store: Store,
) -> None:
    await store.update_bucket("bucket", lambda info: replace(info, versioning=Versioning.ENABLED))
    upload_id = await initiate(store, "k")
    parts = [await put_part(store, "k", upload_id, n, b"part") for n in (1, 2)]
    kept = await complete(store, "k", upload_id, parts)

    async def hide_and_show() -> None:
        for _ in range(60):
            over = await put(store, "k", b"over")
            await store.delete_object("bucket", "k", over.version_id)

    moving = asyncio.create_task(hide_and_show())
    while not moving.done():
        found = await store.head_object("bucket", "k", kept.version_id)
        assert replace(found, latest=True) == kept
    await moving


async def test_put__refused_by_condition__file_goes(store: Store, data_files: Files) -> None:
    await put(store, "k", b"1")
    with raises(S3Code.PRECONDITION_FAILED):
        await put(store, "k", b"2", conditions=Conditions(if_none_match=("*",)))
    await store.stop()
    assert [content(path) for path in data_files()] == [b"1"]


# Cancellation and limits


async def test_commit_object__caller_cancelled__settled_all_the_same(
    store: Store, data_files: Files, open_files: Open
) -> None:
    tasks = [asyncio.create_task(put(store, f"k{n}", b"data")) for n in range(20)]
    taken = 0
    for task in tasks[1::2]:
        await asyncio.sleep(0)
        taken += task.cancel()  # False for one that is done already
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = [o for o in outcomes if isinstance(o, asyncio.CancelledError)]
    assert len(cancelled) == taken
    for number in range(0, 20, 2):
        assert await get(store, f"k{number}") == b"data"
    listed = (await store.list_objects(ListQuery("bucket"))).objects
    await store.stop()
    assert len(data_files()) == len(listed)
    assert open_files() == []


async def test_change__too_many_wait__busy(make_store: Any) -> None:
    store = make_store(max_pending_changes=1)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    outcomes = await asyncio.gather(
        *(put(store, f"k{n}", b"data") for n in range(200)), return_exceptions=True
    )
    refused = [o for o in outcomes if isinstance(o, GatewayError)]
    assert refused
    assert all(isinstance(error, BusyError) for error in refused)
    assert all("max_" in error.message for error in refused)
    listed = (await store.list_objects(ListQuery("bucket"))).objects
    assert len(listed) == 200 - len(refused)
    info = await put(store, "k", b"data")
    assert info.etag == etag(b"data")
