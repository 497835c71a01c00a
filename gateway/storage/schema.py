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
_CHECKPOINT_PAGES = 4096
"""16 MiB of log between two checkpoints: each waits for the disk twice, and small objects pass
through the log."""

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
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return connection


def open_catalog(
    path: Path, durability: Durability, may_be_new: Callable[[], bool], *, alone: bool = True
) -> sqlite3.Connection:
    """Open the catalog for writing; make it where there is none.

    Args:
        path: of the database; its directory exists.
        durability: what COMMIT waits for.
        may_be_new: whether the store holds no data. A new catalog beside old data would make the
            sweep remove all of it.
        alone: whether nobody else has it open, so that it may be made or migrated.

    Raises:
        InternalError: lost, damaged, made by something else, or by a newer gateway; in use by an
            older one.
    """
    if not path.exists() and not may_be_new():
        raise _lost(path)
    if not path.exists():
        # For its mode. Never an existing one: closing it would end SQLite's own locks on it, if
        # this process has it open (https://www.sqlite.org/howtocorrupt.html, section 2.2).
        with on_disk("making", path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with in_database(path):
        connection = connect(path, durability)
        try:
            _migrate(connection, path, may_be_new, alone=alone)
        except BaseException:
            connection.close()
            raise
    return connection


def _lost(path: Path) -> InternalError:
    return InternalError(
        f"{path} is missing or empty, but the directory beside it holds data files: "
        "restore the catalog from a backup, or choose another store.root"
    )


def _migrate(
    connection: sqlite3.Connection, path: Path, may_be_new: Callable[[], bool], *, alone: bool
) -> None:
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
    if version != SCHEMA_VERSION and not alone:
        raise InternalError(
            f"{path} has schema {version} and is in use: stop the gateways that use it, so that "
            f"this one can bring it to schema {SCHEMA_VERSION}"
        )
    for older in range(version, SCHEMA_VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE; {MIGRATIONS[older]} PRAGMA user_version = {older + 1}; COMMIT;"
        )
