"""GetObjectAttributes: what is known of an object, in one document and without its bytes.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gateway.s3.context import Context
from gateway.s3.documents import checksum_elements, http_date, leaf, truth, version_header
from gateway.s3.operations import GetObjectAttributes, ObjectAttribute
from gateway.s3.results import XmlReply
from gateway.storage.port import ObjectInfo
from gateway.wire.xml import document, element


async def get_object_attributes(operation: GetObjectAttributes, context: Context) -> XmlReply:
    """Only what was asked for, in the order of S3's schema."""
    info = await context.storage.head_object(operation.bucket, operation.key, operation.version_id)
    root = document("GetObjectAttributesResponse")
    for attribute in ObjectAttribute:
        if attribute in operation.wanted:
            root.extend(_elements(attribute, info, operation))
    headers = (("last-modified", http_date(info.modified_ns)), *version_header(info))
    return XmlReply(headers=headers, root=root)


def _elements(
    attribute: ObjectAttribute, info: ObjectInfo, operation: GetObjectAttributes
) -> Iterator[Element]:
    match attribute:
        case ObjectAttribute.ETAG:
            yield leaf("ETag", info.etag)  # without quotes, here alone
        case ObjectAttribute.CHECKSUM if info.checksums:
            yield element("Checksum", *checksum_elements(info.checksums, info.checksum_type))
        case ObjectAttribute.OBJECT_PARTS if info.parts:
            yield _object_parts(info, operation)
        case ObjectAttribute.STORAGE_CLASS:
            yield leaf("StorageClass", info.attributes.storage_class)
        case ObjectAttribute.OBJECT_SIZE:
            yield leaf("ObjectSize", info.size_bytes)


def _object_parts(info: ObjectInfo, operation: GetObjectAttributes) -> Element:
    """A page of the parts, in the same manner as ListParts."""
    after = [part for part in info.parts if part.number > operation.part_number_marker]
    page = after[: operation.max_parts]
    root = element(
        "ObjectParts",
        leaf("PartsCount", len(info.parts)),
        leaf("PartNumberMarker", operation.part_number_marker),
        leaf("NextPartNumberMarker", page[-1].number if page else operation.part_number_marker),
        leaf("MaxParts", operation.max_parts),
        truth("IsTruncated", len(page) < len(after)),
    )
    for part in page:
        shown = element("Part", leaf("PartNumber", part.number), leaf("Size", part.size_bytes))
        shown.extend(
            leaf(algorithm.element, value)
            for algorithm, value in part.checksums.items()
            if algorithm in info.checksums
        )
        root.append(shown)
    return root
