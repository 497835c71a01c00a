"""CopyObject: a PutObject whose body is another object.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
"""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import ClientError, S3Code
from gateway.s3.context import Context
from gateway.s3.documents import checksum_elements, iso_time, leaf, quoted, version_header
from gateway.s3.operations import CopyObject, PutObject
from gateway.s3.put_object import store_object
from gateway.s3.results import XmlReply
from gateway.s3.staging import SourceBody, opened_source
from gateway.storage.port import ObjectAttributes, ObjectInfo
from gateway.wire.checksums import Algorithm
from gateway.wire.extent import Extent
from gateway.wire.xml import document

_REDIRECT = "x-amz-website-redirect-location"


async def copy_object(operation: CopyObject, context: Context) -> XmlReply:
    """Copy bytes and, as the directives say, metadata and tags; in one step like any PUT.

    Raises:
        ClientError: PreconditionFailed; InvalidRequest for a copy onto itself that changes
            nothing, and for a source longer than one PUT may be.
    """
    async with opened_source(operation.source, context) as reader:
        source = reader.info
        attributes = _attributes(operation, source.attributes)
        _refuse_no_change(operation, source, attributes)
        if source.size_bytes > context.limits.max_object_bytes:
            raise ClientError(
                S3Code.INVALID_REQUEST,
                "The specified copy source is larger than the maximum allowable size for a copy "
                f"source: {context.limits.max_object_bytes}",
            )
        target = PutObject(
            operation.bucket, operation.key, attributes, operation.conditions, operation.acl
        )
        body = SourceBody(reader, Extent(0, source.size_bytes))
        info = await store_object(target, body, context, _checksums(operation, source))
    root = document(
        "CopyObjectResult",
        leaf("ETag", quoted(info.etag)),
        leaf("LastModified", iso_time(info.modified_ns)),
        *checksum_elements(info.checksums, info.checksum_type),
    )
    headers = (*version_header(source, "x-amz-copy-source-version-id"), *version_header(info))
    return XmlReply(headers=headers, root=root)


def _attributes(operation: CopyObject, source: ObjectAttributes) -> ObjectAttributes:
    """The copy's attributes. Storage class and redirect are never taken from the source."""
    wanted = operation.attributes
    if not operation.replace_metadata:
        kept = {name: text for name, text in source.headers.items() if name != _REDIRECT}
        if _REDIRECT in wanted.headers:
            kept[_REDIRECT] = wanted.headers[_REDIRECT]
        wanted = replace(wanted, headers=kept, metadata=source.metadata)
    return wanted if operation.replace_tags else replace(wanted, tags=source.tags)


def _refuse_no_change(
    operation: CopyObject, source: ObjectInfo, attributes: ObjectAttributes
) -> None:
    onto_itself = (operation.bucket, operation.key) == (source.bucket, source.key)
    if (
        onto_itself
        and operation.source.version_id is None
        and not operation.replace_metadata
        and attributes
        == replace(
            attributes,
            headers=source.attributes.headers,
            metadata=source.attributes.metadata,
            tags=source.attributes.tags,
            storage_class=source.attributes.storage_class,
        )
    ):
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "This copy request is illegal because it is trying to copy an object to itself without "
            "changing the object's metadata, storage class, website redirect location or "
            "encryption attributes.",
        )


def _checksums(operation: CopyObject, source: ObjectInfo) -> frozenset[Algorithm]:
    """The algorithm asked for, or else the source's; a composite value is computed anew."""
    if operation.checksum_algorithm is not None:
        return frozenset({operation.checksum_algorithm})
    return frozenset(source.checksums)
