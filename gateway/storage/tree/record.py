"""What the gateway knows of a file beside its bytes: one extended attribute, set before the name.

The attribute describes the file of one size and one time. When another program has changed the
file, what it says of the content (ETag, checksums, parts) is void; what it says about the object
(headers, tags, grants, owner) stands. xattr(7) gives it the space of about one block, 4 KiB on
ext4: what needs more is in a file of its own (sidecars.py).
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from gateway.errors import InternalError
from gateway.storage.faults import disk_fault
from gateway.storage.port import ObjectAttributes, ObjectInfo, PartInfo
from gateway.storage.rows import (
    decode_attributes,
    decode_checksums,
    decode_part,
    encode_attributes,
    encode_checksums,
)
from gateway.wire.checksums import ChecksumType

OBJECT_XATTR = b"user.s3rdma.object"
"""Of a file: its record. Of a directory: it is an object itself, whose key ends in "/"."""
MADE_XATTR = b"user.s3rdma.made"
"""Of a directory on the way to a key: what the gateway knows of it."""
NEW, MADE = b"new", b"made"
"""The gateway made it: it goes with the last key in it; MADE: and it is durable."""
FOUND = b"found"
"""Another program made it, and it is durable."""
PART_XATTR = b"user.s3rdma.part"

INLINE_MAX_BYTES = 3072
"""Leaves room in one block for the attributes of others (security labels, access lists)."""

_NO_XATTRS = (
    "the file system keeps no extended attributes; mount it with user_xattr, use NFS 4.2 "
    "(Linux 5.9 or newer on both sides), or serve it with tree.read_only"
)
_FULL = (errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Record:
    """The attribute's content.

    Attributes:
        size_bytes / modified_ns: of the file that it describes; of a directory 0 and its own.
        attributes: None where they are in the sidecar.
        sidecar: its name (the upload's id, of a multipart object), or "".
    """

    size_bytes: int
    modified_ns: int
    etag: str
    owner: str = ""
    checksums: str = ""
    checksum_type: ChecksumType = ChecksumType.FULL_OBJECT
    attributes: ObjectAttributes | None = None
    sidecar: str = ""


def record_of(info: ObjectInfo, sidecar: str = "") -> Record:
    """All of an object but its parts."""
    return Record(
        info.size_bytes,
        info.modified_ns,
        info.etag,
        info.owner,
        encode_checksums(info.checksums),
        info.checksum_type,
        info.attributes,
        sidecar,
    )


def encode_record(record: Record) -> bytes:
    """JSON."""
    plain = record.attributes
    fields = (
        record.size_bytes,
        record.modified_ns,
        record.etag,
        record.owner,
        record.checksums,
        record.checksum_type.name,
        None if plain is None else encode_attributes(plain),
        record.sidecar,
    )
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_record(data: bytes) -> Record | None:
    """What `encode_record` made; None for anything else: other programs can write there, too."""
    try:
        size, modified, etag, owner, sums, kind, attributes, sidecar = json.loads(data)
        decode_checksums(sums)
        return Record(
            int(size),
            int(modified),
            str(etag),
            str(owner),
            sums,
            ChecksumType[kind],
            None if attributes is None else decode_attributes(attributes),
            str(sidecar),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def read_xattr(fd: int, name: bytes) -> bytes | None:
    """None where it is not set, or can't be. Raises OSError."""
    try:
        return os.getxattr(fd, name)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return None
        raise


def try_write_xattr(fd: int, name: bytes, data: bytes, path: Path) -> bool:
    """Set it; False where there is no space for it. `path` is for error texts.

    Raises:
        InternalError: the file system has none, or refuses.
    """
    try:
        os.setxattr(fd, name, data)
    except OSError as error:
        if error.errno in _FULL:
            return False
        if error.errno == errno.ENOTSUP:
            raise InternalError(f"{path}: {_NO_XATTRS}") from error
        raise disk_fault("describing", path, error) from error
    return True


def write_xattr(fd: int, name: bytes, data: bytes, path: Path) -> None:
    """Set it. Raises InternalError."""
    if not try_write_xattr(fd, name, data, path):
        raise InternalError(
            f"{path}: no space for {len(data)} bytes of extended attributes; free space there, "
            "remove other programs' attributes, or use XFS, or ext4 with the ea_inode feature"
        )


def weak_etag(stat: os.stat_result) -> str:
    """Of a file that another program wrote: of its inode, size and time, so no byte is read.

    It changes when the content does, as far as the file's time does. The "-0" says that it is no
    MD5: clients verify nothing against an ETag with a dash.
    """
    seen = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}".encode()
    return blake2b(seen, digest_size=16).hexdigest() + "-0"


def encode_part(part: PartInfo) -> bytes:
    """JSON of its columns."""
    sums = encode_checksums(part.checksums)
    columns = (part.number, part.size_bytes, part.etag, part.modified_ns, sums)
    return json.dumps(columns).encode()


def parse_part(data: bytes) -> PartInfo:
    """What `encode_part` made. Raises ValueError for anything else."""
    return decode_part(tuple(json.loads(data)))
