"""Opening the catalog: the one SQLite database that says which data files are which objects.

What is in it: tables.py. A catalog of an older gateway is brought up to date in one transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage.faults import in_database, on_disk
from gateway.storage.tables import MIGRATIONS, SCHEMA_VERSION, TABLES

APPLICATION_ID = (
    0x53335244  # "S3RD", in the database's header (https://www.sqlite.org/fileformat2.html)
)
_BUSY_TIMEOUT_MS = 10_000
_WAL_LIMIT_BYTES = 64 * 1024**2

_SYNCHRONOUS = {Durability.FULL: "FULL", Durability.DATA: "NORMAL", Durability.NONE: "OFF"}


def connect(path: Path, durability: Durability, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with explicit transactions, for one thread at a time.

    It may be closed from another thread, hence check_same_thread=False.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_MS / 1000
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return connection


def open_catalog(
    path: Path, durability: Durability, may_be_new: Callable[[], bool]
) -> sqlite3.Connection:
    """Open the catalog for writing; make it where there is none.

    Args:
        path: of the database; its directory exists.
        durability: what COMMIT waits for.
        may_be_new: whether the store holds no data. A new catalog beside old data would make the
            sweep remove all of it.

    Raises:
        InternalError: lost, damaged, made by something else, or by a newer gateway.
    """
    if not path.exists() and not may_be_new():
        raise _lost(path)
    with on_disk("opening", path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with in_database(path):
        connection = connect(path, durability)
        try:
            _migrate(connection, path, may_be_new)
        except BaseException:
            connection.close()
            raise
    return connection


def _lost(path: Path) -> InternalError:
    return InternalError(
        f"{path} is missing or empty, but the directory beside it holds data files: "
        "restore the catalog from a backup, or choose another store.root"
    )


def _migrate(connection: sqlite3.Connection, path: Path, may_be_new: Callable[[], bool]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables == 0:
        if not may_be_new():
            raise _lost(path)
        connection.executescript(
            f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
        return
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise InternalError(f"{path} is another program's database: choose another store.root")
    if version not in (*MIGRATIONS, SCHEMA_VERSION):
        raise InternalError(
            f"{path} has schema {version}, this gateway knows {SCHEMA_VERSION}: "
            "run the version that made it, or a newer one"
        )
    for older in range(version, SCHEMA_VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE; {MIGRATIONS[older]} PRAGMA user_version = {older + 1}; COMMIT;"
        )
