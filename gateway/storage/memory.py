"""A storage in memory that keeps the whole port: for tests, demos, and as the port's plain reading.

Everything happens on the event loop's thread between two awaits, so each method is one step. The
descriptors that the C core needs are memfds, made when somebody asks for one.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from gateway.errors import BusyError, InternalError
from gateway.storage import rules
from gateway.storage.listing import Position, page
from gateway.storage.port import (
    BucketInfo,
    ListPage,
    ListQuery,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    Staged,
    UploadInfo,
    UploadPage,
)
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions, check_write
from gateway.wire.extent import FileExtent

V = TypeVar("V")


class Index(Generic[V]):
    """A dictionary that can be read in order from any position."""

    def __init__(self) -> None:
        self._values: dict[Position, V] = {}
        self._order: list[Position] = []

    def get(self, position: Position) -> V | None:
        return self._values.get(position)

    def put(self, position: Position, value: V) -> None:
        if position not in self._values:
            insort(self._order, position)
        self._values[position] = value

    def pop(self, position: Position) -> V | None:
        if position in self._values:
            del self._order[bisect_left(self._order, position)]
        return self._values.pop(position, None)

    def seek(self, start: Position) -> Iterator[tuple[Position, V]]:
        """The listing's walk over this index."""
        for place in range(bisect_left(self._order, start), len(self._order)):
            position = self._order[place]
            yield position, self._values[position]

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class _Object:
    info: ObjectInfo
    data: bytes


@dataclass(slots=True)
class _Upload:
    info: UploadInfo
    parts: dict[int, tuple[PartInfo, bytes]] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    info: BucketInfo
    objects: Index[_Object] = field(default_factory=Index)
    uploads: Index[_Upload] = field(default_factory=Index)
    completions: dict[Position, ObjectInfo] = field(default_factory=dict)

    def vacate(self, key: str, conditions: Conditions) -> bool:
        """Judge the conditions and take the current object away; whether there was one."""
        current = self.objects.get(_place(key))
        check_write(conditions, current.info.etag if current else None)
        return self.objects.pop(_place(key)) is not None

    def upload(self, key: str, upload_id: str) -> _Upload:
        """Raises NoSuchUpload."""
        found = self.uploads.get(_place(key, upload_id))
        if found is None:
            raise rules.no_such_upload(upload_id)
        return found


class MemoryStaged:
    """Bytes in a bytearray, or in a memfd once somebody asked for its descriptor."""

    def __init__(self, released: Callable[[], None]) -> None:
        self._data = bytearray()
        self._fd: int | None = None
        self._length_bytes = 0
        self._open = True
        self._released = released

    def fileno(self) -> int:
        self._require_open()
        if self._fd is None:
            self._fd = _memfd(bytes(self._data))
        return self._fd

    def written(self, length_bytes: int) -> None:
        self._length_bytes += length_bytes

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self._require_open()
        if self._fd is None:
            self._data += data
        else:
            os.pwrite(self._fd, data, self._length_bytes)
        self._length_bytes += memoryview(data).nbytes

    async def discard(self) -> None:
        if self._open:
            self.take()

    def take(self) -> bytes:
        """All that was written, once; then the place is free again."""
        self._require_open()
        self._open = False
        self._released()
        if self._fd is None:
            return bytes(self._data)
        try:
            return os.pread(self._fd, self._length_bytes, 0)
        finally:
            os.close(self._fd)

    def _require_open(self) -> None:
        if not self._open:
            raise InternalError("a staged place was used after its commit or discard")


class MemoryReader:
    """The object as it was when it was opened."""

    def __init__(self, found: _Object) -> None:
        self._found = found
        self._fd: int | None = None

    @property
    def info(self) -> ObjectInfo:
        return self._found.info

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        rules.require_inside(offset_bytes, length_bytes, len(self._found.data))
        if not length_bytes:
            return ()
        if self._fd is None:
            self._fd = _memfd(self._found.data)
        return (FileExtent(self._fd, offset_bytes, length_bytes),)

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        rules.require_inside(offset_bytes, length_bytes, len(self._found.data))
        return self._found.data[offset_bytes : offset_bytes + length_bytes]

    async def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class MemoryStorage:
    """`Storage` without a disk.

    Args:
        clock: POSIX nanoseconds.
        max_staged: as `store.max_staged`.
    """

    def __init__(self, clock: Callable[[], int] = time.time_ns, max_staged: int = 1024) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._max_staged = max_staged
        self._staged = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        """Nothing to close; the objects stay until the storage goes."""

    async def check(self) -> None:
        """Always ready."""

    # Buckets

    async def create_bucket(self, bucket: str, region: str) -> BucketInfo:
        if bucket in self._buckets:
            raise rules.bucket_exists(bucket)
        info = BucketInfo(bucket, self._clock(), region)
        self._buckets[bucket] = _Bucket(info)
        return info

    async def head_bucket(self, bucket: str) -> BucketInfo:
        return self._bucket(bucket).info

    async def list_buckets(self) -> Sequence[BucketInfo]:
        return tuple(self._buckets[name].info for name in sorted(self._buckets))

    async def delete_bucket(self, bucket: str) -> None:
        if len(self._bucket(bucket).objects):
            raise rules.bucket_not_empty(bucket)
        del self._buckets[bucket]

    # Objects

    async def open_object(self, bucket: str, key: str, version_id: str | None) -> MemoryReader:
        return MemoryReader(self._find(bucket, key, version_id))

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        return self._find(bucket, key, version_id).info

    async def stage(self, bucket: str, size_hint_bytes: int | None = None) -> MemoryStaged:
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
        data = _take(staged, draft)
        home = self._bucket(bucket)
        home.vacate(key, conditions)
        info = rules.published(bucket, key, draft, self._clock())
        home.objects.put(_place(key), _Object(info, data))
        return info

    async def delete_object(
        self, bucket: str, key: str, version_id: str | None, conditions: Conditions = NO_CONDITIONS
    ) -> bool:
        home = self._bucket(bucket)
        return rules.is_current(version_id) and home.vacate(key, conditions)

    async def list_objects(self, query: ListQuery) -> ListPage:
        found = page(self._bucket(query.bucket).objects.seek, query)
        return ListPage(
            objects=tuple(replace(entry.info, parts=()) for entry in found.rows),
            prefixes=tuple(found.prefixes),
            next_after=found.next_key,
        )

    # Multipart

    async def create_upload(
        self,
        bucket: str,
        key: str,
        attributes: ObjectAttributes,
        checksum_algorithm: Algorithm | None,
        checksum_type: ChecksumType | None,
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
        )
        self._bucket(bucket).uploads.put(_place(key, info.upload_id), _Upload(info))
        return info

    async def head_upload(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        return self._bucket(bucket).upload(key, upload_id).info

    async def commit_part(
        self, staged: Staged, bucket: str, key: str, upload_id: str, number: int, draft: ObjectDraft
    ) -> PartInfo:
        data = _take(staged, draft)
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
        home, place = self._bucket(bucket), _place(key, upload_id)
        before = home.completions.get(place)
        if before is not None and rules.same_list(before, parts):
            return before
        stored = home.upload(key, upload_id).parts
        infos = {number: part for number, (part, _) in stored.items()}
        chosen = rules.choose_parts(parts, infos, draft.size_bytes)
        home.vacate(key, conditions)
        info = rules.published(bucket, key, draft, self._clock(), chosen)
        data = b"".join(stored[part.number][1] for part in chosen)
        home.objects.put(_place(key), _Object(info, data))
        home.uploads.pop(place)
        home.completions[place] = info
        return info

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        home = self._buckets.get(bucket)
        return home.completions.get(_place(key, upload_id)) if home else None

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        home = self._bucket(bucket)
        home.upload(key, upload_id)
        home.uploads.pop(_place(key, upload_id))

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
        found = page(self._bucket(bucket).uploads.seek, query, after_upload_id)
        return UploadPage(
            uploads=tuple(entry.info for entry in found.rows),
            prefixes=tuple(found.prefixes),
            next_key=found.next_key,
            next_upload_id=found.next_id,
        )

    def _bucket(self, bucket: str) -> _Bucket:
        """Raises NoSuchBucket."""
        if bucket not in self._buckets:
            raise rules.no_such_bucket(bucket)
        return self._buckets[bucket]

    def _find(self, bucket: str, key: str, version_id: str | None) -> _Object:
        """Raises NoSuchBucket, NoSuchVersion, NoSuchKey."""
        found = self._bucket(bucket).objects.get(_place(key))
        rules.require_current(key, version_id)
        if found is None:
            raise rules.no_such_key(key)
        return found

    def _release(self) -> None:
        self._staged -= 1


def _place(key: str, upload_id: str = "") -> Position:
    return key.encode(), upload_id


def _take(staged: Staged, draft: ObjectDraft) -> bytes:
    if not isinstance(staged, MemoryStaged):
        raise TypeError(f"{type(staged).__name__} was not staged by this storage")
    data = staged.take()
    rules.require_length(len(data), draft)
    return data


def _memfd(data: bytes) -> int:
    fd = os.memfd_create("object", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return fd
