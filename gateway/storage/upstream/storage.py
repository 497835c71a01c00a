"""The driver: `Storage` over any S3 service.

What a client says goes upstream in one request where S3 has one for it, and what the service
answers comes back. Conditions are the service's to judge; where it can't, they are refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gateway.config.upstream import UpstreamConfig
from gateway.storage.acting import ACTOR, GATEWAY
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
    ObjectReader,
    PartInfo,
    Permit,
    Staged,
    UploadInfo,
    UploadPage,
    VersionPage,
    VersionQuery,
    permit_all,
)
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.buckets import Buckets
from gateway.storage.upstream.budget import Budget
from gateway.storage.upstream.cache import ReadCache
from gateway.storage.upstream.clients import Secrets
from gateway.storage.upstream.listings import Listings
from gateway.storage.upstream.objects import Objects
from gateway.storage.upstream.probe import probe
from gateway.storage.upstream.ranges import Ranges
from gateway.storage.upstream.reader import UpstreamReader
from gateway.storage.upstream.service import CallError, Service
from gateway.storage.upstream.uploads import Uploads
from gateway.storage.upstream.writes import Writes, part_length
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions


class UpstreamStorage:
    """Started once, stopped once.

    Args:
        own_id: the canonical user id that the gateway's own account has here.
        region: the gateway's own.
        secrets: of the gateway's access keys; asked where users' own keys sign.
        clock: seconds, monotonic.
        abilities: what the service can, where that is known; else it is asked at start.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        own_id: str,
        region: str,
        secrets: Secrets,
        clock: Callable[[], float] = time.monotonic,
        abilities: Abilities | None = None,
    ) -> None:
        self._config = config
        self._own_id = own_id
        self._region = region
        self._clock = clock
        self._known = abilities
        self._service = Service(config, secrets, clock)
        self._budget = Budget(config.buffer_bytes)
        self._cache = _cache_of(config)
        self._equip(abilities or Abilities())

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(versioning=self._abilities.versioning)

    @property
    def abilities(self) -> Abilities:
        """What the service can, as far as it is known."""
        return self._abilities

    def describe(self) -> str:
        """What the service can't, for the operator."""
        missing = ", ".join(self._abilities.missing)
        return f"without {missing}" if missing else "with all that S3 has"

    async def start(self) -> None:
        """Learn what the service can. One that can't be reached is asked again by `check`."""
        if self._cache is not None:
            self._cache.start()
        await self._learn()

    async def stop(self) -> None:
        await self._service.close()

    async def check(self) -> None:
        """Where users' own keys sign, the gateway may have none: then any answer will do."""
        try:
            await self._service.attempt("list_buckets")
        except CallError as failed:
            answered = failed.answer is not None and not failed.answer.broken
            if self._service.own_key or not answered:
                raise failed.error from failed
        await self._learn()

    async def _learn(self) -> None:
        """Ask what the service can, in the gateway's own name, unless that is known."""
        if self._known is not None:
            return
        token = ACTOR.set(GATEWAY)
        try:
            self._known = await probe(self._service)
        finally:
            ACTOR.reset(token)
        if self._known is not None:
            self._equip(self._known)

    def _equip(self, abilities: Abilities) -> None:
        service = self._service
        self._abilities = abilities
        self._buckets = Buckets(
            service, abilities, own_id=self._own_id, region=self._region, clock=self._clock
        )
        self._objects = Objects(service, abilities, self._buckets)
        self._writes = Writes(service, abilities, self._buckets, self._budget)
        self._uploads = Uploads(service, abilities, self._buckets, self._objects)
        self._listings = Listings(service)

    # Buckets

    async def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        return await self._buckets.create(wanted)

    async def update_bucket(
        self, bucket: str, change: Callable[[BucketInfo], BucketInfo]
    ) -> BucketInfo:
        return await self._buckets.update(bucket, change)

    async def head_bucket(self, bucket: str) -> BucketInfo:
        return await self._buckets.get(bucket)

    async def list_buckets(self) -> Sequence[BucketInfo]:
        return await self._buckets.list()

    async def delete_bucket(self, bucket: str) -> None:
        await self._buckets.delete(bucket)

    # Objects

    async def open_object(self, bucket: str, key: str, version_id: str | None) -> ObjectReader:
        info = await self._objects.head(bucket, key, version_id, grants=False)
        ranges = Ranges(self._service, info, version_id)
        if self._cache is not None and self._cache.takes(info):
            return await self._cache.open(info, ranges.fetch)
        return UpstreamReader(
            info,
            ranges,
            segment_bytes=part_length(self._config, None),
            concurrency=self._config.concurrency,
            budget=self._budget,
        )

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        return await self._objects.head(bucket, key, version_id, grants=True)

    async def update_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        return await self._objects.update(bucket, key, version_id, change)

    async def stage(
        self,
        bucket: str,
        size_hint_bytes: int | None = None,
        destination: Destination | None = None,
    ) -> Staged:
        return await self._writes.stage(bucket, size_hint_bytes, destination)

    async def commit_object(
        self,
        staged: Staged,
        bucket: str,
        key: str,
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        return await self._writes.commit_object(staged, bucket, key, draft, conditions)

    async def delete_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions = NO_CONDITIONS,
        owner: str = "",
        permit: Permit = permit_all,
    ) -> Deletion:
        # A marker upstream belongs to whose key signs.
        return await self._objects.delete(bucket, key, version_id, conditions, permit)

    async def list_objects(self, query: ListQuery) -> ListPage:
        return await self._listings.objects(query)

    async def list_versions(self, query: VersionQuery) -> VersionPage:
        return await self._listings.versions(query)

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
            bucket,
            key,
            "",
            time.time_ns(),
            attributes,
            checksum_algorithm,
            checksum_type,
            owner,
        )
        return await self._uploads.create(wanted)

    async def head_upload(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        return await self._uploads.head(bucket, key, upload_id)

    async def commit_part(
        self, staged: Staged, bucket: str, key: str, upload_id: str, number: int, draft: ObjectDraft
    ) -> PartInfo:
        destination = Destination(key, upload_id=upload_id, number=number)
        return await self._writes.commit_part(staged, bucket, destination, draft)

    async def list_parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        return await self._uploads.parts(bucket, key, upload_id, after_number, limit)

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        return await self._uploads.complete(bucket, key, upload_id, parts, draft, conditions)

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        return await self._uploads.completed(bucket, key)

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        await self._uploads.abort(bucket, key, upload_id)

    async def list_uploads(
        self,
        bucket: str,
        prefix: str,
        delimiter: str,
        after_key: str,
        after_upload_id: str,
        limit: int,
    ) -> UploadPage:
        return await self._listings.uploads(
            bucket, prefix, delimiter, after_key, after_upload_id, limit
        )


def _cache_of(config: UpstreamConfig) -> ReadCache | None:
    if not config.cache_bytes:
        return None
    return ReadCache(
        config.cache_dir, config.cache_bytes, part_length(config, None), config.concurrency
    )
