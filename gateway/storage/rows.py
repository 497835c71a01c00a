"""The port's values as rows of the catalog, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.storage.port import (
    BucketInfo,
    ObjectAttributes,
    ObjectInfo,
    PartInfo,
    UploadInfo,
)
from gateway.wire.checksums import Algorithm, ChecksumType

Row = tuple[Any, ...]  # sqlite3 gives no types; the schema is STRICT

OBJECT_COLUMNS = (
    "key, version_id, size_bytes, etag, modified_ns, attributes, checksums, checksum_type, content"
)
UPLOAD_COLUMNS = "key, upload_id, initiated_ns, attributes, checksum_algorithm, checksum_type"
PIECE_COLUMNS = "number, size_bytes, etag, modified_ns, checksums, file"

_PLAIN = ObjectAttributes()


@dataclass(frozen=True, slots=True)
class Piece:
    """One data file of a content; number 0 is a plain object's only one."""

    part: PartInfo
    file: str


def encode_attributes(attributes: ObjectAttributes) -> str:
    """JSON; "" for the defaults, which most small objects have."""
    if attributes == _PLAIN:
        return ""
    return json.dumps(
        {
            "headers": dict(attributes.headers),
            "metadata": dict(attributes.metadata),
            "tags": attributes.tags,
            "storage_class": attributes.storage_class,
        }
    )


def decode_attributes(text: str) -> ObjectAttributes:
    """What `encode_attributes` made."""
    if not text:
        return _PLAIN
    fields = json.loads(text)
    return ObjectAttributes(
        headers=fields["headers"],
        metadata=fields["metadata"],
        tags=tuple((key, value) for key, value in fields["tags"]),
        storage_class=fields["storage_class"],
    )


def encode_checksums(checksums: Mapping[Algorithm, str]) -> str:
    """`CRC32=AAAAAA== SHA256=…`: base64 has no space, and split is faster than JSON."""
    return " ".join(f"{algorithm.name}={value}" for algorithm, value in checksums.items())


def decode_checksums(text: str) -> dict[Algorithm, str]:
    """What `encode_checksums` made."""
    pairs = (word.split("=", 1) for word in text.split())
    return {Algorithm[name]: value for name, value in pairs}


def decode_bucket(row: Row) -> BucketInfo:
    """`row` is (name, created_ns, region)."""
    return BucketInfo(*row)


def decode_object(bucket: str, row: Row, parts: tuple[PartInfo, ...] = ()) -> ObjectInfo:
    """`row` is OBJECT_COLUMNS."""
    key, version_id, size_bytes, etag, modified_ns, attributes, checksums, kind, _ = row
    return ObjectInfo(
        bucket=bucket,
        key=key.decode(),
        size_bytes=size_bytes,
        etag=etag,
        modified_ns=modified_ns,
        attributes=decode_attributes(attributes),
        checksums=decode_checksums(checksums),
        checksum_type=ChecksumType[kind],
        version_id=version_id,
        parts=parts,
    )


def decode_upload(bucket: str, row: Row) -> UploadInfo:
    """`row` is UPLOAD_COLUMNS."""
    key, upload_id, initiated_ns, attributes, algorithm, kind = row
    return UploadInfo(
        bucket=bucket,
        key=key.decode(),
        upload_id=upload_id,
        initiated_ns=initiated_ns,
        attributes=decode_attributes(attributes),
        checksum_algorithm=Algorithm[algorithm] if algorithm else None,
        checksum_type=ChecksumType[kind] if kind else None,
    )


def decode_piece(row: Row) -> Piece:
    """`row` is PIECE_COLUMNS."""
    number, size_bytes, etag, modified_ns, checksums, file = row
    return Piece(PartInfo(number, size_bytes, etag, modified_ns, decode_checksums(checksums)), file)


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
    """What `encode_result` made."""
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
    )
