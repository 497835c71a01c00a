"""Ahead: of a long file, stretch after stretch is summed and begun to be written while it comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest
from storing import draft, get, new_bucket

from gateway.config import Durability, StoreConfig, TreeConfig
from gateway.errors import InternalError
from gateway.storage import blocks, writeback
from gateway.storage.ahead import STRETCH_BYTES, Ahead
from gateway.storage.fsck import check
from gateway.storage.port import Staged, Storage
from gateway.storage.store import Store
from gateway.storage.tree.storage import TreeStorage

WAIT_S = 10.0
WRITE_AND_GO_ON = 2  # SYNC_FILE_RANGE_WRITE
PIECE = bytes(range(256)) * (STRETCH_BYTES // 512)  # half a stretch


@dataclass
class Worker:
    """What is done ahead: it says what it is asked for, and may be held up."""

    asked: SimpleQueue[tuple[int, int]] = field(default_factory=SimpleQueue)
    permits: SimpleQueue[None] = field(default_factory=SimpleQueue)
    error: OSError | None = None

    def work(self, fd: int, offset_bytes: int, length_bytes: int) -> bytes:
        self.asked.put((offset_bytes // STRETCH_BYTES, length_bytes // STRETCH_BYTES))
        self.permits.get(timeout=WAIT_S)
        if self.error is not None:
            raise self.error
        return b"%d+%d " % (offset_bytes // STRETCH_BYTES, length_bytes // STRETCH_BYTES)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def ahead(executor: ThreadPoolExecutor, worker: Worker) -> Ahead:
    return Ahead(-1, executor, worker.work)


def rest(executor: ThreadPoolExecutor) -> None:
    """Return when its only thread has nothing to do."""
    executor.submit(int).result(WAIT_S)


def test_reach__short_of_a_stretch__nothing(ahead: Ahead, worker: Worker) -> None:
    ahead.reach(STRETCH_BYTES - 1)
    assert ahead.end() == b""
    assert worker.asked.empty()


def test_reach__work_is_slow__one_call_at_a_time_and_nothing_left_out(
    ahead: Ahead, worker: Worker, executor: ThreadPoolExecutor
) -> None:
    for stretches in (1, 2, 3):
        ahead.reach(stretches * STRETCH_BYTES + 1)
    assert worker.asked.get(timeout=WAIT_S) == (0, 1)
    assert worker.asked.empty()
    worker.permits.put(None)
    rest(executor)
    ahead.reach(4 * STRETCH_BYTES + 1)
    worker.permits.put(None)
    assert worker.asked.get(timeout=WAIT_S) == (1, 3)
    assert ahead.end() == ahead.end() == b"0+1 1+3 "


def test_end__a_call_waits_for_a_thread__it_never_runs(
    ahead: Ahead, worker: Worker, executor: ThreadPoolExecutor
) -> None:
    executor.submit(worker.permits.get, timeout=WAIT_S)
    ahead.reach(STRETCH_BYTES)
    assert ahead.end() == b""  # from a thread of the same executor it would wait for itself
    worker.permits.put(None)
    rest(executor)
    assert worker.asked.empty()


def test_reach__a_call_has_failed__no_other_and_what_was_done_counts(
    ahead: Ahead, worker: Worker, executor: ThreadPoolExecutor
) -> None:
    for worker.error in (None, OSError("no such luck"), None):
        worker.permits.put(None)
        ahead.reach(worker.asked.qsize() * STRETCH_BYTES + STRETCH_BYTES)
        rest(executor)
    assert ahead.end() == b"0+1 "
    assert worker.asked.qsize() == 2


def make(kind: str, root: Path, durability: Durability) -> Storage:
    if kind == "tree":
        return TreeStorage(TreeConfig(root=root, durability=durability), "us-east-1")
    return Store(StoreConfig(root=root / "store", durability=durability))


async def staged(storage: Storage, pieces: int) -> Staged:
    """So much of `PIECE`, in a started storage's bucket."""
    await storage.start()
    await storage.create_bucket(new_bucket("bucket"))
    staged = await storage.stage("bucket", pieces * len(PIECE))
    for _ in range(pieces):
        await staged.write(PIECE)
    return staged


@pytest.mark.parametrize("durability", Durability, ids=lambda durability: durability.value)
@pytest.mark.parametrize("kind", ["store", "tree"])
async def test_write__long_object__on_its_way_to_the_disk_where_the_commit_syncs(
    kind: str, durability: Durability, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: SimpleQueue[tuple[int, ...]] = SimpleQueue()
    real = writeback._sync_file_range

    def sync_file_range(fd: int, *arguments: int) -> int:
        begun.put((os.fstat(fd).st_ino, *arguments, done := real(fd, *arguments)))
        return int(done)

    monkeypatch.setattr(writeback, "_sync_file_range", sync_file_range)
    storage = make(kind, tmp_path, durability)
    new = await staged(storage, 3)
    descriptor = new.fileno()
    assert descriptor is not None
    if durability is not Durability.NONE:
        expected = (os.fstat(descriptor).st_ino, 0, STRETCH_BYTES, WRITE_AND_GO_ON, 0)
        assert begun.get(timeout=WAIT_S) == expected
    await storage.commit_object(new, "bucket", "key", draft(3 * PIECE))
    assert await get(storage, "key") == 3 * PIECE
    await storage.stop()
    assert begun.empty()


@pytest.mark.parametrize("fails", [False, True], ids=["well", "the-early-one-fails"])
async def test_write__long_object_of_the_store__each_block_is_summed_once(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: SimpleQueue[tuple[int, int]] = SimpleQueue()
    real = blocks.file_sums

    def file_sums(fd: int, end_bytes: int, start_bytes: int = 0) -> bytes:
        summed.put((start_bytes, end_bytes))
        if fails and end_bytes == STRETCH_BYTES:
            raise OSError("unreadable for a moment")
        return real(fd, end_bytes, start_bytes)

    monkeypatch.setattr(blocks, "file_sums", file_sums)
    store = make("store", tmp_path, Durability.FULL)
    new = await staged(store, 3)
    assert summed.get(timeout=WAIT_S) == (0, STRETCH_BYTES)
    await store.commit_object(new, "bucket", "key", draft(3 * PIECE))
    late_from = 0 if fails else STRETCH_BYTES
    assert summed.get(timeout=WAIT_S) == (late_from, 3 * len(PIECE))
    assert summed.empty()
    assert await get(store, "key") == 3 * PIECE
    await store.stop()
    assert check(tmp_path / "store").exit_code == 0


@pytest.mark.parametrize("kind", ["store", "tree"])
@pytest.mark.parametrize("end", ["commit", "refused", "discard"])
async def test_file__however_it_ends__open_while_a_call_may_run(
    kind: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    real = Ahead.end

    def still_open(self: Ahead) -> bytes:
        ended.append(os.fstat(self._fd).st_ino)
        return real(self)

    storage = make(kind, tmp_path, Durability.FULL)
    new = await staged(storage, 2)
    descriptor = new.fileno()
    assert descriptor is not None
    inode = os.fstat(descriptor).st_ino
    monkeypatch.setattr(Ahead, "end", still_open)
    match end:
        case "commit":
            await storage.commit_object(new, "bucket", "key", draft(2 * PIECE))
        case "refused":
            with pytest.raises(InternalError):
                await storage.commit_object(new, "bucket", "key", draft(PIECE))
        case "discard":
            await new.discard()
    assert set(ended) == {inode}
    await storage.stop()
