"""Objects of the tree: what each S3 operation means to the files. Everything here blocks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace

from gateway.errors import BusyError, ClientError, GatewayError, InternalError, S3Code
from gateway.storage import rules
from gateway.storage.faults import on_disk
from gateway.storage.port import (
    NULL_VERSION,
    Deletion,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    Permit,
)
from gateway.storage.staged import SealedFile
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.found import Found
from gateway.storage.tree.paths import find_path, require_path
from gateway.storage.tree.publish import (
    Target,
    describe,
    forget_sidecar,
    place_directory,
    place_file,
    remove,
    stamp,
)
from gateway.storage.tree.reader import TreeObject
from gateway.storage.tree.root import Root
from gateway.storage.tree.sidecars import is_of_upload
from gateway.wire.conditional import Conditions, check_delete

_CURRENT = (None, NULL_VERSION)
"""What a version id may say of a tree, which keeps one version of each key."""


class Objects:
    """Reads and writes them.

    Args:
        root: of the tree.
        executor: where readers will read.
        clock: POSIX nanoseconds.
    """

    def __init__(self, root: Root, executor: Executor, clock: Callable[[], int]) -> None:
        self._root = root
        self._executor = executor
        self._clock = clock

    def open(self, bucket: str, key: str, version_id: str | None) -> TreeObject:
        """Raises NoSuchBucket, NoSuchKey, NoSuchVersion, AccessDenied, InternalError."""
        with self._root.bucket(bucket) as home:
            target = _target(home, key, version_id)
            found = target.find(with_parts=True) if target else None
        if target is None or found is None:
            raise _missing(key, version_id)
        opened = TreeObject(found.info, found.fd, target.path, self._executor)
        try:
            opened.read_ahead()
        except InternalError:
            opened.release()
            raise
        return opened

    def head(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        """Raises as `open`."""
        with self._root.bucket(bucket) as home:
            target = _target(home, key, version_id)
            found = target.find(with_parts=True) if target else None
        if found is None:
            raise _missing(key, version_id)
        found.close()
        return found.info

    def update(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        """Raises as `open`, and what `change` raises."""
        with self._root.bucket(bucket) as home:
            target = _target(home, key, version_id)
            if target is None:
                raise _missing(key, version_id)
            with target.held(), target.looked(with_parts=True) as found:
                if found is None:
                    raise _missing(key, version_id)
                info = replace(found.info, attributes=change(found.info))
                _redescribe(target, found, info)
                return info

    def put(
        self,
        sealed: SealedFile,
        bucket: str,
        key: str,
        draft: ObjectDraft,
        conditions: Conditions,
    ) -> ObjectInfo:
        """Publish a staged file. Consumes it, also on failure.

        Raises as `place_file`, and InvalidArgument, DirectoryObjectContainsData.
        """
        try:
            with self._root.bucket(bucket) as home:
                target = Target(home, key, require_path(key, home.meta_name))
                info = rules.published(bucket, key, NULL_VERSION, draft, self._clock())
                if not target.where.directory:
                    return _put_file(target, sealed, draft, info, conditions)
                sealed.make_whole(draft)
                if info.size_bytes:
                    raise ClientError(S3Code.DIRECTORY_OBJECT_CONTAINS_DATA)
                place_directory(target, info, conditions)
                return info
        finally:
            sealed.abandon()

    def delete(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions,
        permit: Permit,
    ) -> Deletion:
        """Raises NoSuchBucket, PreconditionFailed, AccessDenied, and what `permit` raises."""
        with self._root.bucket(bucket) as home:
            target = _target(home, key, version_id)
            if target is None:
                return Deletion(existed=False)
            with target.held(), target.looked() as found:
                if found is None:
                    return Deletion(existed=False)
                check_delete(conditions, found.info)
                permit(found.info)
                remove(target, found)
            where = target.where
            with suppress(GatewayError):  # the object is gone; empty directories are no objects
                home.prune((*where.parents, where.name) if where.directory else where.parents)
        return Deletion(existed=True)


def _target(bucket: Bucket, key: str, version_id: str | None) -> Target | None:
    """None where no object can be."""
    where = find_path(key, bucket.meta_name) if version_id in _CURRENT else None
    return Target(bucket, key, where) if where else None


def _missing(key: str, version_id: str | None) -> ClientError:
    if version_id is None:
        return rules.no_such_key(key)
    return rules.no_such_version(key, version_id)


def _put_file(
    target: Target,
    sealed: SealedFile,
    draft: ObjectDraft,
    info: ObjectInfo,
    conditions: Conditions,
) -> ObjectInfo:
    sealed.make_whole(draft)
    fd = sealed.fileno()
    info = replace(info, modified_ns=stamp(target, fd, info.modified_ns))
    sidecar = describe(target, fd, info)
    try:
        target.bucket.meta.staging.publish(fd, sealed.name)
        place_file(target, sealed.name, conditions)
    except (ClientError, BusyError):  # decided before anything was published
        forget_sidecar(target.bucket, sidecar)
        raise
    return info


def _redescribe(target: Target, found: Found, info: ObjectInfo) -> None:
    """Replace what is said of an object whose bytes stay.

    The sidecar of an upload goes on with its parts; without them the content is another program's.
    """
    kept = found.sidecar if info.parts and is_of_upload(found.sidecar) else ""
    describe(target, found.fd, info, kept)
    with on_disk("syncing", target.path):
        target.bucket.meta.staging.sync(found.fd)
    forget_sidecar(target.bucket, found.sidecar)
