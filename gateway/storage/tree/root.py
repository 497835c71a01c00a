"""The tree's root: opened once; every bucket, and all in it, is opened beneath it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.config import TreeConfig
from gateway.errors import ClientError, InternalError
from gateway.storage import rules
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.tree.beneath import open_beneath
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import DIRECTORY, closing, names_in
from gateway.storage.tree.locks import Locks
from gateway.storage.tree.meta import Meta, open_locks, open_meta, to_write
from gateway.storage.tree.record import OBJECT_XATTR, write_xattr
from gateway.wire.names import check_bucket_name

Place = tuple[str, int, int]
"""A bucket that is a mount: its name, and the device and inode of its directory."""
_IN_ROOT: Place = ("", 0, 0)


class Root:
    """Opens buckets. Any thread, between `start` and `close`."""

    def __init__(self, config: TreeConfig) -> None:
        self._config = config
        self._fd: int | None = None
        self._locks: Locks | None = None
        self._metas: dict[Place, Meta] = {}
        self._opening = threading.Lock()

    @property
    def path(self) -> Path:
        return self._config.root

    @property
    def locks(self) -> Locks:
        """Common to all gateways."""
        return to_write(self._locks)

    @property
    def meta(self) -> Meta:
        """The gateway's own directory in the root."""
        return self._opened(self.fd, _IN_ROOT, self.path)

    @property
    def fd(self) -> int:
        if self._fd is None:
            raise InternalError("the tree is not started")
        return self._fd

    def start(self) -> None:
        """Open the root, and sweep. Raises InternalError that names what the tree needs."""
        config = self._config
        name = _meta_name(config)
        try:
            self._fd = os.open(config.root, DIRECTORY | os.O_CLOEXEC)
            os.close(open_beneath(self._fd, b".", DIRECTORY))
        except OSError as error:
            raise _unusable(config.root, error) from error
        if not config.read_only:
            path = config.root / config.meta_name
            self._locks = open_locks(self._fd, name, path, config.lock_timeout_s)
        meta = self.meta
        if not config.read_only:
            self._require_xattrs(meta)

    def _require_xattrs(self, meta: Meta) -> None:
        fd, name = meta.staging.create()
        try:
            write_xattr(fd, OBJECT_XATTR, b"probe", self.path)
        finally:
            os.close(fd)
            meta.staging.remove((name,))

    def close(self) -> None:
        """Idempotent. Raises InternalError."""
        try:
            while self._metas:
                self._metas.popitem()[1].close()
        finally:
            if self._locks is not None:
                self._locks.close()
                self._locks = None
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def names(self) -> list[str]:
        """What may be buckets: directories whose names are those of buckets. Raises InternalError.

        Links that lead to directories are among them where links are followed.
        """
        with on_disk("listing", self.path):
            names = [os.fsdecode(name) for name in names_in(self.fd)]
        return sorted(name for name in names if _is_bucket_name(name))

    def has(self, name: str) -> bool:
        """Whether anything has that name in the root. Raises InternalError."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_fault("looking at", self.path / name, error) from error
        return True

    @contextmanager
    def bucket(self, name: str) -> Iterator[Bucket]:
        """Open a bucket for the block. Raises NoSuchBucket, InternalError."""
        fd, mounted = self._open(name)
        with closing(fd):
            yield Bucket(
                name=name,
                root=self.fd,
                root_path=self.path,
                fd=fd,
                meta=self._meta_in(fd, name) if mounted else self.meta,
                locks=self._locks,
                follow=self._config.follow_symlinks,
                meta_name=_meta_name(self._config),
            )

    def _open(self, name: str) -> tuple[int, bool]:
        """A bucket's directory, and whether it is a mount point."""
        if not _is_bucket_name(name):
            raise rules.no_such_bucket(name)
        mounted = False
        while True:
            try:
                fd = open_beneath(
                    self.fd,
                    name.encode(),
                    DIRECTORY,
                    follow=self._config.follow_symlinks,
                    same_mount=not mounted,
                )
            except OSError as error:
                if error.errno == errno.EXDEV and not mounted:
                    mounted = True
                    continue
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                    raise rules.no_such_bucket(name) from error
                raise disk_fault("opening", self.path / name, error) from error
            return fd, mounted

    def _meta_in(self, bucket: int, name: str) -> Meta:
        """The gateway's own directory in a bucket that is a mount of its own.

        Nothing can be renamed or linked from one mount to another, be they of one file system.
        """
        with on_disk("looking at", self.path / name):
            found = os.fstat(bucket)
        return self._opened(bucket, (name, found.st_dev, found.st_ino), self.path / name)

    def _opened(self, parent: int, place: Place, path: Path) -> Meta:
        """What is open at a place, or is opened now, in the directory `parent`."""
        with self._opening:
            meta = self._metas.get(place)
            if meta is None:
                config = self._config
                name, own_path = _meta_name(config), path / config.meta_name
                meta = open_meta(parent, name, own_path, self._locks, config.durability)
                self._metas[place] = meta
        return meta


def _meta_name(config: TreeConfig) -> bytes:
    """Raises InternalError where a bucket could have that name, or it is no name."""
    name = config.meta_name
    if not name.startswith(".") or name in (".", "..") or "/" in name:
        raise InternalError(f"tree.meta_name {name!r} has to be one name that begins with a dot")
    return name.encode()


def _is_bucket_name(name: str) -> bool:
    try:
        check_bucket_name(name)
    except ClientError:
        return False
    return True


def _unusable(path: Path, error: OSError) -> InternalError:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return InternalError(f"{path} is no directory: name an existing one (tree.root)")
        case errno.ENOSYS | errno.EPERM:
            return InternalError(
                f"{path}: the tree needs openat2: Linux 5.6 or newer, and a sandbox that allows it"
            )
    return disk_fault("opening", path, error)
