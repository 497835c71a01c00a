"""The step in which a whole file becomes a key's object, and the one in which it goes.

Before the step the file has its bytes, its description and its time, all of it synced; after it the
directory is synced. The step itself is one rename(2) or link(2) or, for a directory, one
setxattr(2), under the key's lock, so that what the conditions are held against is what is replaced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from gateway.errors import ClientError, InternalError, S3Code
from gateway.storage import rules
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.port import ObjectInfo
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import closing, remove_file
from gateway.storage.tree.found import Found, find
from gateway.storage.tree.paths import KeyPath, unholdable
from gateway.storage.tree.record import (
    INLINE_MAX_BYTES,
    OBJECT_XATTR,
    encode_record,
    record_of,
    try_write_xattr,
    write_xattr,
)
from gateway.storage.tree.sidecars import (
    fresh_sidecar,
    is_of_upload,
    remove_sidecar,
    write_sidecar,
)
from gateway.wire.conditional import Conditions, check_write

_ATTEMPTS = 64
"""How often others may remove a directory from under a write, or put something in its way."""


@dataclass(frozen=True, slots=True)
class Target:
    """A key, and what it is in its bucket."""

    bucket: Bucket
    key: str
    where: KeyPath

    @property
    def path(self) -> Path:
        """For error texts."""
        return self.bucket.path / self.key

    def find(self, *, with_parts: bool = False) -> Found | None:
        """What is there now; whoever asks closes it. Raises AccessDenied, InternalError."""
        return find(self.bucket, self.key, self.where, with_parts=with_parts)

    @contextmanager
    def looked(self, *, with_parts: bool = False) -> Iterator[Found | None]:
        """What is there now, open for the block. Raises as `find`."""
        found = self.find(with_parts=with_parts)
        try:
            yield found
        finally:
            if found is not None:
                found.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other writers away."""
        with self.bucket.hold(self.key):
            yield


def stamp(target: Target, fd: int, modified_ns: int) -> int:
    """Give a file its time, and read what the file system made of it. Raises InternalError."""
    with on_disk("stamping", target.path):
        os.utime(fd, ns=(modified_ns, modified_ns))
        return os.fstat(fd).st_mtime_ns


def describe(target: Target, fd: int, info: ObjectInfo, sidecar: str = "") -> str:
    """Write an object's description to its file: the sidecar first, where it needs one.

    `sidecar` is the name of one that is wanted in any case.

    Returns:
        The sidecar's name, or "".

    Raises:
        InternalError.
    """
    bucket, path = target.bucket, target.path
    if sidecar:
        write_sidecar(bucket.meta, sidecar, info)
    data = encode_record(record_of(info, sidecar))
    if len(data) <= INLINE_MAX_BYTES and try_write_xattr(fd, OBJECT_XATTR, data, path):
        return sidecar
    if not sidecar:
        sidecar = fresh_sidecar(info.modified_ns)
        write_sidecar(bucket.meta, sidecar, info)
    short = replace(record_of(info, sidecar), attributes=None)
    try:
        write_xattr(fd, OBJECT_XATTR, encode_record(short), path)
    except InternalError:
        forget_sidecar(bucket, sidecar)
        raise
    return sidecar


def place_file(target: Target, name: str, conditions: Conditions) -> None:
    """Publish a staged file as the object, if the conditions hold now.

    `name` is the file's in the staging directory; on failure it is still there.

    Raises:
        ClientError: PreconditionFailed, NoSuchKey, ObjectParentIsFile, ExistingObjectIsDirectory,
            AccessDenied, InvalidArgument, NoSuchBucket.
        InternalError.
    """

    def place(current: Found | None) -> int | None:
        absent = current is None and conditions.if_none_match is not None
        return _try_place(target, name, absent=absent)

    _publish(target, conditions, place)


def place_directory(target: Target, info: ObjectInfo, conditions: Conditions) -> None:
    """Publish a directory as the object of a key that ends in "/". Raises as `place_file`."""

    def place(_: Found | None) -> int | None:
        try:
            fd = target.bucket.make_parents(target.where, itself=True)
        except FileNotFoundError:
            return None
        try:
            describe(target, fd, info)
        except InternalError:
            os.close(fd)
            raise
        return fd

    _publish(target, conditions, place)


def _publish(
    target: Target, conditions: Conditions, place: Callable[[Found | None], int | None]
) -> None:
    """Hold the conditions against what is there, and replace it, until nothing comes between.

    `place` answers the directory that it changed, open, or None: try again. It is synced without
    the lock, so that a key's writers don't wait for each other's disk.
    """
    for _ in range(_ATTEMPTS):
        with target.held(), target.looked() as current:
            check_write(conditions, current.info if current else None)
            changed = place(current)
        if changed is not None:
            with closing(changed):
                _sync(target, changed)
            forget_sidecar(target.bucket, current.sidecar if current else "")
            return
        if not target.bucket.is_there():
            raise rules.no_such_bucket(target.bucket.name)
    raise ClientError(S3Code.CONDITIONAL_REQUEST_CONFLICT)


def _try_place(target: Target, name: str, *, absent: bool) -> int | None:
    """Rename over, or link where nothing may be; the parent, or None to try again."""
    bucket, where, staging = target.bucket, target.where, target.bucket.meta.staging
    try:
        parent = bucket.make_parents(where)
    except FileNotFoundError:
        return None
    placed = False
    try:
        if absent:
            staging.link(name, parent, where.name)
        else:
            staging.move(name, parent, where.name)
        placed = True
    except FileNotFoundError:
        return None
    except (FileExistsError, IsADirectoryError):
        _clear_way(target, parent)
        return None
    except OSError as error:
        raise _unplaceable(target, error) from error
    finally:
        if not placed:
            os.close(parent)
    return parent


def _clear_way(target: Target, parent: int) -> None:
    """Something is at the key that is no object: an empty directory of the gateway's may go.

    Raises ClientError where it is anything else.
    """
    bucket, where = target.bucket, target.where
    try:
        mode = os.stat(where.name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise disk_fault("looking at", target.path, error) from error
    if S_ISDIR(mode):
        if not bucket.remove_directory((*where.parents, where.name), ours=True):
            raise ClientError(S3Code.EXISTING_OBJECT_IS_DIRECTORY)
    elif not S_ISREG(mode):
        raise ClientError(S3Code.ACCESS_DENIED, "What is at this key's path is no file.")


def _unplaceable(target: Target, error: OSError) -> Exception:
    if error.errno == errno.ENAMETOOLONG:
        return unholdable(target.key, "the file system takes no name so long")
    if error.errno == errno.EXDEV:
        return InternalError(
            f"{target.path} is on another file system than its bucket: make that one a bucket"
        )
    return disk_fault("publishing", target.path, error)


def remove(target: Target, current: Found) -> None:
    """Take away what was found, under the key's lock. Raises InternalError."""
    where = target.where
    if where.directory:
        with on_disk("removing", target.path):
            os.removexattr(current.fd, OBJECT_XATTR)
        _sync(target, current.fd)
    else:
        parent = target.bucket.open_parent(where)
        if parent is not None:
            with closing(parent):
                with on_disk("removing", target.path):
                    remove_file(parent, where.name)
                _sync(target, parent)
    forget_sidecar(target.bucket, current.sidecar)


def _sync(target: Target, directory: int) -> None:
    """After the step: where this fails, it was made, and may be lost with the power."""
    with on_disk("syncing the directory of", target.path):
        target.bucket.meta.staging.sync(directory)


def forget_sidecar(bucket: Bucket, name: str) -> None:
    """Remove the sidecar of what is gone; an upload's is kept for a repeated Complete.

    What can't be removed is swept when it is old.
    """
    if name and not is_of_upload(name):
        with suppress(InternalError):
            remove_sidecar(bucket.meta, bucket.name, name)
