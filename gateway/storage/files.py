"""The data files of the store: opaque names in 256 directories, written unnamed, linked when whole.

Layout of the root, which belongs to the gateway's user alone (directories 0700, files 0600)::

    catalog.db            which files are which objects (tables.py)
    lock                  held by the processes that have the store open (lock.py)
    generation            tells them that a bucket changed (bucket_cache.py)
    objects/ab/<name>ab   data files: 32 hex digits, in the directory of their last two
    staging/              where unnamed files live, or named ones where the file system has none
    lost+found/           what fsck found that no row names
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from gateway.config import Durability
from gateway.storage import blocks
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.rules import fresh_id
from gateway.storage.staged import write_all
from gateway.storage.unnamed import can_link_unnamed, link_unnamed
from gateway.storage.writeback import begin_writeback

_NAME = re.compile(r"[0-9a-f]{32}")
_SHARDS = tuple(f"{number:02x}" for number in range(256))
SHARD_RUN = 256
"""How many new files go into one directory before the next one's turn: files that are published
together share a directory, and so the wait for its entries to reach the disk."""
_OPEN_STAGED = os.O_RDWR | os.O_CLOEXEC


class DataFiles:
    """Makes, publishes, opens, removes and sweeps data files. Any thread.

    Args:
        root: an existing directory.
        durability: FULL and DATA sync a file's data; FULL its directory, too.
    """

    def __init__(self, root: Path, durability: Durability) -> None:
        self._objects = root / "objects"
        self._staging = root / "staging"
        self._durability = durability
        self._syncs_data = durability is not Durability.NONE
        self._unnamed = True
        self._since_ns = 0
        self._made = count(secrets.randbelow(len(_SHARDS)) * SHARD_RUN)

    def name_from(self, since_ns: int) -> None:
        """Names given from now on are of this time or later, whatever the clock says."""
        self._since_ns = since_ns

    def prepare(self) -> None:
        """Make the directories and learn whether the file system knows O_TMPFILE."""
        with on_disk("preparing", self._objects.parent):
            for directory in (self._staging, self._objects):
                directory.mkdir(mode=0o700, exist_ok=True)
            for shard in sorted(set(_SHARDS) - set(os.listdir(self._objects))):
                (self._objects / shard).mkdir(mode=0o700, exist_ok=True)
            if self._durability is Durability.FULL:
                sync_directory(self._objects)
                sync_directory(self._objects.parent)
            with _opened(self._staging) as staging:
                self._unnamed = can_link_unnamed(staging)

    def create(self, now_ns: int) -> tuple[int, str]:
        """A new file: (its descriptor, the name it will have)."""
        name = self._fresh_name(now_ns)
        with on_disk("creating a file in", self._staging):
            if self._unnamed:
                return os.open(self._staging, os.O_TMPFILE | _OPEN_STAGED, 0o600), name
            flags = os.O_CREAT | os.O_EXCL | _OPEN_STAGED
            return os.open(self._staging / name, flags, 0o600), name

    def _fresh_name(self, now_ns: int) -> str:
        shard = _SHARDS[next(self._made) // SHARD_RUN % len(_SHARDS)]
        return fresh_id(max(now_ns, self._since_ns))[: -len(shard)] + shard

    def early(self, fd: int, offset_bytes: int, length_bytes: int) -> bytes:
        """Sum whole blocks that have come, and begin to write them. Raises OSError."""
        if self._syncs_data:
            begin_writeback(fd, offset_bytes, length_bytes)
        return blocks.file_sums(fd, offset_bytes + length_bytes, offset_bytes)

    def publish(self, fd: int, name: str, early_sums: bytes = b"") -> None:
        """Put the sums behind the data, sync both, and give the file its name.

        `sync_directory` then makes the name durable.

        Args:
            fd: what `create` gave, with all the data.
            name: likewise.
            early_sums: of the first blocks, as `early` gave them.

        Raises InternalError; then the file has no name, or loses it with `remove`.
        """
        path = self.path(name)
        with on_disk("summing", path):
            size_bytes = os.fstat(fd).st_size
            late_sums = blocks.file_sums(fd, size_bytes, blocks.summed_by(early_sums))
            write_all(fd, memoryview(early_sums + late_sums), size_bytes)
        with on_disk("syncing", path):
            if self._syncs_data:
                os.fdatasync(fd)
            if self._unnamed:
                with _opened(path.parent) as directory:
                    link_unnamed(fd, directory, path.name)
            else:
                (self._staging / name).rename(path)

    def sync_directory(self, shard: str) -> None:
        """Make the names of that directory durable, where that is asked for. Raises InternalError.

        Args:
            shard: the last two digits of the names.
        """
        if self._durability is Durability.FULL:
            with on_disk("syncing", self._objects / shard):
                sync_directory(self._objects / shard)

    def sync_all(self) -> None:
        """Make the names of all directories durable. Raises InternalError."""
        for shard in _SHARDS:
            self.sync_directory(shard)

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
        return self._objects / shard_of(name) / name

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

    def staged(self) -> list[str]:
        """What a crash left half-written, if nobody else is writing."""
        with on_disk("sweeping", self._staging):
            return [name for name in os.listdir(self._staging) if _NAME.fullmatch(name)]

    def probe(self) -> None:
        """A real write, for the readiness check."""
        fd, name = self.create(0)
        try:
            with on_disk("writing", self._staging):
                os.pwrite(fd, b"\0", 0)
        finally:
            os.close(fd)
            self.remove((name,))


def shard_of(name: str) -> str:
    """The directory of a data file."""
    return name[-2:]


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    with _opened(path) as directory:
        os.fsync(directory)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
