"""The tree as a `Storage`: existing directories are the buckets, files the objects.

No truth is kept in memory: each call opens what it asks about, so that what other programs and
other gateways do is seen at once. The event loop calls; `tree-file` does what blocks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import TypeVar

from gateway.config import TreeConfig
from gateway.errors import BusyError, ClientError, InternalError, S3Code
from gateway.storage.faults import on_disk
from gateway.storage.port import (
    BucketInfo,
    Capabilities,
    Deletion,
    Destination,
    ListPage,
    ListQuery,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    Permit,
    Staged,
    UploadInfo,
    UploadPage,
    VersionPage,
    VersionQuery,
    permit_all,
)
from gateway.storage.staged import SealedFile, StagedFile
from gateway.storage.threads import settle
from gateway.storage.tree import pages
from gateway.storage.tree.buckets import Buckets
from gateway.storage.tree.objects import Objects
from gateway.storage.tree.reader import TreeObject
from gateway.storage.tree.root import Root
from gateway.storage.tree.sweep import sweep
from gateway.storage.tree.uploads import Uploads
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions

_log = logging.getLogger(__name__)

T = TypeVar("T")


class TreeStorage:
    """A `Storage` of directories that others use, too. Started once, stopped once.

    Args:
        config: `root` has to exist.
        region: of buckets that other programs made.
        clock: POSIX nanoseconds.
    """

    capabilities = Capabilities(versioning=False, any_key=False)

    def __init__(
        self, config: TreeConfig, region: str, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._config = config
        self._threads = ThreadPoolExecutor(config.io_threads, thread_name_prefix="tree-file")
        self._places = Semaphore(config.max_staged)
        self._root = Root(config)
        self._buckets = Buckets(self._root, clock, region)
        self._objects = Objects(self._root, self._threads, clock)
        self._uploads = Uploads(self._root, clock, int(config.upload_expiry_s * 1e9))

    async def start(self) -> None:
        await self._run(self._start)

    def _start(self) -> None:
        try:
            self._root.start()
            if not self._config.read_only:
                swept = sweep(self._root, self._uploads)
                _log.info("tree %s open: removed %d old descriptions", self._root.path, swept)
        except BaseException:
            self._root.close()
            raise

    async def stop(self) -> None:
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._threads.shutdown()
        self._root.close()

    async def check(self) -> None:
        await self._run(self._check)

    def _check(self) -> None:
        root = self._root
        root.names()
        if self._config.read_only:
            return
        fd, name = root.meta.staging.create()
        try:
            with on_disk("writing", root.path), root.locks.hold("check", name):
                os.pwrite(fd, b"\0", 0)
        finally:
            os.close(fd)
            root.meta.staging.remove((name,))

    # Buckets

    async def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        return await self._change(lambda: self._buckets.create(wanted))

    async def update_bucket(
        self, bucket: str, change: Callable[[BucketInfo], BucketInfo]
    ) -> BucketInfo:
        return await self._change(lambda: self._buckets.update(bucket, change))

    async def head_bucket(self, bucket: str) -> BucketInfo:
        return await self._run(lambda: self._buckets.head(bucket))

    async def list_buckets(self) -> Sequence[BucketInfo]:
        return await self._run(self._buckets.all)

    async def delete_bucket(self, bucket: str) -> None:
        await self._change(lambda: self._buckets.delete(bucket))

    # Objects

    async def open_object(self, bucket: str, key: str, version_id: str | None) -> TreeObject:
        return await settle(
            self._threads,
            lambda: self._objects.open(bucket, key, version_id),
            undo=TreeObject.release,
        )

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        return await self._run(lambda: self._objects.head(bucket, key, version_id))

    async def update_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        return await self._change(lambda: self._objects.update(bucket, key, version_id, change))

    async def stage(
        self,
        bucket: str,
        size_hint_bytes: int | None = None,
        destination: Destination | None = None,
    ) -> StagedFile:
        self._require_writable()
        if not self._places.acquire(blocking=False):
            raise BusyError(f"{self._config.max_staged} uploads are under way (tree.max_staged)")
        try:
            return await settle(
                self._threads, lambda: self._stage(bucket, size_hint_bytes or 0), undo=_abandon
            )
        except BaseException:
            self._places.release()
            raise

    def _stage(self, bucket: str, hint_bytes: int) -> StagedFile:
        with self._root.bucket(bucket) as home:
            staging = home.meta.staging
        fd, name = staging.create()
        staged = StagedFile(staging, fd, name, self._threads, self._places.release)
        try:
            staged.preallocate(hint_bytes)
        except InternalError:
            _abandon(staged)
            raise
        return staged

    async def commit_object(
        self,
        staged: Staged,
        bucket: str,
        key: str,
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        return await self._consume(
            staged, lambda sealed: self._objects.put(sealed, bucket, key, draft, conditions)
        )

    async def delete_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions = NO_CONDITIONS,
        owner: str = "",
        permit: Permit = permit_all,
    ) -> Deletion:
        return await self._change(
            lambda: self._objects.delete(bucket, key, version_id, conditions, permit)
        )

    async def list_objects(self, query: ListQuery) -> ListPage:
        return await self._run(lambda: pages.list_objects(self._root, query))

    async def list_versions(self, query: VersionQuery) -> VersionPage:
        return await self._run(lambda: pages.list_versions(self._root, query))

    # Multipart

    async def create_upload(
        self,
        bucket: str,
        key: str,
        attributes: ObjectAttributes,
        checksum_algorithm: Algorithm | None,
        checksum_type: ChecksumType | None,
        owner: str = "",
    ) -> UploadInfo:
        wanted = UploadInfo(
            bucket, key, "", 0, attributes, checksum_algorithm, checksum_type, owner
        )
        return await self._change(lambda: self._uploads.create(wanted))

    async def head_upload(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        return await self._run(lambda: self._uploads.head(bucket, key, upload_id))

    async def commit_part(
        self, staged: Staged, bucket: str, key: str, upload_id: str, number: int, draft: ObjectDraft
    ) -> PartInfo:
        return await self._consume(
            staged,
            lambda sealed: self._uploads.put_part(sealed, bucket, key, upload_id, number, draft),
        )

    async def list_parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        return await self._run(
            lambda: self._uploads.parts(bucket, key, upload_id, after_number, limit)
        )

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        return await self._change(
            lambda: self._uploads.complete(bucket, key, upload_id, parts, draft, conditions)
        )

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        return await self._run(lambda: self._uploads.completed(bucket, key, upload_id))

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        await self._change(lambda: self._uploads.abort(bucket, key, upload_id))

    async def list_uploads(
        self,
        bucket: str,
        prefix: str,
        delimiter: str,
        after_key: str,
        after_upload_id: str,
        limit: int,
    ) -> UploadPage:
        query = ListQuery(bucket, prefix, delimiter, after_key, limit)
        return await self._run(lambda: self._uploads.list(query, after_upload_id))

    # Threads

    async def _run(self, work: Callable[[], T]) -> T:
        return await settle(self._threads, work)

    async def _change(self, work: Callable[[], T]) -> T:
        self._require_writable()
        return await self._run(work)

    async def _consume(self, staged: Staged, work: Callable[[SealedFile], T]) -> T:
        """Hand a staged file over; a cancelled caller doesn't stop its commit."""
        if not isinstance(staged, StagedFile):
            raise TypeError(f"{type(staged).__name__} was not staged by this tree")
        sealed = staged.seal()
        try:
            return await self._run(lambda: work(sealed))
        finally:
            sealed.release()

    def _require_writable(self) -> None:
        if self._config.read_only:
            raise ClientError(
                S3Code.ACCESS_DENIED, "This gateway changes nothing here (tree.read_only)."
            )


def _abandon(staged: StagedFile) -> None:
    staged.seal().abandon()
