"""The port's values as rows of the catalog, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.storage.port import (
    BucketInfo,
    ObjectAttributes,
    ObjectInfo,
    PartInfo,
    Retention,
    RetentionMode,
    UploadInfo,
    Versioning,
)
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.grants import Grant, Group, Permission

Row = tuple[Any, ...]  # sqlite3 gives no types; the schema is STRICT

BUCKET_COLUMNS = "name, created_ns, region, owner, versioning, object_lock, grants, settings"
VERSION_COLUMNS = (
    "key, rank, version_id, content, size_bytes, etag, modified_ns, attributes, checksums, "
    "checksum_type, owner"
)
UPLOAD_COLUMNS = (
    "key, upload_id, initiated_ns, attributes, checksum_algorithm, checksum_type, owner"
)
PART_COLUMNS = "number, size_bytes, etag, modified_ns, checksums"
PIECE_COLUMNS = f"{PART_COLUMNS}, file, summed, damage, data"

_PLAIN = ObjectAttributes()


@dataclass(frozen=True, slots=True)
class Piece:
    """One run of bytes of a content; number 0 is a plain object's only one.

    Attributes:
        file: the data file that holds it, or None where `data` does.
        summed: whether it has its sums behind it (blocks.py), in the file as in `data`.
        damage: why it is out of service, None while it is whole.
    """

    part: PartInfo
    file: str | None
    summed: bool = True
    damage: str | None = None
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A row of `objects` or `history`.

    Attributes:
        info: without its parts.
        rank: where it stands among the versions of its key (rules.FIRST_RANK).
        content: whose pieces are its bytes; None of a delete marker.
    """

    info: ObjectInfo
    rank: str
    content: str | None


def put_row(connection: sqlite3.Connection, table: str, row: Row, how: str = "INSERT") -> bool:
    """Write a whole row; `how` is INSERT, INSERT OR IGNORE or REPLACE. Whether it was written."""
    marks = ", ".join("?" * len(row))
    return connection.execute(f"{how} INTO {table} VALUES ({marks})", row).rowcount > 0


def encode_attributes(attributes: ObjectAttributes) -> str:
    """JSON; "" for the defaults, which most small objects have."""
    if attributes == _PLAIN:
        return ""
    retention = attributes.retention
    return json.dumps(
        {
            "headers": dict(attributes.headers),
            "metadata": dict(attributes.metadata),
            "tags": attributes.tags,
            "storage_class": attributes.storage_class,
            "grants": _grant_pairs(attributes.grants),
            "retention": (retention.mode.name, retention.until_ns) if retention else None,
            "legal_hold": attributes.legal_hold,
        }
    )


def decode_attributes(text: str) -> ObjectAttributes:
    """What `encode_attributes` made, also that of schema 1, which had no grants and no locks."""
    if not text:
        return _PLAIN
    fields = json.loads(text)
    retention = fields.get("retention")
    return ObjectAttributes(
        headers=fields["headers"],
        metadata=fields["metadata"],
        tags=tuple((key, value) for key, value in fields["tags"]),
        storage_class=fields["storage_class"],
        grants=_grants(fields.get("grants", ())),
        retention=Retention(RetentionMode[retention[0]], retention[1]) if retention else None,
        legal_hold=fields.get("legal_hold", False),
    )


def _grant_pairs(grants: Sequence[Grant]) -> list[tuple[str, str]]:
    """(grantee, permission); a group is its URI, which no account's id looks like."""
    return [
        (
            grant.grantee.value if isinstance(grant.grantee, Group) else grant.grantee,
            grant.permission.name,
        )
        for grant in grants
    ]


def _grants(pairs: Sequence[Sequence[str]]) -> tuple[Grant, ...]:
    groups = {group.value: group for group in Group}
    return tuple(
        Grant(groups.get(grantee, grantee), Permission[permission]) for grantee, permission in pairs
    )


def encode_checksums(checksums: Mapping[Algorithm, str]) -> str:
    """`CRC32=AAAAAA== SHA256=…`: base64 has no space, and split is faster than JSON."""
    return " ".join(f"{algorithm.name}={value}" for algorithm, value in checksums.items())


def decode_checksums(text: str) -> dict[Algorithm, str]:
    """What `encode_checksums` made."""
    pairs = (word.split("=", 1) for word in text.split())
    return {Algorithm[name]: value for name, value in pairs}


def encode_bucket(info: BucketInfo) -> Row:
    """BUCKET_COLUMNS of a bucket."""
    return (
        info.name,
        info.created_ns,
        info.region,
        info.owner,
        info.versioning.name,
        info.object_lock,
        json.dumps(_grant_pairs(info.grants)),
        json.dumps(dict(info.settings)),
    )


def decode_bucket(row: Row) -> BucketInfo:
    """`row` is BUCKET_COLUMNS."""
    name, created_ns, region, owner, versioning, object_lock, grants, settings = row
    return BucketInfo(
        name=name,
        created_ns=created_ns,
        region=region,
        owner=owner,
        versioning=Versioning[versioning],
        object_lock=bool(object_lock),
        grants=_grants(json.loads(grants)),
        settings=json.loads(settings),
    )


def encode_version(version: Version) -> Row:
    """VERSION_COLUMNS of a version."""
    info = version.info
    return (
        info.key.encode(),
        version.rank,
        info.version_id,
        version.content,
        info.size_bytes,
        info.etag,
        info.modified_ns,
        encode_attributes(info.attributes),
        encode_checksums(info.checksums),
        info.checksum_type.name,
        info.owner,
    )


def decode_version(bucket: str, row: Row, *, latest: bool) -> Version:
    """`row` is VERSION_COLUMNS."""
    key, rank, version_id, content, size_bytes, etag, modified_ns, *rest = row
    attributes, checksums, kind, owner = rest
    info = ObjectInfo(
        bucket=bucket,
        key=key.decode(),
        size_bytes=size_bytes,
        etag=etag,
        modified_ns=modified_ns,
        attributes=decode_attributes(attributes),
        checksums=decode_checksums(checksums),
        checksum_type=ChecksumType[kind],
        version_id=version_id,
        owner=owner,
        delete_marker=content is None,
        latest=latest,
    )
    return Version(info, rank, content)


def encode_upload(info: UploadInfo) -> Row:
    """UPLOAD_COLUMNS of an upload."""
    return (
        info.key.encode(),
        info.upload_id,
        info.initiated_ns,
        encode_attributes(info.attributes),
        info.checksum_algorithm.name if info.checksum_algorithm else None,
        info.checksum_type.name if info.checksum_type else None,
        info.owner,
    )


def decode_upload(bucket: str, row: Row) -> UploadInfo:
    """`row` is UPLOAD_COLUMNS."""
    key, upload_id, initiated_ns, attributes, algorithm, kind, owner = row
    return UploadInfo(
        bucket=bucket,
        key=key.decode(),
        upload_id=upload_id,
        initiated_ns=initiated_ns,
        attributes=decode_attributes(attributes),
        checksum_algorithm=Algorithm[algorithm] if algorithm else None,
        checksum_type=ChecksumType[kind] if kind else None,
        owner=owner,
    )


def decode_part(row: Row) -> PartInfo:
    """`row` is PART_COLUMNS."""
    number, size_bytes, etag, modified_ns, checksums = row
    return PartInfo(number, size_bytes, etag, modified_ns, decode_checksums(checksums))


def decode_piece(row: Row) -> Piece:
    """`row` is PIECE_COLUMNS."""
    *part, file, summed, damage, data = row
    return Piece(decode_part(tuple(part)), file, bool(summed), damage, data)


def encode_result(info: ObjectInfo) -> str:
    """A finished upload's whole answer: the object may be gone when a client asks for it again."""
    return json.dumps(
        {
            "size_bytes": info.size_bytes,
            "etag": info.etag,
            "modified_ns": info.modified_ns,
            "attributes": encode_attributes(info.attributes),
            "checksums": encode_checksums(info.checksums),
            "checksum_type": info.checksum_type.name,
            "version_id": info.version_id,
            "owner": info.owner,
            "parts": [
                (
                    part.number,
                    part.size_bytes,
                    part.etag,
                    part.modified_ns,
                    encode_checksums(part.checksums),
                )
                for part in info.parts
            ],
        }
    )


def decode_result(bucket: str, key: str, text: str) -> ObjectInfo:
    """What `encode_result` made, also that of schema 1, which had no owners."""
    fields = json.loads(text)
    return ObjectInfo(
        bucket=bucket,
        key=key,
        size_bytes=fields["size_bytes"],
        etag=fields["etag"],
        modified_ns=fields["modified_ns"],
        attributes=decode_attributes(fields["attributes"]),
        checksums=decode_checksums(fields["checksums"]),
        checksum_type=ChecksumType[fields["checksum_type"]],
        version_id=fields["version_id"],
        parts=tuple(
            PartInfo(number, size_bytes, etag, modified_ns, decode_checksums(checksums))
            for number, size_bytes, etag, modified_ns, checksums in fields["parts"]
        ),
        owner=fields.get("owner", ""),
    )
