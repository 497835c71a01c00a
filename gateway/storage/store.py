"""The embedded store: opaque data files and one SQLite catalog, whole after any crash.

An object's way in: its bytes go to a file without a name; the file gets the sums of its blocks, is
synced and named, and its directory synced; then one transaction judges the write conditions and
points the key at it. That transaction is the commit point. The replaced file goes last, when the
transaction is durable. A small object's bytes go into that transaction themselves.

Several processes may have it open (lock.py). What one of them has only in memory is never needed by
another: buckets are told by a generation (bucket_cache.py), readers by their pins (pins.py).

Threads: the event loop calls; `store-read` looks things up and reads; `store-write` writes and
syncs files; `store-writer` alone changes the catalog; `store-remove` unlinks; `store-sweep` removes
what a crash left, and ends.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from gateway.config import StoreConfig
from gateway.errors import InternalError
from gateway.storage import lookup
from gateway.storage.bucket_cache import BucketCache, Generation
from gateway.storage.catalog import Catalog
from gateway.storage.connections import Readers
from gateway.storage.faults import in_database, on_disk
from gateway.storage.files import DataFiles
from gateway.storage.lock import StoreLock
from gateway.storage.memory_bytes import MemoryReader
from gateway.storage.pieces import Dropped, Placed
from gateway.storage.pins import Pins
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
from gateway.storage.publisher import Publisher
from gateway.storage.reader import Opener, StoredObject
from gateway.storage.schema import open_catalog
from gateway.storage.sweep import Sweep
from gateway.storage.threads import settle
from gateway.storage.writer import Work, Writer, promise
from gateway.telemetry.measures import Sample
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Store:
    """The embedded default `Storage`. Started once, stopped once.

    Args:
        config: `root` is made where it is missing (mode 0700).
        clock: POSIX nanoseconds.
    """

    capabilities = Capabilities()

    def __init__(self, config: StoreConfig, clock: Callable[[], int] = time.time_ns) -> None:
        self._config = config
        self._clock = clock
        self._path = config.root / "catalog.db"
        self._lock = StoreLock(config.root / "lock")
        self._files = DataFiles(config.root, config.durability)
        self._pins = Pins(self._files)
        self._readers = Readers(self._path, config.io_threads)
        self._opener = Opener(self._files, self._pins, self._readers)
        self._removals = ThreadPoolExecutor(1, thread_name_prefix="store-remove")
        self._publisher = Publisher(config, self._files, clock, self._removals)
        self._writer: Writer | None = None
        self._generation: Generation | None = None
        self._sweep: Sweep | None = None
        self._buckets = BucketCache(lambda: self._running_generation().settled())

    async def start(self) -> None:
        await settle(self._publisher.executor, self._open)

    async def stop(self) -> None:
        await asyncio.to_thread(self._close)

    async def swept(self) -> None:
        """Wait until what a crash left behind is gone; a start does not wait for it."""
        if self._sweep is not None:
            await asyncio.to_thread(self._sweep.wait)

    async def check(self) -> None:
        await self._change(Catalog.beat)
        await self._readers.ask(lookup.heartbeat)
        await settle(self._publisher.executor, self._files.probe)

    def metrics(self) -> Iterable[Sample]:
        return () if self._writer is None else self._writer.metrics()

    # Buckets

    async def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        return await self._change_bucket(lambda catalog: catalog.create_bucket(wanted))

    async def update_bucket(
        self, bucket: str, change: Callable[[BucketInfo], BucketInfo]
    ) -> BucketInfo:
        return await self._change_bucket(lambda catalog: catalog.update_bucket(bucket, change))

    async def head_bucket(self, bucket: str) -> BucketInfo:
        return await self._buckets.get(
            bucket, lambda: self._readers.ask(lambda db: lookup.bucket_info(db, bucket))
        )

    async def list_buckets(self) -> Sequence[BucketInfo]:
        return await self._readers.ask(lookup.buckets)

    async def delete_bucket(self, bucket: str) -> None:
        await self._change_bucket(lambda catalog: catalog.delete_bucket(bucket))

    # Objects

    async def open_object(
        self, bucket: str, key: str, version_id: str | None
    ) -> StoredObject | MemoryReader:
        def locate() -> lookup.Located:
            return self._readers.ask_snapshot_here(
                lambda db: lookup.locate(db, bucket, key, version_id)
            )

        return await settle(self._readers.executor, lambda: self._opener.open(locate), undo=_let_go)

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

    async def stage(
        self,
        bucket: str,
        size_hint_bytes: int | None = None,
        destination: Destination | None = None,
    ) -> Staged:
        await self.head_bucket(bucket)
        return await self._publisher.stage(size_hint_bytes)

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
            lambda catalog, placed: catalog.put_object(bucket, key, placed, draft, conditions),
            inline=True,
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
            lambda catalog, placed: catalog.uploads.put_part(
                bucket, key, upload_id, number, placed, draft
            ),
            inline=False,
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

    async def _change_bucket(self, apply: Callable[[Catalog], T]) -> T:
        """The same as `_change`; buckets are looked up anew from the moment it is durable."""
        generation, done = self._running_generation(), promise()
        done.add_done_callback(lambda _: generation.end())

        def apply_noted(catalog: Catalog) -> T:
            generation.begin()
            return apply(catalog)

        return await self._change(apply_noted, done)

    async def _change(self, apply: Callable[[Catalog], T], done: Future[Any] | None = None) -> T:
        """Queue a change of the catalog; returns when it is durable."""
        done = promise() if done is None else done
        self._running().submit(Work(apply, done))
        result: T = await asyncio.wrap_future(done)
        return result

    async def _publish(
        self,
        staged: Staged,
        draft: ObjectDraft,
        apply: Callable[[Catalog, Placed], T],
        *,
        inline: bool,
    ) -> T:
        writer = self._running()
        sealed = self._publisher.seal(staged, inline=inline)
        return await self._publisher.publish(sealed, draft, writer, apply)

    def _drop(self, dropped: Iterable[Dropped]) -> None:
        self._removals.submit(self._pins.drop, dropped)

    def _running(self) -> Writer:
        if self._writer is None:
            raise InternalError("the store is not started")
        return self._writer

    def _running_generation(self) -> Generation:
        if self._generation is None:
            raise InternalError("the store is not started")
        return self._generation

    # Start and stop, in threads

    def _open(self) -> None:
        root = self._config.root
        with on_disk("making", root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            alone = self._lock.acquire(self._clock(), self._config.start_wait_s)
            durability, files = self._config.durability, self._files
            connection = open_catalog(self._path, durability, files.is_empty, alone=alone)
            try:
                files.prepare()
                self._generation = Generation(root / "generation")
                self._writer = self._recover(connection, alone=alone)
            except BaseException:
                connection.close()
                raise
            self._lock.share()
            files.name_from(self._lock.since_ns)
        except BaseException:
            self._lock.release()
            raise
        _log.info("store %s open%s", root, "" if alone else ", beside others")

    def _recover(self, connection: sqlite3.Connection, *, alone: bool) -> Writer:
        """Expire, let the sweep and the writer begin."""
        expiry_ns = int(self._config.upload_expiry_s * 1e9)
        catalog = Catalog(connection, self._clock, expiry_ns)
        with in_database(self._path), connection:
            connection.execute("BEGIN IMMEDIATE")
            catalog.uploads.expire(lookup.NO_LIMIT)
        self._drop(tuple(catalog.dropped))
        if alone:
            self._running_generation().end()
            self._files.remove(self._files.staged())
            self._sweep = Sweep(self._path, self._files, self._lock.since_ns)
        return Writer(
            self._path,
            connection,
            catalog,
            self._files.sync_directory,
            self._drop,
            self._config.max_pending_changes,
        )

    def _close(self) -> None:
        """In the order in which work flows, so that each stage finishes what it was given."""
        if self._sweep is not None:
            self._sweep.stop()
        self._publisher.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._removals.shutdown()
        self._readers.close()
        if self._generation is not None:
            self._generation.close()
            self._generation = None
        self._lock.release()


def _let_go(opened: StoredObject | MemoryReader) -> None:
    if isinstance(opened, StoredObject):
        opened.release()
