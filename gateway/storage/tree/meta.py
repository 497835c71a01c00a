"""The gateway's own hidden directory on a file system of the tree.

Layout (directories 0700)::

    locks                     one byte for each name that is locked (locks.py); in the root's only
    credentials               a key, where none was configured; in the root's only
    buckets/<bucket>          what is configured of a bucket; in the root's only
    staging/<process>/        files that have no key yet (staging.py)
    uploads/<bucket>/<id>/    a multipart upload: `upload`, and its parts by number
    sidecars/<bucket>/<id>    what an extended attribute has no room for (sidecars.py)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage.faults import on_disk
from gateway.storage.tree.directories import (
    closing,
    find_directory,
    make_directory,
    remove_tree,
)
from gateway.storage.tree.locks import Locks
from gateway.storage.tree.staging import Staging

T = TypeVar("T")

UPLOADS, SIDECARS = b"uploads", b"sidecars"


def to_write(what: T | None) -> T:
    """What only a tree that may be written has. Raises InternalError: nobody asked that first."""
    if what is None:
        raise InternalError("a tree that is read-only was about to be written")
    return what


class Meta:
    """Opens what is in the directory.

    Args:
        fd: of it; None where it is not there, and nothing is to be written. Owned from here on.
        path: for error texts.
        staging: None where nothing is to be written.
    """

    def __init__(self, fd: int | None, path: Path, staging: Staging | None) -> None:
        self._fd = fd
        self._staging = staging
        self.path = path

    @property
    def staging(self) -> Staging:
        """Where files are made."""
        return to_write(self._staging)

    @contextmanager
    def existing(self, kind: bytes, *names: bytes) -> Iterator[int | None]:
        """`kind`/`names`… for the block; None where it is not there. Raises InternalError."""
        with on_disk("opening", self.path):
            path = b"/".join((kind, *names))
            fd = None if self._fd is None else find_directory(self._fd, path)
        if fd is None:
            yield None
        else:
            with closing(fd):
                yield fd

    @contextmanager
    def made(self, kind: bytes, *names: bytes) -> Iterator[int]:
        """`kind`/`names`…, made where it is missing, for the block. Raises InternalError."""
        with on_disk("making a directory in", self.path):
            fd = self._make(kind, *names)
        with closing(fd):
            yield fd

    def _make(self, *names: bytes) -> int:
        fd = os.dup(to_write(self._fd))
        for name in names:
            with closing(fd) as parent:
                fd = make_directory(parent, name, self.staging.sync)
        return fd

    def forget(self, bucket: str) -> None:
        """Remove all that is here of a bucket. Raises InternalError."""
        with on_disk("removing", self.path):
            for kind in (UPLOADS, SIDECARS):
                remove_tree(to_write(self._fd), kind + b"/" + bucket.encode())

    def close(self) -> None:
        """Also removes what is staged. Raises InternalError."""
        if self._staging is not None:
            self._staging.close()
        if self._fd is not None:
            os.close(self._fd)


def open_meta(
    parent: int, name: bytes, path: Path, locks: Locks | None, durability: Durability
) -> Meta:
    """Open or make the directory `name` of an open one, and sweep what dead gateways left there.

    `path` is for error texts; `locks` are None where nothing is to be written.

    Raises:
        InternalError.
    """
    with on_disk("opening", path):
        if locks is None:
            return Meta(find_directory(parent, name), path, None)
        fd = _make_own(parent, name, path)
        try:
            staging = Staging(fd, path, locks, durability)
            staging.sync(parent)
            staging.sweep()
        except BaseException:
            os.close(fd)
            raise
        return Meta(fd, path, staging)


def open_locks(parent: int, name: bytes, path: Path, timeout_s: float) -> Locks:
    """The common lock file of all gateways, made where it is missing.

    Raises:
        InternalError: also where the file system keeps no locks.
    """
    with on_disk("opening the locks of", path), closing(_make_own(parent, name, path)) as fd:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        locks = Locks(os.open(b"locks", flags, 0o600, dir_fd=fd), timeout_s)
    try:
        with locks.hold("probe"):
            pass
    except OSError as error:
        locks.close()
        raise InternalError(
            f"{path}: {error.strerror}: the file system keeps no locks; mount Lustre with `flock` "
            "and NFS without `nolock`, or serve it with tree.read_only"
        ) from error
    return locks


def _make_own(parent: int, name: bytes, path: Path) -> int:
    """The directory itself, which nobody but the gateway may write: keys are kept in it.

    Raises:
        InternalError: somebody else made it, or may write it.
        OSError.
    """
    fd = make_directory(parent, name)
    found = os.fstat(fd)
    trusted = found.st_uid in (os.geteuid(), os.fstat(parent).st_uid)
    if trusted and not found.st_mode & 0o077:
        return fd
    os.close(fd)
    raise InternalError(
        f"{path} is not the gateway's alone; look who made it, then chown it to the gateway's user "
        "and chmod 700, or choose another tree.meta_name"
    )
