"""An online backup: a second directory that is a store, as the first one was at one moment.

Data files never change once they are named, so hard links to them are a copy; where the target is
on another file system they are copied. All the gateways go on meanwhile: first every file is taken
that a snapshot of the catalog names, again and again until few are new; then, for the moment in
which the last ones are taken, no change is committed, so that no file can go that the backup's own
catalog will name.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage.faults import in_database, on_disk
from gateway.storage.files import DataFiles, sync_directory
from gateway.storage.lock import StoreLock
from gateway.storage.schema import connect
from gateway.storage.sweep import orphans

ROUNDS_MAX = 8
FEW_FILES = 256
"""So many may be left for the moment in which no change is committed."""

_CATALOG = "catalog.db"
_OWN = (_CATALOG, "lock", "generation")
"""What each store makes for itself; other plain files beside them (keys) are part of a backup."""

_FILES = "SELECT file FROM pieces WHERE file IS NOT NULL"
_NEW_FILES = (
    "SELECT file FROM main.pieces WHERE file IS NOT NULL "
    "AND file NOT IN (SELECT file FROM earlier.pieces WHERE file IS NOT NULL)"
)


@dataclass(slots=True)
class Saved:
    """What a backup took.

    Attributes:
        linked / copied: data files.
        missing: data files that the store's catalog names but that are gone: see fsck.
    """

    linked: int = 0
    copied: int = 0
    missing: int = 0

    @property
    def files(self) -> int:
        return self.linked + self.copied


Progress = Callable[[Saved], None]


def backup(
    root: Path, target: Path, *, progress: Progress = lambda _: None, wait_s: float = 30.0
) -> Saved:
    """Make `target` a store like the one in `root`. Blocks; gateways may use `root` meanwhile.

    Args:
        root: of the store.
        target: a directory that is empty or not there yet.
        progress: called after each data file.
        wait_s: for a gateway that is starting.

    Raises:
        InternalError: no store, a target that is not empty, or a disk that fails.
    """
    if not (root / _CATALOG).exists():
        raise InternalError(f"there is no store in {root}: {_CATALOG} is not there")
    with on_disk("making", target):
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise InternalError(f"{target} is not empty: name a new directory")
    with _shared(root, wait_s), in_database(root / _CATALOG):
        taking = _Backup(root, target, progress)
        taking.take()
        return taking.saved


@contextmanager
def _shared(root: Path, wait_s: float) -> Iterator[None]:
    """Let gateways come and go, but nobody who wants the store alone."""
    lock = StoreLock(root / "lock")
    try:
        if lock.acquire(time.time_ns(), wait_s):
            lock.share()
        yield
    finally:
        lock.release()


class _Backup:
    def __init__(self, root: Path, target: Path, progress: Progress) -> None:
        self._root = root
        self._target = target
        self._progress = progress
        self._source = DataFiles(root, Durability.FULL)
        self._copy = DataFiles(target, Durability.FULL)
        self._early = target / "catalog.earlier"
        self.saved = Saved()

    def take(self) -> None:
        """All of it, and durable."""
        self._copy.prepare()
        for _ in range(ROUNDS_MAX):
            before = self.saved.files
            self._take_what_is_there()
            if self.saved.files - before <= FEW_FILES:
                break
        self._take_the_rest()
        self._take_plain_files()
        self._finish()

    def _take_what_is_there(self) -> None:
        """A round beside running gateways: the catalog, then its files, of which some may go."""
        self._early.unlink(missing_ok=True)
        with closing(self._reader()) as db:
            _save(db, self._early)
        with closing(sqlite3.connect(self._early)) as db:
            self._take_files(file for (file,) in db.execute(_FILES))

    def _take_the_rest(self) -> None:
        """The state that the backup has: its new files are taken while nothing is committed."""
        with closing(self._reader()) as db:
            db.execute("ATTACH ? AS earlier", (str(self._early),))
            with closing(connect(self._root / _CATALOG, Durability.FULL)) as stopped:
                stopped.execute("BEGIN IMMEDIATE")
                try:
                    db.execute("BEGIN")
                    self._take_files(file for (file,) in db.execute(_NEW_FILES))
                finally:
                    stopped.execute("ROLLBACK")
            _save(db, self._target / _CATALOG)

    def _take_files(self, names: Iterable[str]) -> None:
        for name in names:
            self._take_file(name)
            self._progress(self.saved)

    def _take_file(self, name: str) -> None:
        source, copy = self._source.path(name), self._copy.path(name)
        with on_disk("taking", source):
            try:
                os.link(source, copy)
                self.saved.linked += 1
            except (FileExistsError, FileNotFoundError):
                return  # taken before, or replaced meanwhile; what is missing in the end is counted
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                    raise
                _copy_file(source, copy)
                self.saved.copied += 1

    def _take_plain_files(self) -> None:
        """Keys and whatever else lies beside the catalog, for the backup to serve as it is."""
        for path in self._root.iterdir():
            if path.is_file() and not path.name.startswith(_OWN):
                with on_disk("taking", path):
                    _copy_file(path, self._target / path.name)

    def _finish(self) -> None:
        """Remove what only an earlier round knew, and make all names durable."""
        with closing(connect(self._target / _CATALOG, Durability.FULL)) as db:
            for names in orphans(db, self._copy):
                self._copy.remove(names)
            taken = (self._copy.path(file).exists() for (file,) in db.execute(_FILES))
            self.saved.missing = sum(not there for there in taken)
        self._early.unlink()
        self._copy.sync_all()
        with on_disk("syncing", self._target):
            sync_directory(self._target)
            sync_directory(self._target.parent)

    def _reader(self) -> sqlite3.Connection:
        return connect(self._root / _CATALOG, Durability.FULL, read_only=True)


def _save(db: sqlite3.Connection, target: Path) -> None:
    """Write the catalog as `db` sees it: of the transaction that is open, or of now."""
    with on_disk("making", target):
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(target)) as copy:
        db.backup(copy)


def _copy_file(source: Path, target: Path) -> None:
    """Bytes of their own, synced, for the owner alone. Raises OSError."""
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as copy, source.open("rb") as original:
        shutil.copyfileobj(original, copy, 1024 * 1024)
        copy.flush()
        os.fsync(copy.fileno())
