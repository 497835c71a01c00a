"""The embedded store: opaque data files and one SQLite catalog, whole after any crash.

An object's way in: its bytes go to a file without a name; the file is synced, named, and its
directory synced; then one transaction judges the write conditions and points the key at it. That
transaction is the commit point. The replaced file goes last, when the transaction is durable.

Threads: the event loop calls; `store-read` looks things up and reads; `store-write` writes and
syncs files; `store-writer` alone changes the catalog; `store-remove` unlinks.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from typing import Any, TypeVar

from gateway.config import StoreConfig
from gateway.errors import BusyError, InternalError
from gateway.storage import lookup
from gateway.storage.bucket_cache import BucketCache
from gateway.storage.catalog import Catalog
from gateway.storage.connections import Readers
from gateway.storage.faults import in_database, on_disk
from gateway.storage.files import DataFiles
from gateway.storage.lock import StoreLock
from gateway.storage.pieces import Dropped
from gateway.storage.pins import Pins
from gateway.storage.port import (
    BucketInfo,
    Deletion,
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
from gateway.storage.reader import Opener, StoredObject
from gateway.storage.schema import open_catalog
from gateway.storage.staged import StagedFile
from gateway.storage.sweep import sweep
from gateway.storage.threads import settle
from gateway.storage.writer import UncertainError, Work, Writer, promise
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions

_log = logging.getLogger(__name__)
_ALL = -1  # as a LIMIT, SQLite's word for none

T = TypeVar("T")


class Store:
    """The embedded default `Storage`. Started once, stopped once.

    Args:
        config: `root` is made where it is missing (mode 0700).
        clock: POSIX nanoseconds.
    """

    def __init__(self, config: StoreConfig, clock: Callable[[], int] = time.time_ns) -> None:
        self._config = config
        self._clock = clock
        self._path = config.root / "catalog.db"
        self._lock = StoreLock(config.root / "lock")
        self._files = DataFiles(config.root, config.durability)
        self._pins = Pins(self._files.remove)
        self._readers = Readers(self._path, config.io_threads)
        self._opener = Opener(self._files, self._pins, self._readers.executor)
        self._writes = ThreadPoolExecutor(config.io_threads, thread_name_prefix="store-write")
        self._removals = ThreadPoolExecutor(1, thread_name_prefix="store-remove")
        self._places = Semaphore(config.max_staged)
        self._writer: Writer | None = None
        self._buckets = BucketCache()

    async def start(self) -> None:
        await settle(self._writes, self._open)

    async def stop(self) -> None:
        await asyncio.to_thread(self._close)

    async def check(self) -> None:
        await self._change(Catalog.beat)
        await self._readers.ask(lookup.heartbeat)
        await settle(self._writes, self._files.probe)

    # Buckets

    async def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        return await self._change_bucket(wanted.name, lambda catalog: catalog.create_bucket(wanted))

    async def update_bucket(
        self, bucket: str, change: Callable[[BucketInfo], BucketInfo]
    ) -> BucketInfo:
        return await self._change_bucket(
            bucket, lambda catalog: catalog.update_bucket(bucket, change)
        )

    async def head_bucket(self, bucket: str) -> BucketInfo:
        return await self._buckets.get(
            bucket, lambda: self._readers.ask(lambda db: lookup.bucket_info(db, bucket))
        )

    async def list_buckets(self) -> Sequence[BucketInfo]:
        return await self._readers.ask(lookup.buckets)

    async def delete_bucket(self, bucket: str) -> None:
        await self._change_bucket(bucket, lambda catalog: catalog.delete_bucket(bucket))

    # Objects

    async def open_object(self, bucket: str, key: str, version_id: str | None) -> StoredObject:
        def locate() -> lookup.Located:
            return self._readers.ask_snapshot_here(
                lambda db: lookup.locate(db, bucket, key, version_id)
            )

        return await settle(
            self._readers.executor, lambda: self._opener.open(locate), undo=StoredObject.release
        )

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        located = await self._readers.ask_snapshot(
            lambda db: lookup.locate(db, bucket, key, version_id)
        )
        return located.info

    async def update_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        return await self._change(
            lambda catalog: catalog.update_object(bucket, key, version_id, change)
        )

    async def stage(self, bucket: str, size_hint_bytes: int | None = None) -> StagedFile:
        if not self._places.acquire(blocking=False):
            raise BusyError(f"{self._config.max_staged} uploads are under way (store.max_staged)")
        try:
            return await settle(
                self._writes, lambda: self._stage(bucket, size_hint_bytes or 0), undo=_abandon
            )
        except BaseException:
            self._places.release()
            raise

    def _stage(self, bucket: str, hint_bytes: int) -> StagedFile:
        self._readers.ask_here(lambda db: lookup.bucket_info(db, bucket))
        fd, name = self._files.create(self._clock())
        staged = StagedFile(self._files, fd, name, self._writes, self._places.release)
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
        return await self._publish(
            staged,
            draft,
            lambda catalog, file: catalog.put_object(bucket, key, file, draft, conditions),
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
            lambda catalog: catalog.delete_object(
                bucket, key, version_id, conditions, owner, permit
            )
        )

    async def list_objects(self, query: ListQuery) -> ListPage:
        return await self._readers.ask_snapshot(lambda db: lookup.list_objects(db, query))

    async def list_versions(self, query: VersionQuery) -> VersionPage:
        return await self._readers.ask_snapshot(lambda db: lookup.list_versions(db, query))

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
        return await self._change(lambda catalog: catalog.uploads.create(wanted))

    async def head_upload(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        return await self._readers.ask(lambda db: lookup.upload_info(db, bucket, key, upload_id))

    async def commit_part(
        self, staged: Staged, bucket: str, key: str, upload_id: str, number: int, draft: ObjectDraft
    ) -> PartInfo:
        return await self._publish(
            staged,
            draft,
            lambda catalog, file: catalog.uploads.put_part(
                bucket, key, upload_id, number, file, draft
            ),
        )

    async def list_parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        return await self._readers.ask_snapshot(
            lambda db: lookup.list_parts(db, bucket, key, upload_id, after_number, limit)
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
            lambda catalog: catalog.uploads.complete(
                bucket, key, upload_id, parts, draft, conditions
            )
        )

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        return await self._readers.ask(lambda db: lookup.completion(db, bucket, key, upload_id))

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        await self._change(lambda catalog: catalog.uploads.abort(bucket, key, upload_id))

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
        return await self._readers.ask_snapshot(
            lambda db: lookup.list_uploads(db, query, after_upload_id)
        )

    # Changes

    async def _change_bucket(self, name: str, apply: Callable[[Catalog], T]) -> T:
        """The same as `_change`; the bucket is looked up anew from the moment it is durable."""
        done = promise()
        done.add_done_callback(lambda _: self._buckets.forget(name))
        return await self._change(apply, done)

    async def _change(self, apply: Callable[[Catalog], T], done: Future[Any] | None = None) -> T:
        """Queue a change of the catalog; returns when it is durable."""
        done = promise() if done is None else done
        self._running().submit(Work(apply, done))
        result: T = await asyncio.wrap_future(done)
        return result

    async def _publish(
        self, staged: Staged, draft: ObjectDraft, apply: Callable[[Catalog, str], T]
    ) -> T:
        """Sync and name the staged file, then queue the change that refers to it.

        A cancelled caller stops neither: the file's fate is settled by the future's callback.
        """
        if not isinstance(staged, StagedFile):
            raise TypeError(f"{type(staged).__name__} was not staged by this store")
        writer, sealed = self._running(), staged.seal()
        done = promise()
        done.add_done_callback(lambda ended: self._settle_file(sealed.name, ended))

        def to_disk() -> None:
            try:
                sealed.publish(draft)
            except InternalError as error:
                done.set_exception(error)
            else:
                writer.submit(Work(lambda catalog: apply(catalog, sealed.name), done))

        self._writes.submit(to_disk)
        result: T = await asyncio.wrap_future(done)
        return result

    def _settle_file(self, name: str, ended: Future[Any]) -> None:
        """After a commit: give its place back, and remove the file of one that was refused."""
        self._places.release()
        error = ended.exception()
        if error is not None and not isinstance(error, UncertainError):
            self._removals.submit(self._files.remove, (name,))

    def _drop(self, dropped: Iterable[Dropped]) -> None:
        self._removals.submit(self._pins.drop, dropped)

    def _running(self) -> Writer:
        if self._writer is None:
            raise InternalError("the store is not started")
        return self._writer

    # Start and stop, in threads

    def _open(self) -> None:
        root = self._config.root
        with on_disk("making", root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            durability, files = self._config.durability, self._files
            connection = open_catalog(self._path, durability, may_be_new=files.is_empty)
            self._files.prepare()
            self._writer = self._recover(connection)
        except BaseException:
            self._lock.release()
            raise

    def _recover(self, connection: sqlite3.Connection) -> Writer:
        """Expire and sweep, then let the writer begin."""
        expiry_ns = int(self._config.upload_expiry_s * 1e9)
        catalog = Catalog(connection, self._clock, expiry_ns)
        try:
            with in_database(self._path), connection:
                connection.execute("BEGIN IMMEDIATE")
                catalog.uploads.expire(_ALL)
            swept = sweep(connection, self._files)
        except BaseException:
            connection.close()
            raise
        _log.info(
            "store %s open: removed %d unfinished and %d unreferenced files",
            self._config.root,
            swept.staged,
            swept.unreferenced,
        )
        return Writer(self._path, connection, catalog, self._drop, self._config.max_pending_changes)

    def _close(self) -> None:
        """In the order in which work flows, so that each stage finishes what it was given."""
        self._writes.shutdown()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._removals.shutdown()
        self._readers.close()
        self._lock.release()


def _abandon(staged: StagedFile) -> None:
    staged.seal().abandon()
