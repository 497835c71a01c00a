"""The data files of the store: opaque names in 256 directories, written unnamed, linked when whole.

Layout of the root, which belongs to the gateway's user alone (directories 0700, files 0600)::

    catalog.db            which files are which objects (tables.py)
    lock                  the process that has the store open (lock.py)
    objects/ab/<name>ab   data files: 32 hex digits, in the directory of their last two
    staging/              where unnamed files live, or named ones where the file system has none
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gateway.config import Durability
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.rules import fresh_id

_NAME = re.compile(r"[0-9a-f]{32}")
_SHARDS = tuple(f"{number:02x}" for number in range(256))
_OPEN_STAGED = os.O_RDWR | os.O_CLOEXEC


class DataFiles:
    """Makes, publishes, opens, removes and sweeps data files. Any thread.

    Args:
        root: an existing directory.
        durability: FULL syncs a file's data and its directory, DATA the data only.
    """

    def __init__(self, root: Path, durability: Durability) -> None:
        self._objects = root / "objects"
        self._staging = root / "staging"
        self._durability = durability
        self._unnamed = True

    def prepare(self) -> None:
        """Make the directories and learn whether the file system knows O_TMPFILE."""
        with on_disk("preparing", self._objects.parent):
            shards = (self._objects / shard for shard in _SHARDS)
            for directory in (self._staging, self._objects, *shards):
                directory.mkdir(mode=0o700, exist_ok=True)
            if self._durability is Durability.FULL:
                _sync_directory(self._objects)
                _sync_directory(self._objects.parent)
            self._unnamed = self._can_link_unnamed()

    def _can_link_unnamed(self) -> bool:
        """O_TMPFILE needs the file system, linking it /proc (open(2)): try both."""
        name = self._staging / fresh_id(0)
        try:
            fd = os.open(self._staging, os.O_TMPFILE | _OPEN_STAGED, 0o600)
            try:
                _link_unnamed(fd, name)
            finally:
                os.close(fd)
            name.unlink()
        except OSError:
            return False
        return True

    def create(self, now_ns: int) -> tuple[int, str]:
        """A new file: (its descriptor, the name it will have)."""
        name = fresh_id(now_ns)
        with on_disk("creating a file in", self._staging):
            if self._unnamed:
                return os.open(self._staging, os.O_TMPFILE | _OPEN_STAGED, 0o600), name
            flags = os.O_CREAT | os.O_EXCL | _OPEN_STAGED
            return os.open(self._staging / name, flags, 0o600), name

    def publish(self, fd: int, name: str) -> None:
        """Sync the data, give the file its name, sync the directory: in this order.

        Raises InternalError; then the file has no name, or loses it with `remove`.
        """
        path = self.path(name)
        with on_disk("syncing", path):
            if self._durability is not Durability.NONE:
                os.fdatasync(fd)
            if self._unnamed:
                _link_unnamed(fd, path)
            else:
                (self._staging / name).rename(path)
            if self._durability is Durability.FULL:
                _sync_directory(path.parent)

    def open(self, name: str) -> int:
        """A readable descriptor. Raises FileNotFoundError where it is gone, else InternalError."""
        path = self.path(name)
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise disk_fault("opening", path, error) from error

    def remove(self, names: Iterable[str]) -> None:
        """Unlink, published or staged; what is gone already, or cannot go, the next sweep minds."""
        for name in names:
            for path in (self.path(name), self._staging / name):
                try:
                    path.unlink(missing_ok=True)
                except OSError:
                    continue

    def path(self, name: str) -> Path:
        return self._objects / name[-2:] / name

    def by_directory(self) -> Iterator[list[str]]:
        """The names of all data files, one directory at a time. Foreign names are left out."""
        for shard in _SHARDS:
            with on_disk("listing", self._objects / shard):
                names = os.listdir(self._objects / shard)
            yield [name for name in names if _NAME.fullmatch(name)]

    def is_empty(self) -> bool:
        """Whether there is no data file at all, so that a new catalog is no loss."""
        if not self._objects.exists():
            return True
        return not any(entry for entry in self._objects.glob("??/*") if _NAME.fullmatch(entry.name))

    def clear_staging(self) -> int:
        """Remove what a crash left half-written; how many files."""
        with on_disk("sweeping", self._staging):
            names = [name for name in os.listdir(self._staging) if _NAME.fullmatch(name)]
        self.remove(names)
        return len(names)

    def probe(self) -> None:
        """A real write, for the readiness check."""
        fd, name = self.create(0)
        try:
            with on_disk("writing", self._staging):
                os.pwrite(fd, b"\0", 0)
        finally:
            os.close(fd)
            self.remove((name,))


def _link_unnamed(fd: int, path: Path) -> None:
    """linkat(2) with AT_SYMLINK_FOLLOW: os.link uses it only when given a directory descriptor."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(f"/proc/self/fd/{fd}", path.name, dst_dir_fd=directory, follow_symlinks=True)
    finally:
        os.close(directory)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
