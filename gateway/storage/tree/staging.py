"""Files that no key names yet, in a directory of this process's own.

A file has no name at all until it is whole (O_TMPFILE, where the file system has it), then one in
the staging directory; from there it is moved to its key in one step. The directory belongs to a
process that holds a lock of its name, so that what a dead one left is told from what a living one
on another host is writing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage.faults import on_disk
from gateway.storage.rules import fresh_id
from gateway.storage.staged import write_all
from gateway.storage.tree.directories import make_directory, names_in, remove_file, remove_tree
from gateway.storage.tree.locks import Locks
from gateway.storage.unnamed import can_link_unnamed, link_unnamed, open_named, open_unnamed
from gateway.storage.writeback import begin_writeback

_STAGING = b"staging"
_LOCK = "staging"
_MODE = 0o666
"""Objects are files for other programs, too: the process's umask says which may read them."""


class Staging:
    """Makes files, gives them their first name, moves them on. Any thread.

    Args:
        meta: descriptor of the gateway's own directory.
        path: its path, for error texts.
        locks: common to all gateways.
        durability: FULL and DATA sync a file before it is named.

    Raises:
        OSError: the directory can't be made.
    """

    def __init__(self, meta: int, path: Path, locks: Locks, durability: Durability) -> None:
        self._instance = fresh_id(0)
        self._path = path / _STAGING.decode() / self._instance
        self._locks = locks
        self._durability = durability
        self._syncs_data = durability is not Durability.NONE
        locks.try_keep(_LOCK, self._instance)  # 64 random bits: nobody else has the name
        self._all = make_directory(meta, _STAGING)
        self.fd = make_directory(self._all, self._instance.encode())
        self._unnamed = can_link_unnamed(self.fd)

    def path(self, name: str) -> Path:
        return self._path / name

    def create(self) -> tuple[int, str]:
        """A new file: (its descriptor, the name it will have here). Raises InternalError."""
        name = fresh_id(0)
        with on_disk("creating a file in", self._path):
            if self._unnamed:
                return open_unnamed(self.fd, _MODE), name
            return open_named(self.fd, name, _MODE), name

    def early(self, fd: int, offset_bytes: int, length_bytes: int) -> bytes:
        """Begin to write what has come."""
        if self._syncs_data:
            begin_writeback(fd, offset_bytes, length_bytes)
        return b""

    def publish(self, fd: int, name: str) -> None:
        """Make it durable and give it its name here: one that `move` and `link` know.

        The data and the attributes are synced alike: what the file means is in the latter.
        """
        with on_disk("syncing a file in", self._path):
            if self._syncs_data:
                os.fsync(fd)
            if self._unnamed:
                link_unnamed(fd, self.fd, name)

    def move(self, name: str, directory: int, target: bytes) -> None:
        """Put it in the place of whatever file is there. Raises OSError."""
        os.rename(name, target, src_dir_fd=self.fd, dst_dir_fd=directory)

    def link(self, name: str, directory: int, target: bytes) -> None:
        """Put it where nothing is; it keeps its name here, too. Raises OSError (EEXIST)."""
        os.link(name, target, src_dir_fd=self.fd, dst_dir_fd=directory, follow_symlinks=False)

    def remove(self, names: Iterable[str]) -> None:
        """Unlink; what cannot go now, the next start removes."""
        for name in names:
            try:
                remove_file(self.fd, name.encode())
            except OSError:
                continue

    def write(self, directory: int, target: bytes, data: bytes) -> None:
        """Put a small file in the place of whatever is there. Raises InternalError."""
        fd, name = self.create()
        try:
            with on_disk("writing", self.path(name)):
                write_all(fd, memoryview(data), 0)
            self.publish(fd, name)
            with on_disk("naming", self.path(name)):
                self.move(name, directory, target)
                self.sync(directory)
        except InternalError:
            self.remove((name,))
            raise
        finally:
            os.close(fd)

    @property
    def syncs_names(self) -> bool:
        """Whether names have to be durable, and not only bytes."""
        return self._durability is Durability.FULL

    def sync(self, directory: int) -> None:
        """Make its names durable, where that is asked for. Raises OSError."""
        if self.syncs_names:
            os.fsync(directory)

    def sweep(self) -> int:
        """Remove what dead processes left; how many of them. Raises OSError."""
        swept = 0
        for name in names_in(self._all):
            owner = name.decode("ascii", "replace")
            if owner == self._instance or not self._locks.try_keep(_LOCK, owner):
                continue
            remove_tree(self._all, name)
            self._locks.give_back(_LOCK, owner)
            swept += 1
        return swept

    def close(self) -> None:
        """Remove the directory and what is in it; its lock goes with `locks`."""
        with on_disk("removing", self._path):
            remove_tree(self._all, self._instance.encode())
        os.close(self.fd)
        os.close(self._all)
