"""The writer's grouping: each piece of work on its own, nothing told before COMMIT."""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from storing import new_bucket

from gateway.config import Durability
from gateway.errors import BusyError, InternalError
from gateway.storage.catalog import Catalog
from gateway.storage.pieces import Dropped
from gateway.storage.schema import open_catalog
from gateway.storage.writer import UncertainError, Work, Writer, promise


class FailingConnection:
    """Passes everything on, except that COMMIT fails while `code` is set."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real
        self.code: int | None = None
        self.commits = 0

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            self.commits += 1
            if self.code is not None:
                error = sqlite3.OperationalError("as the test wants it")
                error.sqlite_errorcode = self.code
                error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
                raise error
        return self._real.execute(statement, *values)

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()


class Bench:
    """A writer on a real database, held at its first piece of work until `go`."""

    def __init__(self, path: Path, pending_max: int) -> None:
        self.connection = FailingConnection(open_catalog(path, Durability.NONE, lambda: True))
        self.dropped: list[Dropped] = []
        self.catalog = Catalog(self.connection, lambda: 1, 1)  # type: ignore[arg-type]
        self.writer = Writer(
            path,
            self.connection,
            self.catalog,
            self._sync_directory,
            self._drop,
            pending_max,  # type: ignore[arg-type]
        )
        self._path = path
        self.synced: list[str] = []
        self._gate = threading.Event()

    def _drop(self, dropped: Iterable[Dropped]) -> None:
        self.dropped.extend(dropped)

    def _sync_directory(self, shard: str) -> None:
        if shard == "ff":
            raise InternalError("as the test wants it")
        self.synced.append(shard)

    def submit(self, apply: Any, shard: str | None = None) -> Any:
        work: Work[Any] = Work(apply, promise(), shard)
        self.writer.submit(work)
        return work.done

    def hold(self) -> Any:
        """Block the thread inside a piece of work, so that what follows queues up."""
        entered = threading.Event()

        def wait(_: Catalog) -> None:
            entered.set()
            self._gate.wait(10)

        done = self.submit(wait)
        entered.wait(10)
        return done

    def go(self) -> None:
        self._gate.set()

    def buckets(self) -> list[str]:
        with sqlite3.connect(self._path) as connection:
            rows = connection.execute("SELECT name FROM buckets ORDER BY name").fetchall()
        connection.close()
        return [name for (name,) in rows]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "catalog.db", pending_max=8)
    yield made
    made.go()
    made.writer.close()


def make(name: str) -> Any:
    return lambda catalog: catalog.create_bucket(new_bucket(name))


def test_writer__work_that_queued_up__one_commit_for_all(bench: Bench) -> None:
    bench.hold()
    dones = [bench.submit(make(f"b{n}")) for n in range(5)]
    bench.go()
    assert [done.result(10).name for done in dones] == ["b0", "b1", "b2", "b3", "b4"]
    assert bench.connection.commits == 2


def test_writer__one_fails__its_neighbours_stand(bench: Bench) -> None:
    def fail(catalog: Catalog) -> None:
        catalog.create_bucket(new_bucket("half"))
        catalog.dropped.append(Dropped("half", ("file",)))
        raise ZeroDivisionError

    bench.hold()
    before, failed, after = bench.submit(make("b0")), bench.submit(fail), bench.submit(make("b1"))
    bench.go()
    before.result(10)
    after.result(10)
    assert isinstance(failed.exception(10), ZeroDivisionError)
    assert bench.buckets() == ["b0", "b1"]
    assert bench.dropped == []


def test_writer__names_of_one_directory__one_sync_for_all_before_the_commit(bench: Bench) -> None:
    bench.hold()
    dones = [bench.submit(make(f"b{n}"), shard) for n, shard in enumerate(["00", "01", "00"])]
    bench.go()
    for done in dones:
        done.result(10)
    assert sorted(bench.synced) == ["00", "01"]


def test_writer__a_directory_cannot_be_synced__its_works_fail_alone(bench: Bench) -> None:
    bench.hold()
    good, bad = bench.submit(make("b0"), "00"), bench.submit(make("b1"), "ff")
    bench.go()
    good.result(10)
    assert isinstance(bad.exception(10), InternalError)
    assert bench.buckets() == ["b0"]


def test_writer__another_process_writes_for_too_long__busy(bench: Bench, tmp_path: Path) -> None:
    bench.submit(make("b0")).result(10)
    bench.connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert isinstance(bench.submit(make("b1")).exception(10), BusyError)
    other.execute("ROLLBACK")
    other.close()
    bench.submit(make("b2")).result(10)
    assert bench.buckets() == ["b0", "b2"]


def test_writer__bad_sql__internal_error_for_its_owner_only(bench: Bench) -> None:
    bench.hold()
    bad = bench.submit(lambda _: bench.connection.execute("SELECT * FROM absent"))
    good = bench.submit(make("b0"))
    bench.go()
    assert isinstance(bad.exception(10), InternalError)
    assert good.result(10).name == "b0"


def test_writer__commit_meets_a_full_disk__all_refused_then_works(bench: Bench) -> None:
    bench.connection.code = sqlite3.SQLITE_FULL
    error = bench.submit(make("b0")).exception(10)
    assert isinstance(error, InternalError)
    assert not isinstance(error, UncertainError)
    bench.connection.code = None
    bench.submit(make("b1")).result(10)
    assert bench.buckets() == ["b1"]


def test_writer__commit_cannot_sync__uncertain_and_closed_until_a_restart(bench: Bench) -> None:
    def drop(catalog: Catalog) -> None:
        catalog.dropped.append(Dropped("old", ("file",)))

    bench.connection.code = sqlite3.SQLITE_IOERR_FSYNC
    assert isinstance(bench.submit(drop).exception(10), UncertainError)
    bench.connection.code = None
    later = bench.submit(make("b1")).exception(10)
    assert isinstance(later, UncertainError)
    assert "until a restart" in later.cause
    assert bench.dropped == []
    assert bench.buckets() == []


def test_writer__queue_full__busy_and_the_rest_is_done(bench: Bench) -> None:
    bench.hold()
    dones = [bench.submit(make(f"b{n}")) for n in range(9)]
    assert isinstance(dones[8].exception(0), BusyError)
    bench.go()
    assert [done.result(10).name for done in dones[:8]] == [f"b{n}" for n in range(8)]


def test_close__work_queued__finished_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "catalog.db", pending_max=8)
    bench.hold()
    dones = [bench.submit(make(f"b{n}")) for n in range(3)]
    closing = threading.Thread(target=bench.writer.close)
    closing.start()
    bench.go()
    closing.join(10)
    assert all(done.done() for done in dones)
    assert bench.buckets() == ["b0", "b1", "b2"]
