"""The one thread that changes the catalog; it groups what comes in together into one transaction.

A commit's price is the wait for the disk, and one wait serves all that stand in the queue: for the
names of their files, which mostly share a directory, and for the transaction. Each piece of work
has its own savepoint, so a failed condition undoes nothing of its neighbours'. Nobody is told of
success, and no file is removed, before COMMIT has returned.
"""

from __future__ import annotations

import queue
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Generic, TypeVar

from gateway.errors import BusyError, GatewayError, InternalError
from gateway.storage.catalog import Catalog
from gateway.storage.faults import database_fault
from gateway.storage.pieces import Dropped
from gateway.telemetry.catalogue import COMMIT_CHANGES, COMMIT_SECONDS, PENDING_CHANGES
from gateway.telemetry.measures import Distribution, Sample

GROUP_MAX = 128
"""How many pieces of work share one transaction at most."""

COMMIT_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
GROUP_BOUNDS = (1, 2, 4, 8, 16, 32, 64, GROUP_MAX)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """One change, and who waits for it.

    Attributes:
        apply: runs in the writer's thread, inside the transaction.
        done: running already, so that a caller who gives up can't cancel it half-way.
        shard: the directory of data files whose entries must be durable first.
    """

    apply: Callable[[Catalog], T]
    done: Future[T]
    shard: str | None = None


@dataclass(frozen=True, slots=True)
class _Applied:
    result: Any
    dropped: tuple[Dropped, ...]


_Outcome = _Applied | Exception


class UncertainError(InternalError):
    """COMMIT failed, and only the recovery at the next start tells whether it took effect.

    Until then nothing that the transaction names may be removed, and no change is accepted: after
    a failed fsync the kernel may report success for pages that it has dropped.
    """


def promise() -> Future[Any]:
    """A future for `Work.done`."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()
    return done


class Writer:
    """Owns the writing connection.

    Args:
        path: the database's, for messages.
        sync_directory: makes the entries of a shard durable. Raises InternalError.
        drop: takes the contents that a durable transaction let go of.
        pending_max: how much work may wait (`store.max_pending_changes`).
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        catalog: Catalog,
        sync_directory: Callable[[str], None],
        drop: Callable[[Iterable[Dropped]], object],
        pending_max: int,
    ) -> None:
        self._path = path
        self._db = connection
        self._catalog = catalog
        self._sync_directory = sync_directory
        self._drop = drop
        self._pending_max = pending_max
        self._broken: UncertainError | None = None
        self._took = Distribution(COMMIT_BOUNDS_S)
        self._sizes = Distribution(GROUP_BOUNDS)
        self._queue: queue.Queue[Work[Any] | None] = queue.Queue(pending_max)
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work[Any]) -> None:
        """Queue it; the future says how it went. Any thread."""
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            work.done.set_exception(
                BusyError(
                    f"{self._pending_max} changes wait for the disk (store.max_pending_changes)"
                )
            )

    def metrics(self) -> Iterator[Sample]:
        yield COMMIT_SECONDS.sample(self._took)
        yield COMMIT_CHANGES.sample(self._sizes)
        yield PENDING_CHANGES.sample(self._queue.qsize())

    def close(self) -> None:
        """Finish what is queued, then close the connection. Blocks; nothing may be submitted."""
        self._queue.put(None)
        self._thread.join()
        self._db.close()

    def _run(self) -> None:
        while group := self._next_group():
            begun_s = time.monotonic()
            outcomes = self._commit(group)
            self._took.observe(time.monotonic() - begun_s)
            self._sizes.observe(len(group))
            self._settle(group, outcomes)

    def _next_group(self) -> list[Work[Any]]:
        """Wait for work and take what else is there; empty at the end."""
        group: list[Work[Any]] = []
        work = self._queue.get()
        while work is not None:
            group.append(work)
            if len(group) == GROUP_MAX or self._queue.empty():
                return group
            work = self._queue.get_nowait()
        if group:
            self._queue.put_nowait(None)  # seen too early: the end comes after this group
        return group

    def _commit(self, works: Sequence[Work[Any]]) -> Sequence[_Outcome]:
        """Apply all in one transaction; where that fails as a whole, all have failed."""
        if self._broken is not None:
            return [self._broken] * len(works)
        unsynced = self._sync_names(works)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            outcomes = [unsynced.get(work.shard) or self._attempt(work) for work in works]
        except sqlite3.Error as error:
            self._roll_back()
            return [self._fault(error)] * len(works)
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            return [self._fail_commit(error)] * len(works)
        return outcomes

    def _sync_names(self, works: Sequence[Work[Any]]) -> dict[str | None, InternalError]:
        """Make the names of the files durable; which directories would not."""
        unsynced: dict[str | None, InternalError] = {}
        for shard in {work.shard for work in works if work.shard is not None}:
            try:
                self._sync_directory(shard)
            except InternalError as error:
                unsynced[shard] = error
        return unsynced

    def _fault(self, error: sqlite3.Error) -> GatewayError:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return BusyError("another gateway on this store is writing; its turn takes too long")
        return database_fault(self._path, error)

    def _fail_commit(self, error: sqlite3.Error) -> InternalError:
        """A full disk kept the transaction out; after any other failure it may be in or not."""
        fault = database_fault(self._path, error)
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_FULL:
            fault = self._broken = UncertainError(f"{fault.cause}; no more changes until a restart")
        self._roll_back()
        return fault

    def _attempt(self, work: Work[Any]) -> _Outcome:
        """Apply one under a savepoint. Raises sqlite3.Error where the transaction is lost."""
        self._db.execute("SAVEPOINT work")
        self._catalog.dropped.clear()
        outcome: _Outcome
        try:
            outcome = _Applied(work.apply(self._catalog), tuple(self._catalog.dropped))
        except Exception as error:  # it belongs to who asked, not to this thread
            if not self._db.in_transaction:  # SQLite rolls back by itself on a full disk
                raise
            self._db.execute("ROLLBACK TO work")
            outcome = error
        self._db.execute("RELEASE work")
        return outcome

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _settle(self, works: Sequence[Work[Any]], outcomes: Sequence[_Outcome]) -> None:
        """Let go of the files and answer."""
        dropped = [
            content
            for outcome in outcomes
            if isinstance(outcome, _Applied)
            for content in outcome.dropped
        ]
        if dropped:
            self._drop(dropped)
        for work, outcome in zip(works, outcomes, strict=True):
            match outcome:
                case _Applied(result):
                    work.done.set_result(result)
                case sqlite3.Error():
                    work.done.set_exception(database_fault(self._path, outcome))
                case _:
                    work.done.set_exception(outcome)
