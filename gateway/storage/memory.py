"""A storage in memory that keeps the whole port: for tests, demos, and as the port's plain reading.

Everything happens on the event loop's thread between two awaits, so each method is one step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.errors import BusyError
from gateway.storage import rules
from gateway.storage.listing import page, version_page
from gateway.storage.memory_bucket import MemoryBucket, MemoryUpload, place
from gateway.storage.memory_bytes import MemoryReader, MemoryStaged, take
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
    Versioning,
    VersionPage,
    VersionQuery,
    permit_all,
)
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions, check_delete


class MemoryStorage:
    """`Storage` without a disk.

    Args:
        clock: POSIX nanoseconds.
        max_staged: as `store.max_staged`.
    """

    capabilities = Capabilities()

    def __init__(self, clock: Callable[[], int] = time.time_ns, max_staged: int = 1024) -> None:
        self._clock = clock
        self._buckets: dict[str, MemoryBucket] = {}
        self._max_staged = max_staged
        self._staged = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        """Nothing to close; the objects stay until the storage goes."""

    async def check(self) -> None:
        """Always ready."""

    # Buckets

    async def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        there = self._buckets.get(wanted.name)
        if there is not None:
            raise rules.bucket_exists(there.info, wanted.owner)
        info = replace(wanted, created_ns=self._clock())
        self._buckets[info.name] = MemoryBucket(info)
        return info

    async def update_bucket(
        self, bucket: str, change: Callable[[BucketInfo], BucketInfo]
    ) -> BucketInfo:
        home = self._bucket(bucket)
        home.info = rules.reconfigured(home.info, change(home.info))
        return home.info

    async def head_bucket(self, bucket: str) -> BucketInfo:
        return self._bucket(bucket).info

    async def list_buckets(self) -> Sequence[BucketInfo]:
        return tuple(self._buckets[name].info for name in sorted(self._buckets))

    async def delete_bucket(self, bucket: str) -> None:
        if len(self._bucket(bucket).versions):
            raise rules.bucket_not_empty(bucket)
        del self._buckets[bucket]

    # Objects

    async def open_object(self, bucket: str, key: str, version_id: str | None) -> MemoryReader:
        found = self._bucket(bucket).readable(key, version_id)
        return MemoryReader(found.info, found.data)

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        return self._bucket(bucket).readable(key, version_id).info

    async def update_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        home = self._bucket(bucket)
        found = home.readable(key, version_id)
        info = replace(found.info, attributes=change(found.info))
        home.versions.put(found.place, replace(found, info=info))
        return info

    async def stage(
        self,
        bucket: str,
        size_hint_bytes: int | None = None,
        destination: Destination | None = None,
    ) -> MemoryStaged:
        self._bucket(bucket)
        if self._staged == self._max_staged:
            raise BusyError(f"{self._max_staged} uploads are under way (store.max_staged)")
        self._staged += 1
        return MemoryStaged(self._release)

    async def commit_object(
        self,
        staged: Staged,
        bucket: str,
        key: str,
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        data = take(staged, draft)
        home = self._bucket(bucket)
        home.judge(key, conditions)
        version_id = rules.version_id_for(home.info.versioning)
        info = rules.published(bucket, key, version_id, draft, self._clock())
        home.add(info, data)
        return info

    async def delete_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions = NO_CONDITIONS,
        owner: str = "",
        permit: Permit = permit_all,
    ) -> Deletion:
        home = self._bucket(bucket)
        state = home.info.versioning
        target = home.latest(key) if version_id is None else home.version(key, version_id)
        check_delete(conditions, target.info if target else None)
        hides = version_id is None and state is not Versioning.OFF
        if hides and (target is not None or conditions == NO_CONDITIONS):
            marker_id = rules.version_id_for(state)
            replaced = home.version(key, marker_id)
            if replaced is not None:
                permit(replaced.info)
            home.add(rules.delete_marker(bucket, key, marker_id, owner, self._clock()))
            existed = target is not None and not target.info.delete_marker
            return Deletion(existed, marker_id, delete_marker=True)
        if target is None:
            return Deletion(existed=False)
        permit(target.info)
        home.versions.pop(target.place)
        named = None if state is Versioning.OFF else target.info.version_id
        return Deletion(True, named, target.info.delete_marker)

    async def list_objects(self, query: ListQuery) -> ListPage:
        found = page(self._bucket(query.bucket).seek_visible, query)
        return ListPage(
            objects=tuple(replace(info, parts=()) for info in found.rows),
            prefixes=tuple(found.prefixes),
            next_after=found.next_key,
        )

    async def list_versions(self, query: VersionQuery) -> VersionPage:
        home = self._bucket(query.bucket)
        marker = home.version(query.after_key, query.after_version)
        found = version_page(home.seek_versions, query, marker.place[1] if marker else "")
        return replace(found, versions=tuple(replace(info, parts=()) for info in found.versions))

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
        now_ns = self._clock()
        info = UploadInfo(
            bucket,
            key,
            rules.fresh_id(now_ns),
            now_ns,
            attributes,
            checksum_algorithm,
            checksum_type,
            owner,
        )
        self._bucket(bucket).uploads.put(place(key, info.upload_id), MemoryUpload(info))
        return info

    async def head_upload(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        return self._bucket(bucket).upload(key, upload_id).info

    async def commit_part(
        self, staged: Staged, bucket: str, key: str, upload_id: str, number: int, draft: ObjectDraft
    ) -> PartInfo:
        data = take(staged, draft)
        upload = self._bucket(bucket).upload(key, upload_id)
        part = rules.published_part(number, draft, self._clock())
        upload.parts[number] = (part, data)
        return part

    async def list_parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        parts = self._bucket(bucket).upload(key, upload_id).parts
        numbers = sorted(number for number in parts if number > after_number)
        shown = tuple(parts[number][0] for number in numbers[:limit])
        return shown, limit > 0 and len(numbers) > limit

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        home, where = self._bucket(bucket), place(key, upload_id)
        before = home.completions.get(where)
        if before is not None and rules.same_list(before, parts):
            return before
        stored = home.upload(key, upload_id).parts
        infos = {number: part for number, (part, _) in stored.items()}
        chosen = rules.choose_parts(parts, infos, draft.size_bytes)
        home.judge(key, conditions)
        version_id = rules.version_id_for(home.info.versioning)
        info = rules.published(bucket, key, version_id, draft, self._clock(), chosen)
        home.add(info, b"".join(stored[part.number][1] for part in chosen))
        home.uploads.pop(where)
        home.completions[where] = info
        return info

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        home = self._buckets.get(bucket)
        return home.completions.get(place(key, upload_id)) if home else None

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        home = self._bucket(bucket)
        home.upload(key, upload_id)
        home.uploads.pop(place(key, upload_id))

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
        found = page(self._bucket(bucket).uploads.seek, query, after_upload_id or None)
        return UploadPage(
            uploads=tuple(entry.info for entry in found.rows),
            prefixes=tuple(found.prefixes),
            next_key=found.next_key,
            next_upload_id=found.next_id,
        )

    def _bucket(self, bucket: str) -> MemoryBucket:
        """Raises NoSuchBucket."""
        if bucket not in self._buckets:
            raise rules.no_such_bucket(bucket)
        return self._buckets[bucket]

    def _release(self) -> None:
        self._staged -= 1
