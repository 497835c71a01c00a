"""CompleteMultipartUpload: the parts a client lists become one object, in one step.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from gateway.config import MIB
from gateway.errors import ClientError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.digest import composite_checksum, full_object_checksum
from gateway.s3.documents import checksum_elements, leaf, quoted, version_header
from gateway.s3.multipart import upload_checksum
from gateway.s3.operations import CompleteMultipartUpload
from gateway.s3.query import MAX_PART_NUMBER
from gateway.s3.results import XmlReply
from gateway.storage.port import (
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    Storage,
    UploadInfo,
)
from gateway.wire.checksums import Algorithm, ChecksumType, composite_etag
from gateway.wire.conditional import unquote_etag
from gateway.wire.xml import document, parse_xml, url_encode

MIN_PART_BYTES = 5 * MIB  # every part but the last
_PART_PAGE = 1000


@dataclass(frozen=True, slots=True)
class _Listed:
    """One Part of the client's list; `etag` is unquoted."""

    number: int
    etag: str
    checksums: Mapping[Algorithm, str]


async def complete_upload(
    operation: CompleteMultipartUpload, body: Body, context: Context
) -> XmlReply:
    """Publish the listed parts. The same request again gets the same answer.

    Raises:
        ClientError: MalformedXML, InvalidPartOrder, InvalidPart, EntityTooSmall, BadDigest,
            NoSuchUpload, PreconditionFailed, ….
    """
    storage, bucket, key = context.storage, operation.bucket, operation.key
    limit_bytes = context.limits.max_xml_bytes
    listed = _parse(await body.read(limit_bytes), limit_bytes)
    try:
        upload = await storage.head_upload(bucket, key, operation.upload_id)
    except ClientError as error:
        done = await _finished_before(operation, listed, storage)
        if error.code is not S3Code.NO_SUCH_UPLOAD or done is None:
            raise
        return _reply(done)
    parts = _choose(listed, await _stored_parts(operation, storage))
    draft = _draft(operation, upload, parts)
    info = await storage.complete_upload(
        bucket, key, operation.upload_id, parts, draft, operation.conditions
    )
    return _reply(info)


async def _finished_before(
    operation: CompleteMultipartUpload, listed: Sequence[_Listed], storage: Storage
) -> ObjectInfo | None:
    """What an identical request made of this upload, if one did."""
    info = await storage.completed_upload(operation.bucket, operation.key, operation.upload_id)
    if info is None:
        return None
    return info if _is_of(info, listed) else None


def _is_of(info: ObjectInfo, listed: Sequence[_Listed]) -> bool:
    """Whether an object was made of these parts."""
    if info.parts:
        made_of = [(part.number, part.etag) for part in info.parts]
        return made_of == [(part.number, part.etag) for part in listed]
    try:  # a storage that keeps no list of them: the ETag is made of theirs
        return info.etag == _etag(listed)
    except ValueError:  # what is listed is no MD5
        return False


def _parse(data: bytes, limit_bytes: int) -> tuple[_Listed, ...]:
    """The client's list, its numbers strictly ascending."""
    root = parse_xml(data, limit_bytes)
    listed = tuple(_listed(found) for found in root.findall("Part"))
    if root.tag != "CompleteMultipartUpload" or not 1 <= len(listed) <= MAX_PART_NUMBER:
        raise ClientError(
            S3Code.MALFORMED_XML,
            f"A CompleteMultipartUpload document lists 1 to {MAX_PART_NUMBER} parts.",
        )
    if any(first.number >= second.number for first, second in pairwise(listed)):
        raise ClientError(S3Code.INVALID_PART_ORDER)
    return listed


def _listed(found: Element) -> _Listed:
    number, etag = (found.findtext("PartNumber") or "").strip(), found.findtext("ETag")
    if not (number.isascii() and number.isdigit() and len(number) < 10) or etag is None:
        raise ClientError(S3Code.MALFORMED_XML, "Each Part needs a PartNumber and an ETag.")
    claims = ((algorithm, found.findtext(algorithm.element)) for algorithm in Algorithm)
    return _Listed(
        int(number),
        unquote_etag(etag.strip()),
        {algorithm: value for algorithm, value in claims if value},
    )


async def _stored_parts(
    operation: CompleteMultipartUpload, storage: Storage
) -> dict[int, PartInfo]:
    stored: dict[int, PartInfo] = {}
    after, more = 0, True
    while more:
        page, more = await storage.list_parts(
            operation.bucket, operation.key, operation.upload_id, after, _PART_PAGE
        )
        stored.update((part.number, part) for part in page)
        after = max(stored, default=0)
    return stored


def _choose(listed: Sequence[_Listed], stored: Mapping[int, PartInfo]) -> tuple[PartInfo, ...]:
    """The stored parts that are meant, each what the client says it is and none too small."""
    chosen: list[PartInfo] = []
    for wanted in listed:
        part = stored.get(wanted.number)
        if part is None or part.etag != wanted.etag or not _agrees(wanted, part):
            raise ClientError(
                S3Code.INVALID_PART,
                details={"PartNumber": str(wanted.number), "ETag": wanted.etag},
            )
        chosen.append(part)
    for part in chosen[:-1]:
        if part.size_bytes < MIN_PART_BYTES:
            raise ClientError(
                S3Code.ENTITY_TOO_SMALL,
                details={
                    "ProposedSize": str(part.size_bytes),
                    "MinSizeAllowed": str(MIN_PART_BYTES),
                    "PartNumber": str(part.number),
                    "ETag": part.etag,
                },
            )
    return tuple(chosen)


def _agrees(wanted: _Listed, part: PartInfo) -> bool:
    """Whether every checksum the client repeats is the one the part was stored with."""
    return all(
        part.checksums.get(algorithm, value) == value
        for algorithm, value in wanted.checksums.items()
    )


def _draft(
    operation: CompleteMultipartUpload, upload: UploadInfo, parts: Sequence[PartInfo]
) -> ObjectDraft:
    """The object that the parts make, held against what the client claims of it."""
    size_bytes = sum(part.size_bytes for part in parts)
    if operation.object_size_bytes not in (None, size_bytes):
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"The provided 'x-amz-mp-object-size' header value {operation.object_size_bytes} does "
            f"not match what was computed: {size_bytes}",
        )
    algorithm, kind = upload_checksum(upload)
    if operation.checksum_type not in (None, kind):
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"The upload was created using the {kind.value} checksum mode. The complete request "
            "must use the same checksum mode.",
        )
    checksum = _whole_checksum(algorithm, kind, parts)
    if checksum is not None:
        _verify_claims(operation.checksums, algorithm, checksum)
    elif operation.checksums:
        raise ClientError(
            S3Code.NOT_IMPLEMENTED,
            "The storage keeps no checksums of parts, so that a claim about the whole object can't "
            "be verified; complete the upload without it.",
        )
    return ObjectDraft(
        size_bytes=size_bytes,
        etag=_etag(parts),
        attributes=upload.attributes,
        checksums={} if checksum is None else {algorithm: checksum},
        checksum_type=kind,
        owner=upload.owner,
    )


def _etag(parts: Sequence[PartInfo | _Listed]) -> str:
    return composite_etag([bytes.fromhex(part.etag) for part in parts])


def _whole_checksum(
    algorithm: Algorithm, kind: ChecksumType, parts: Sequence[PartInfo]
) -> str | None:
    """None where the storage did not keep the parts' own."""
    values = [part.checksums[algorithm] for part in parts if algorithm in part.checksums]
    if len(values) < len(parts):
        return None
    if kind is ChecksumType.COMPOSITE:
        return composite_checksum(algorithm, values)
    sizes = (part.size_bytes for part in parts)
    return full_object_checksum(algorithm, list(zip(values, sizes, strict=True)))


def _verify_claims(claims: Mapping[Algorithm, str], algorithm: Algorithm, checksum: str) -> None:
    """The whole object's checksum; a composite may be claimed with its ``-N`` or without."""
    for claimed, value in claims.items():
        if claimed is not algorithm:
            raise ClientError(
                S3Code.INVALID_REQUEST,
                f"The upload was created using the {algorithm.label} checksum, and the complete "
                f"request claims {claimed.label}.",
            )
        if value not in (checksum, checksum.partition("-")[0]):
            raise ClientError(
                S3Code.BAD_DIGEST,
                f"The {claimed.label} you specified did not match the calculated checksum.",
                details={"ExpectedDigest": value, "CalculatedDigest": checksum},
            )


def _reply(info: ObjectInfo) -> XmlReply:
    root = document(
        "CompleteMultipartUploadResult",
        leaf("Location", f"/{info.bucket}/{url_encode(info.key)}"),
        leaf("Bucket", info.bucket),
        leaf("Key", info.key),
        leaf("ETag", quoted(info.etag)),
        *checksum_elements(info.checksums, info.checksum_type),
    )
    return XmlReply(headers=tuple(version_header(info)), root=root)
