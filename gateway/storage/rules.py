"""What every driver decides in the same way: refusals, drafts, and the list of Complete.

Functions over the port's values, so that the embedded store and the one in memory can't differ.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.errors import ClientError, InternalError, S3Code
from gateway.storage.port import (
    NULL_VERSION,
    BucketInfo,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    Versioning,
)

FIRST_RANK = "f" * 16
"""The rank of a key's first version: what orders them, since their ids say nothing of order."""

_VERSION_ID_BYTES = 16


def fresh_id(now_ns: int) -> str:
    """A new name for a data file or an upload: 32 hex digits that sort by time.

    16 digits of POSIX nanoseconds, so that new rows land beside each other in an index and uploads
    of one key sort as they were initiated; then 64 random bits.
    """
    return f"{now_ns:016x}{secrets.token_hex(8)}"


def version_id_for(versioning: Versioning) -> str:
    """The id of a version made now.

    A version that already has this id goes when the new one comes; only "null" can be there. An id
    is an argument of people's command lines, so it must not look like an option: hex digits only.
    """
    if versioning is Versioning.ENABLED:
        return secrets.token_hex(_VERSION_ID_BYTES)
    return NULL_VERSION


def rank_before(newest: str | None) -> str:
    """The rank of a new version: ranks count down, so that the newest sorts first.

    Args:
        newest: the least rank of the key's versions, None where there are none.
    """
    return FIRST_RANK if newest is None else f"{int(newest, 16) - 1:016x}"


def no_such_bucket(bucket: str) -> ClientError:
    """404, with the bucket's name."""
    return ClientError(S3Code.NO_SUCH_BUCKET, details={"BucketName": bucket})


def no_such_key(key: str) -> ClientError:
    """404, with the key."""
    return ClientError(
        S3Code.NO_SUCH_KEY,
        details={"Key": key},
        headers={"x-amz-delete-marker": "false"},  # Ceph RGW says so where S3 is silent
    )


def no_such_upload(upload_id: str) -> ClientError:
    """404, with the upload's id."""
    return ClientError(S3Code.NO_SUCH_UPLOAD, details={"UploadId": upload_id})


def bucket_exists(there: BucketInfo, owner: str) -> ClientError:
    """409: created already, by `owner` or by somebody else."""
    mine = there.owner == owner
    code = S3Code.BUCKET_ALREADY_OWNED_BY_YOU if mine else S3Code.BUCKET_ALREADY_EXISTS
    return ClientError(code, details={"BucketName": there.name})


def bucket_not_empty(bucket: str) -> ClientError:
    """409: objects remain."""
    return ClientError(S3Code.BUCKET_NOT_EMPTY, details={"BucketName": bucket})


def no_such_version(key: str, version_id: str) -> ClientError:
    """404, with the key and the version."""
    return ClientError(S3Code.NO_SUCH_VERSION, details={"Key": key, "VersionId": version_id})


def hidden_by_marker(marker: ObjectInfo) -> ClientError:
    """404: the key's latest version is a delete marker, which the error's headers name."""
    return ClientError(
        S3Code.NO_SUCH_KEY, details={"Key": marker.key}, headers=_marker_headers(marker)
    )


def marker_has_no_bytes(marker: ObjectInfo) -> ClientError:
    """405: the version that was named is a delete marker, which can only be deleted."""
    return ClientError(
        S3Code.METHOD_NOT_ALLOWED,
        details={"ResourceType": "DeleteMarker"},
        headers=_marker_headers(marker) | {"Allow": "DELETE"},
    )


def _marker_headers(marker: ObjectInfo) -> dict[str, str]:
    return {"x-amz-delete-marker": "true", "x-amz-version-id": marker.version_id}


def reconfigured(before: BucketInfo, after: BucketInfo) -> BucketInfo:
    """What a change may make of a bucket: not another bucket."""
    return replace(
        after,
        name=before.name,
        region=before.region,
        owner=before.owner,
        created_ns=before.created_ns,
    )


def published(
    bucket: str,
    key: str,
    version_id: str,
    draft: ObjectDraft,
    modified_ns: int,
    parts: tuple[PartInfo, ...] = (),
) -> ObjectInfo:
    """The version that a draft becomes."""
    return ObjectInfo(
        bucket=bucket,
        key=key,
        size_bytes=draft.size_bytes,
        etag=draft.etag,
        modified_ns=modified_ns,
        attributes=draft.attributes,
        checksums=draft.checksums,
        checksum_type=draft.checksum_type,
        version_id=version_id,
        parts=parts,
        owner=draft.owner,
    )


def delete_marker(
    bucket: str, key: str, version_id: str, owner: str, modified_ns: int
) -> ObjectInfo:
    """What hides a key whose versions are kept."""
    return ObjectInfo(
        bucket=bucket,
        key=key,
        size_bytes=0,
        etag="",
        modified_ns=modified_ns,
        attributes=ObjectAttributes(),
        version_id=version_id,
        owner=owner,
        delete_marker=True,
    )


def published_part(number: int, draft: ObjectDraft, modified_ns: int) -> PartInfo:
    """The part that a draft becomes."""
    return PartInfo(number, draft.size_bytes, draft.etag, modified_ns, draft.checksums)


def require_length(written_bytes: int, draft: ObjectDraft) -> None:
    """A commit of more or fewer bytes than were staged is a caller's bug: InternalError."""
    if written_bytes != draft.size_bytes:
        raise InternalError(
            f"{written_bytes} bytes were staged, the commit says {draft.size_bytes}; not stored"
        )


def require_inside(offset_bytes: int, length_bytes: int, size_bytes: int) -> None:
    """A range that leaves the object is a caller's bug: ValueError."""
    if not 0 <= offset_bytes <= offset_bytes + length_bytes <= size_bytes:
        raise ValueError(
            f"{length_bytes} bytes at {offset_bytes} leave an object of {size_bytes} bytes"
        )


def choose_parts(
    listed: Sequence[PartInfo], stored: Mapping[int, PartInfo], size_bytes: int
) -> tuple[PartInfo, ...]:
    """The stored parts that CompleteMultipartUpload lists.

    Args:
        listed: as the client (through the verb) saw them.
        stored: the upload's parts at this moment, by number.
        size_bytes: of the whole object, as the verb computed it.

    Raises:
        ClientError: InvalidPartOrder where numbers do not ascend, InvalidPart where one is gone or
            was replaced meanwhile.
        InternalError: the sizes do not add up: a caller's bug.
    """
    numbers = [part.number for part in listed]
    if numbers != sorted(set(numbers)):
        raise ClientError(S3Code.INVALID_PART_ORDER)
    chosen = []
    for part in listed:
        found = stored.get(part.number)
        if found is None or found.etag != part.etag:
            details = {"PartNumber": str(part.number), "ETag": part.etag}
            raise ClientError(S3Code.INVALID_PART, details=details)
        chosen.append(found)
    total_bytes = sum(part.size_bytes for part in chosen)
    if total_bytes != size_bytes:
        raise InternalError(f"the parts hold {total_bytes} bytes, the draft says {size_bytes}")
    return tuple(chosen)


def same_list(result: ObjectInfo, listed: Sequence[PartInfo]) -> bool:
    """Whether a repeated Complete lists what the finished one did."""
    return [(part.number, part.etag) for part in result.parts] == [
        (part.number, part.etag) for part in listed
    ]
