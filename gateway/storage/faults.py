"""A disk's or a database's refusal as an InternalError that names the place and the remedy."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.errors import InternalError

_REMEDIES = {
    errno.ENOSPC: "free space on that file system, or move the storage to a larger one",
    errno.EDQUOT: "raise the disk quota of the gateway's user, or move the storage",
    errno.EIO: "the disk reports a failure: see the kernel's log, restore from a replica",
    errno.EROFS: "the file system is read-only: remount it read-write",
    errno.EACCES: "give the gateway's user the right to read and write there",
    errno.EMFILE: "raise the limit on open files (ulimit -n, LimitNOFILE=)",
    errno.ENFILE: "raise the system's limit on open files (fs.file-max)",
    errno.ENOENT: "a data file is gone: something other than the gateway removed it",
}


def disk_fault(action: str, path: Path, error: OSError) -> InternalError:
    """`action` is a gerund: "writing", "syncing", "opening"."""
    remedy = _REMEDIES.get(error.errno or 0, "see the kernel's log")
    return InternalError(f"{action} {path}: {error.strerror or error}; {remedy}")


@contextmanager
def on_disk(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an InternalError."""
    try:
        yield
    except OSError as error:
        raise disk_fault(action, path, error) from error


def database_fault(path: Path, error: sqlite3.Error) -> InternalError:
    """An sqlite3 error, by SQLite's own name of it (https://www.sqlite.org/rescode.html)."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if name.startswith("SQLITE_FULL"):
        remedy = _REMEDIES[errno.ENOSPC]
    elif name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        remedy = "it is damaged: stop the gateway and restore it from a backup"
    elif name.startswith("SQLITE_IOERR"):
        remedy = _REMEDIES[errno.EIO]
    elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        remedy = _REMEDIES[errno.EACCES]
    else:
        remedy = "see SQLite's result codes"
    return InternalError(f"database {path}: {name}: {error}; {remedy}")


@contextmanager
def in_database(path: Path) -> Iterator[None]:
    """Turn an sqlite3 error of the block into an InternalError."""
    try:
        yield
    except sqlite3.Error as error:
        raise database_fault(path, error) from error
