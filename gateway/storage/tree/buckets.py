"""Buckets of the tree: directories, and what is configured of them. Everything here blocks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.errors import ClientError, S3Code
from gateway.storage import rules
from gateway.storage.faults import on_disk
from gateway.storage.port import BucketInfo, Versioning
from gateway.storage.rows import decode_bucket, encode_bucket
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import read_small_file, remove_file
from gateway.storage.tree.emptiness import remove_if_empty
from gateway.storage.tree.root import Root

_BUCKETS = b"buckets"
_MODE = 0o777


class Buckets:
    """Makes, finds, changes and removes them.

    Args:
        root: of the tree.
        clock: POSIX nanoseconds.
        region: of buckets that other programs made.
    """

    def __init__(self, root: Root, clock: Callable[[], int], region: str) -> None:
        self._root = root
        self._clock = clock
        self._region = region

    def head(self, name: str) -> BucketInfo:
        """Raises NoSuchBucket."""
        with self._root.bucket(name) as bucket:
            return self._info(bucket)

    def all(self) -> Sequence[BucketInfo]:
        """By name; one that goes meanwhile is left out."""
        found = []
        for name in self._root.names():
            try:
                found.append(self.head(name))
            except ClientError:
                continue
        return found

    def create(self, wanted: BucketInfo) -> BucketInfo:
        """The directory comes last: until then what is configured is nobody's.

        Raises BucketAlreadyOwnedByYou, BucketAlreadyExists; NotImplemented for versioning.
        """
        _require_unversioned(wanted)
        info = replace(wanted, created_ns=self._clock())
        root, name = self._root, wanted.name
        with root.locks.hold("bucket", name):
            self._require_absent(wanted)
            root.meta.forget(name)
            self._write(info)
            with on_disk("making", root.path / name):
                os.mkdir(name, _MODE, dir_fd=root.fd)
                root.meta.staging.sync(root.fd)
        return info

    def _require_absent(self, wanted: BucketInfo) -> None:
        """Raises BucketAlreadyOwnedByYou, BucketAlreadyExists."""
        try:
            there = self.head(wanted.name)
        except ClientError:
            if self._root.has(wanted.name):
                raise ClientError(
                    S3Code.BUCKET_ALREADY_EXISTS,
                    "What has the bucket's name is no directory, or a link to one.",
                ) from None
            return
        raise rules.bucket_exists(there, wanted.owner)

    def update(self, name: str, change: Callable[[BucketInfo], BucketInfo]) -> BucketInfo:
        """Raises NoSuchBucket, what `change` raises, and NotImplemented for versioning."""
        with self._root.locks.hold("bucket", name), self._root.bucket(name) as bucket:
            before = self._info(bucket)
            after = rules.reconfigured(before, change(before))
            _require_unversioned(after)
            self._write(after)
            return after

    def delete(self, name: str) -> None:
        """Raises NoSuchBucket, BucketNotEmpty. Its uploads are aborted."""
        root = self._root
        with root.locks.hold("bucket", name):
            with root.bucket(name) as bucket:
                remove_if_empty(bucket)
            root.meta.forget(name)
            with root.meta.existing(_BUCKETS) as directory, on_disk("removing", root.path / name):
                if directory is not None:
                    remove_file(directory, name.encode())
                root.meta.staging.sync(root.fd)

    def _info(self, bucket: Bucket) -> BucketInfo:
        """What is configured; the defaults for a directory that another program made."""
        meta = self._root.meta
        with meta.existing(_BUCKETS) as directory:
            data = (
                None
                if directory is None
                else read_small_file(directory, bucket.name.encode(), meta.path)
            )
        if data is not None:
            return decode_bucket(tuple(json.loads(data)))
        with on_disk("looking at", bucket.path):
            made_ns = os.fstat(bucket.fd).st_mtime_ns
        return BucketInfo(bucket.name, made_ns, self._region)

    def _write(self, info: BucketInfo) -> None:
        meta = self._root.meta
        with meta.made(_BUCKETS) as directory:
            meta.staging.write(
                directory, info.name.encode(), json.dumps(encode_bucket(info)).encode()
            )


def _require_unversioned(info: BucketInfo) -> None:
    if info.versioning is not Versioning.OFF or info.object_lock:
        raise ClientError(
            S3Code.NOT_IMPLEMENTED,
            "A bucket that is a directory keeps one version of each object: versioning and object "
            "lock need storage.driver = store.",
        )
