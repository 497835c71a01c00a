"""One bucket of the storage in memory: its versions and its uploads, in the order of listings."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from gateway.storage import rules
from gateway.storage.listing import Position
from gateway.storage.port import NULL_VERSION, BucketInfo, ObjectInfo, PartInfo, UploadInfo
from gateway.wire.conditional import Conditions, check_write

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
class MemoryVersion:
    """A version and its bytes (b"" of a delete marker); `place` is (key, rank)."""

    info: ObjectInfo
    data: bytes
    place: Position


@dataclass(slots=True)
class MemoryUpload:
    """An upload in progress: its parts, with their bytes, by number."""

    info: UploadInfo
    parts: dict[int, tuple[PartInfo, bytes]] = field(default_factory=dict)


@dataclass(slots=True)
class MemoryBucket:
    """What a bucket holds.

    Attributes:
        versions: all of them, delete markers too, by (key, rank).
        uploads: by (key, upload id).
        completions: what Complete answered, by (key, upload id).
    """

    info: BucketInfo
    versions: Index[MemoryVersion] = field(default_factory=Index)
    uploads: Index[MemoryUpload] = field(default_factory=Index)
    completions: dict[Position, ObjectInfo] = field(default_factory=dict)

    def of_key(self, key: str) -> Iterator[MemoryVersion]:
        """A key's versions, the newest first; `latest` is right in each."""
        latest = True
        for (found, _), version in self.versions.seek(place(key)):
            if found != key.encode():
                return
            yield replace(version, info=replace(version.info, latest=latest))
            latest = False

    def latest(self, key: str) -> MemoryVersion | None:
        """What the key alone names, be it a delete marker; None where it has no versions."""
        return next(self.of_key(key), None)

    def version(self, key: str, version_id: str) -> MemoryVersion | None:
        """The version of that id."""
        same = (one for one in self.of_key(key) if one.info.version_id == version_id)
        return next(same, None)

    def readable(self, key: str, version_id: str | None) -> MemoryVersion:
        """Raises NoSuchKey, NoSuchVersion, MethodNotAllowed as the port says."""
        if version_id is None:
            latest = self.latest(key)
            if latest is None:
                raise rules.no_such_key(key)
            if latest.info.delete_marker:
                raise rules.hidden_by_marker(latest.info)
            return latest
        named = self.version(key, version_id)
        if named is None:
            raise rules.no_such_version(key, version_id)
        if named.info.delete_marker:
            raise rules.marker_has_no_bytes(named.info)
        return named

    def judge(self, key: str, conditions: Conditions) -> None:
        """Hold a write's conditions against what is visible. Raises as `check_write`."""
        latest = self.latest(key)
        visible = latest is not None and not latest.info.delete_marker
        check_write(conditions, latest.info if latest and visible else None)

    def add(self, info: ObjectInfo, data: bytes = b"") -> None:
        """Make a version the key's latest. One that already has its id is removed."""
        if info.version_id == NULL_VERSION:
            before = self.version(info.key, NULL_VERSION)
            if before is not None:
                self.versions.pop(before.place)
        newest = self.latest(info.key)
        rank = rules.rank_before(newest.place[1] if newest else None)
        where = place(info.key, rank)
        self.versions.put(where, MemoryVersion(info, data, where))

    def seek_visible(self, start: Position) -> Iterator[tuple[Position, ObjectInfo]]:
        """The walk of a listing of objects."""
        key_before = None
        for (key, _), version in self.versions.seek(start):
            if key != key_before and not version.info.delete_marker:
                yield (key, ""), version.info
            key_before = key

    def seek_versions(self, start: Position) -> Iterator[tuple[Position, ObjectInfo]]:
        """The walk of a listing of versions."""
        for where, version in self.versions.seek(start):
            yield where, version.info

    def upload(self, key: str, upload_id: str) -> MemoryUpload:
        """Raises NoSuchUpload."""
        found = self.uploads.get(place(key, upload_id))
        if found is None:
            raise rules.no_such_upload(upload_id)
        return found


def place(key: str, within: str = "") -> Position:
    """Where a key's row stands in an index."""
    return key.encode(), within
