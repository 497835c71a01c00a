"""ListMultipartUploads and ListParts.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

from gateway.auth.accounts import Accounts
from gateway.s3.context import Context
from gateway.s3.documents import (
    checksum_elements,
    common_prefixes,
    encoding_type,
    iso_time,
    leaf,
    owned_by,
    quoted,
    shown,
    shown_delimiter,
    truth,
)
from gateway.s3.operations import ListMultipartUploads, ListParts
from gateway.s3.results import XmlReply
from gateway.storage.port import PartInfo, UploadInfo
from gateway.wire.xml import document, element


async def list_uploads(operation: ListMultipartUploads, context: Context) -> XmlReply:
    """Uploads in progress, by key and then by age; pages may break within one key.

    An upload-id marker counts only beside a key marker.
    """
    show = shown(operation.encode)
    upload_id_marker = operation.upload_id_marker if operation.key_marker else ""
    page = await context.storage.list_uploads(
        operation.bucket,
        operation.prefix,
        operation.delimiter,
        operation.key_marker,
        upload_id_marker,
        operation.max_uploads,
    )
    root = document(
        "ListMultipartUploadsResult",
        leaf("Bucket", operation.bucket),
        leaf("KeyMarker", show(operation.key_marker)),
        leaf("UploadIdMarker", upload_id_marker),
        leaf("Prefix", show(operation.prefix)),
        leaf("MaxUploads", operation.max_uploads),
        *shown_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_key is not None),
    )
    if page.next_key is not None:
        root.append(leaf("NextKeyMarker", show(page.next_key)))
        root.append(leaf("NextUploadIdMarker", page.next_upload_id or ""))
    root.extend(_upload(upload, show, context.accounts) for upload in page.uploads)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


async def list_parts(operation: ListParts, context: Context) -> XmlReply:
    """The parts of an upload in progress, by number."""
    storage, bucket, key = context.storage, operation.bucket, operation.key
    upload = await storage.head_upload(bucket, key, operation.upload_id)
    parts, more = await storage.list_parts(
        bucket, key, operation.upload_id, operation.part_number_marker, operation.max_parts
    )
    root = document(
        "ListPartsResult",
        leaf("Bucket", bucket),
        leaf("Key", shown(operation.encode)(key)),
        leaf("UploadId", operation.upload_id),
        leaf("PartNumberMarker", operation.part_number_marker),
        leaf("MaxParts", operation.max_parts),
        truth("IsTruncated", more),
        *encoding_type(operation.encode),
        *_owners(upload, context.accounts),
        leaf("StorageClass", upload.attributes.storage_class),
        *_checksum_choice(upload),
    )
    if parts:
        root.append(leaf("NextPartNumberMarker", parts[-1].number))
    root.extend(_part(part) for part in parts)
    return XmlReply(root=root)


def _upload(upload: UploadInfo, show: Callable[[str], str], accounts: Accounts) -> Element:
    return element(
        "Upload",
        leaf("Key", show(upload.key)),
        leaf("UploadId", upload.upload_id),
        *_owners(upload, accounts),
        leaf("StorageClass", upload.attributes.storage_class),
        leaf("Initiated", iso_time(upload.initiated_ns)),
        *_checksum_choice(upload),
    )


def _owners(upload: UploadInfo, accounts: Accounts) -> tuple[Element, Element]:
    """Who began it, and whose object it will be: the same account."""
    return owned_by(upload.owner, accounts, "Initiator"), owned_by(upload.owner, accounts)


def _checksum_choice(upload: UploadInfo) -> Iterator[Element]:
    if upload.checksum_algorithm is not None:
        yield leaf("ChecksumAlgorithm", upload.checksum_algorithm.label)
    if upload.checksum_type is not None:
        yield leaf("ChecksumType", upload.checksum_type.value)


def _part(part: PartInfo) -> Element:
    return element(
        "Part",
        leaf("PartNumber", part.number),
        leaf("LastModified", iso_time(part.modified_ns)),
        leaf("ETag", quoted(part.etag)),
        leaf("Size", part.size_bytes),
        *checksum_elements(part.checksums, None),
    )
