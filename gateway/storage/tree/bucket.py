"""A bucket's directory: its files opened, its directories made and removed on a key's way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import ClientError, InternalError, S3Code
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.tree.beneath import open_beneath
from gateway.storage.tree.directories import DIRECTORY, closing
from gateway.storage.tree.locks import Locks
from gateway.storage.tree.meta import Meta, to_write
from gateway.storage.tree.paths import KeyPath, unholdable
from gateway.storage.tree.record import (
    FOUND,
    MADE,
    MADE_XATTR,
    NEW,
    OBJECT_XATTR,
    read_xattr,
    write_xattr,
)

Names = tuple[bytes, ...]
"""A path below the bucket's directory, which is ()."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # of a pipe or a terminal that has a key's name
_MODE = 0o777
"""As of staged files: the umask decides."""

_ATTEMPTS = 8
"""ESTALE: on NFS, the file was replaced on another host between the look-up and the open."""

_DURABLE = (MADE, FOUND)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENXIO)
_NOT_ALLOWED = {
    errno.ELOOP: "A symbolic link is on this key's path, and is not followed "
    "(tree.follow_symlinks).",
    errno.EXDEV: "A symbolic link on this key's path leaves the bucket.",
    errno.EACCES: "The gateway's user may not open this file.",
    errno.EPERM: "The gateway's user may not open this file.",
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """An open bucket.

    Attributes:
        root: descriptor of the tree's root, which outlives this.
        root_path: for error texts.
        fd: of its directory.
        meta: on the same file system.
        locks: None where nothing is to be written.
        follow: symbolic links that stay in the bucket.
    """

    name: str
    root: int
    root_path: Path
    fd: int
    meta: Meta
    locks: Locks | None
    follow: bool
    meta_name: bytes

    @property
    def path(self) -> Path:
        """For error texts."""
        return self.root_path / self.name

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Keep other writers of a key away for the block. Raises BusyError."""
        with to_write(self.locks).hold("key", self.name, key):
            yield

    def open(self, path: bytes, flags: int = _READ) -> int | None:
        """Open what exists there; None where nothing does.

        Raises:
            ClientError: AccessDenied: a symbolic link, or the gateway's user has not the right.
            InternalError.
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                return open_beneath(self.fd, path, flags, follow=self.follow)
            except OSError as error:
                if error.errno in _NOT_THERE:
                    return None
                if error.errno != errno.ESTALE or attempts == _ATTEMPTS:
                    raise self._refusal("opening", path, error) from error

    def is_there(self) -> bool:
        """Whether it is still what its name says. Raises InternalError."""
        try:
            with closing(open_beneath(self.root, self.name.encode(), DIRECTORY, follow=True)) as fd:
                return os.path.samestat(os.fstat(fd), os.fstat(self.fd))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_fault("opening", self.path, error) from error

    def _refusal(self, action: str, path: bytes, error: OSError) -> Exception:
        """What a failed call means to the client, or the InternalError that it is."""
        if error.errno in _NOT_ALLOWED:
            return ClientError(S3Code.ACCESS_DENIED, _NOT_ALLOWED[error.errno])
        return disk_fault(action, self._at(path), error)

    def open_parent(self, where: KeyPath) -> int | None:
        """The directory that holds a key's file; None where it is not there. Raises as `open`."""
        return self.open(_joined(where.parents), DIRECTORY)

    def make_parents(self, where: KeyPath, *, itself: bool = False) -> int:
        """Open the directory that holds a key's file, making what is missing on the way.

        With `itself`, the directory that is the key's object, too, which then is what is opened.

        Raises:
            FileNotFoundError: one was removed meanwhile; try again.
            ClientError: ObjectParentIsFile, AccessDenied, InvalidArgument.
            InternalError.
        """
        names = (*where.parents, where.name) if itself else where.parents
        fd = self.open(_joined(names), DIRECTORY)
        if fd is None:
            fd = os.dup(self.fd)
            for depth in range(1, len(names) + 1):
                with closing(fd) as parent:
                    fd = self._make(parent, names[:depth])
        try:
            self._make_durable(fd, names)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _make(self, parent: int, names: Names) -> int:
        path, made = _joined(names), True
        try:
            os.mkdir(names[-1], _MODE, dir_fd=parent)
        except FileExistsError:
            made = False
        except OSError as error:
            raise self._unmakeable(path, error) from error
        try:
            fd = open_beneath(self.fd, path, DIRECTORY, follow=self.follow)
        except OSError as error:
            raise self._unmakeable(path, error) from error
        if made:
            try:
                write_xattr(fd, MADE_XATTR, NEW, self._at(path))
            except InternalError:
                os.close(fd)
                raise
        return fd

    def _make_durable(self, fd: int, names: Names) -> None:
        """See to it that a power cut can't take a directory away with what is put into it.

        Whoever made it, and those above it, may not have synced them yet. That it was done is noted
        at each, so that a write into it need not do it again.

        Args:
            fd: of the directory.
            names: its path; () is the bucket's own.

        Raises:
            ClientError: AccessDenied.
            InternalError.
        """
        if not self.meta.staging.syncs_names:
            return
        with ExitStack() as stack:
            unsure = []
            while self._made(fd, names) not in _DURABLE:
                unsure.append(fd)
                above = self.root if not names else self.open(_joined(names[:-1]), DIRECTORY)
                if above is None:
                    raise FileNotFoundError(errno.ENOENT, "removed meanwhile", self.path)
                if names:
                    stack.enter_context(closing(above))
                with on_disk("syncing the parent of", self._at(_joined(names))):
                    self.meta.staging.sync(above)
                if not names:
                    break
                fd, names = above, names[:-1]
            for each in unsure:
                with suppress(OSError):  # another's directory: it is synced again each time
                    os.setxattr(each, MADE_XATTR, MADE if self._made(each, names) else FOUND)

    def _made(self, fd: int, names: Names) -> bytes | None:
        """What is known of a directory."""
        with on_disk("looking at", self._at(_joined(names))):
            return read_xattr(fd, MADE_XATTR)

    def _unmakeable(self, path: bytes, error: OSError) -> Exception:
        """What a directory that can't be made or opened means to the client."""
        match error.errno:
            case errno.ENOENT:
                return FileNotFoundError(errno.ENOENT, "removed meanwhile", self._at(path))
            case errno.ENOTDIR:
                return ClientError(S3Code.OBJECT_PARENT_IS_FILE)
            case errno.ENAMETOOLONG:
                return unholdable(os.fsdecode(path), "the file system takes no name so long")
        return self._refusal("making", path, error)

    def _at(self, path: bytes) -> Path:
        """For error texts."""
        return self.path / os.fsdecode(path)

    def prune(self, names: Names) -> None:
        """Remove a directory and those above it, as far as they are empty and the gateway's.

        One that is an object itself stays, and one that another program made.

        Args:
            names: the path of the deepest.
        """
        for depth in range(len(names), 0, -1):
            if not self.remove_directory(names[:depth], ours=True):
                return

    def remove_directory(self, names: Names, *, ours: bool) -> bool:
        """Remove one directory if it is empty and no object; whether it is gone.

        With `ours`, only if the gateway made it. The lock is the one under which it would become
        an object.
        """
        path = _joined(names)
        with self.hold(os.fsdecode(path) + "/"):
            fd = self.open(path, DIRECTORY)
            if fd is None:
                return True
            with closing(fd):
                with on_disk("looking at", self._at(path)):
                    marked = read_xattr(fd, OBJECT_XATTR) is not None
                if marked or (ours and self._made(fd, names) not in (NEW, MADE)):
                    return False
            parent = self.open(_joined(names[:-1]), DIRECTORY)
            if parent is None:
                return True
            with closing(parent):
                try:
                    os.rmdir(names[-1], dir_fd=parent)
                except FileNotFoundError:
                    return True
                except OSError:  # ENOTEMPTY, or another's to remove
                    return False
        return True


def _joined(names: Names) -> bytes:
    return b"/".join(names) or b"."
