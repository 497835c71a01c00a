"""Multipart uploads: create, upload or copy a part, abort.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

from gateway.errors import ClientError, S3Code
from gateway.s3.authorship import author
from gateway.s3.body import Body, Poured, refuse_longer
from gateway.s3.context import Context
from gateway.s3.documents import (
    checksum_elements,
    checksum_headers,
    iso_time,
    leaf,
    quoted,
    version_header,
)
from gateway.s3.operations import (
    AbortMultipartUpload,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
)
from gateway.s3.results import Reply, XmlReply
from gateway.s3.staging import SourceBody, opened_source, staged_bytes
from gateway.storage.port import Destination, ObjectDraft, PartInfo, UploadInfo
from gateway.telemetry import trail
from gateway.wire.byte_range import RangeSpec
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.extent import Extent
from gateway.wire.xml import document


async def create_upload(operation: CreateMultipartUpload, context: Context) -> XmlReply:
    """A new upload id; attributes and checksum choice are kept for the finished object."""
    authored = await author(operation.bucket, operation.attributes, operation.acl, context)
    upload = await context.storage.create_upload(
        operation.bucket,
        operation.key,
        authored.attributes,
        operation.checksum_algorithm,
        operation.checksum_type,
        authored.owner,
    )
    headers = []
    if upload.checksum_algorithm is not None:
        headers.append(("x-amz-checksum-algorithm", upload.checksum_algorithm.label))
    if upload.checksum_type is not None:
        headers.append(("x-amz-checksum-type", upload.checksum_type.value))
    root = document(
        "InitiateMultipartUploadResult",
        leaf("Bucket", upload.bucket),
        leaf("Key", upload.key),
        leaf("UploadId", upload.upload_id),
    )
    return XmlReply(headers=tuple(headers), root=root)


async def abort_upload(operation: AbortMultipartUpload, context: Context) -> Reply:
    """204; the finished object of a completed upload is out of reach."""
    await context.storage.abort_upload(operation.bucket, operation.key, operation.upload_id)
    return Reply(status=204)


async def upload_part(operation: UploadPart, body: Body, context: Context) -> Reply:
    """The part's ETag is its MD5; a part of the same number is replaced."""
    part = await _store_part(operation, body, context)
    headers = (("etag", quoted(part.etag)), *checksum_headers(part.checksums, None))
    return Reply(headers=headers)


async def upload_part_copy(operation: UploadPartCopy, context: Context) -> XmlReply:
    """A part whose body is another object, or a range of it."""
    async with opened_source(operation.source, context) as reader:
        extent = _source_extent(operation.source_range, reader.info.size_bytes)
        target = UploadPart(
            operation.bucket, operation.key, operation.upload_id, operation.part_number
        )
        part = await _store_part(target, SourceBody(reader, extent), context)
    root = document(
        "CopyPartResult",
        leaf("ETag", quoted(part.etag)),
        leaf("LastModified", iso_time(part.modified_ns)),
        *checksum_elements(part.checksums, None),
    )
    headers = tuple(version_header(reader.info, "x-amz-copy-source-version-id"))
    return XmlReply(headers=headers, root=root)


def upload_checksum(upload: UploadInfo) -> tuple[Algorithm, ChecksumType]:
    """How the finished object is checksummed; CRC64NVME of the whole where nothing was chosen."""
    if upload.checksum_algorithm is None:
        return Algorithm.CRC64NVME, ChecksumType.FULL_OBJECT
    return upload.checksum_algorithm, upload.checksum_type or ChecksumType.COMPOSITE


async def _store_part(operation: UploadPart, body: Body, context: Context) -> PartInfo:
    """Stage, pour, commit, with the checksum that completing the upload will need."""
    refuse_longer(body.length_bytes, context.limits.max_object_bytes)
    storage, bucket, key = context.storage, operation.bucket, operation.key
    upload = await storage.head_upload(bucket, key, operation.upload_id)
    needed, _ = upload_checksum(upload)
    destination = Destination(key, upload_id=operation.upload_id, number=operation.part_number)
    async with staged_bytes(storage, bucket, body.length_bytes, destination) as staged:
        poured = await body.pour(staged, frozenset({needed}))
        trail().object_bytes = poured.size_bytes
        draft = ObjectDraft(
            size_bytes=poured.size_bytes,
            etag=poured.md5.hex(),
            checksums=_part_checksums(upload, poured),
        )
        return await storage.commit_part(
            staged, bucket, key, operation.upload_id, operation.part_number, draft
        )


def _part_checksums(upload: UploadInfo, poured: Poured) -> dict[Algorithm, str]:
    """What a part keeps. A client that declared another algorithm than the upload's is mistaken."""
    chosen = upload.checksum_algorithm
    if chosen is None:
        return dict(poured.checksums)
    for declared in poured.checksums:
        # CRC64NVME is also what a body computes unasked.
        if declared not in (chosen, Algorithm.CRC64NVME):
            raise ClientError(
                S3Code.INVALID_REQUEST,
                f"Checksum Type mismatch occurred, expected checksum Type: {chosen.label.lower()}, "
                f"actual checksum Type: {declared.label.lower()}",
            )
    return {chosen: poured.checksums[chosen]}


def _source_extent(wanted: RangeSpec | None, size_bytes: int) -> Extent:
    """The whole source, or a range that must lie wholly inside it."""
    if wanted is None:
        return Extent(0, size_bytes)
    extent = wanted.resolve(size_bytes)
    if extent is None or wanted.last is None or extent.end_bytes != wanted.last + 1:
        raise ClientError(
            S3Code.INVALID_RANGE,
            f"Range specified is not valid for source object of size: {size_bytes}",
            details={"RangeRequested": wanted.text, "ActualObjectSize": str(size_bytes)},
        )
    return extent
