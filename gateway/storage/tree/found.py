"""A key's file as it is now: opened, and described by what its attribute still says truly."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from stat import S_ISDIR, S_ISREG

from gateway.storage.faults import on_disk
from gateway.storage.port import ObjectAttributes, ObjectInfo
from gateway.storage.rows import decode_checksums
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.paths import KeyPath
from gateway.storage.tree.record import (
    OBJECT_XATTR,
    Record,
    decode_record,
    read_xattr,
    weak_etag,
)
from gateway.storage.tree.sidecars import read_sidecar

_LOOKS = 3
"""An object whose sidecar is gone was replaced since it was opened: look again, then it is lost."""

_PLAIN = ObjectAttributes()


@dataclass(frozen=True, slots=True)
class Found:
    """An open object.

    Attributes:
        fd: readable; whoever holds this closes it.
        info: without its parts, unless they were asked for.
        sidecar: the name of its sidecar, or "".
    """

    fd: int
    info: ObjectInfo
    sidecar: str = ""

    def close(self) -> None:
        os.close(self.fd)


def find(bucket: Bucket, key: str, where: KeyPath, *, with_parts: bool = False) -> Found | None:
    """Open what is at a key; None where no object is.

    With `with_parts`, `info.parts` are filled in, which costs another read.

    Raises:
        ClientError: AccessDenied, as `Bucket.open`.
        InternalError.
    """
    looks = 0
    while True:
        looks += 1
        fd = bucket.open(where.path)
        if fd is None:
            return None
        kept = False
        try:
            found, whole = _look(bucket, key, where, fd, with_parts)
            if found is None:
                return None
            if whole or looks == _LOOKS:
                kept = True
                return found
        finally:
            if not kept:
                os.close(fd)


def _look(
    bucket: Bucket, key: str, where: KeyPath, fd: int, with_parts: bool
) -> tuple[Found | None, bool]:
    """What an open file is, and whether all is there that was wanted of it."""
    with on_disk("reading", bucket.path / os.fsdecode(where.path)):
        stat = os.fstat(fd)
        if not (S_ISDIR if where.directory else S_ISREG)(stat.st_mode):
            return None, True
        data = read_xattr(fd, OBJECT_XATTR)
    record = None if data is None else decode_record(data)
    if record is None:
        if where.directory:
            return None, True
        return Found(fd, _foreign(bucket.name, key, stat)), True
    same = where.directory or (record.size_bytes, record.modified_ns) == (
        stat.st_size,
        stat.st_mtime_ns,
    )
    info = (
        _described(bucket.name, key, record) if same else _changed(bucket.name, key, stat, record)
    )
    wants_parts = with_parts and same and bool(record.sidecar)
    if record.attributes is not None and not wants_parts:
        return Found(fd, info, record.sidecar), True
    more = read_sidecar(bucket.meta, bucket.name, record.sidecar)
    if more is not None:
        attributes = more.attributes if record.attributes is None else record.attributes
        info = replace(info, attributes=attributes, parts=more.parts if wants_parts else ())
    return Found(fd, info, record.sidecar), more is not None


def _foreign(bucket: str, key: str, stat: os.stat_result) -> ObjectInfo:
    """A file that another program made."""
    return ObjectInfo(bucket, key, stat.st_size, weak_etag(stat), stat.st_mtime_ns, _PLAIN)


def _described(bucket: str, key: str, record: Record) -> ObjectInfo:
    """A file that is as the gateway left it."""
    return ObjectInfo(
        bucket,
        key,
        record.size_bytes,
        record.etag,
        record.modified_ns,
        record.attributes or _PLAIN,
        decode_checksums(record.checksums),
        record.checksum_type,
        owner=record.owner,
    )


def _changed(bucket: str, key: str, stat: os.stat_result, record: Record) -> ObjectInfo:
    """A file that another program wrote into: its content is new, its meaning to clients stays."""
    foreign = _foreign(bucket, key, stat)
    return replace(foreign, attributes=record.attributes or _PLAIN, owner=record.owner)
