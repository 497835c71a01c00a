"""Listing a bucket: ListObjects versions 1 and 2, and ListObjectVersions.

All three show pages of the same walk (``Storage.list_objects``); they differ in how a page names
the place where the next one begins. What is encoded for display never takes part in a comparison.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

from gateway.s3.context import Context
from gateway.s3.documents import (
    common_prefixes,
    continuation_token,
    encoding_type,
    leaf,
    object_facts,
    owner,
    resume_after,
    shown,
    truth,
)
from gateway.s3.operations import ListObjects, ListObjectsV2, ListObjectVersions
from gateway.s3.results import XmlReply
from gateway.storage.port import ListQuery, ObjectInfo
from gateway.wire.xml import document, element


async def list_objects(operation: ListObjects, context: Context) -> XmlReply:
    """Version 1: NextMarker only with a delimiter; without one, the last key is the marker."""
    show = shown(operation.encode)
    page = await context.storage.list_objects(
        ListQuery(
            operation.bucket,
            operation.prefix,
            operation.delimiter,
            after=operation.marker,
            limit=operation.max_keys,
        )
    )
    root = document(
        "ListBucketResult",
        leaf("Name", operation.bucket),
        leaf("Prefix", show(operation.prefix)),
        leaf("Marker", show(operation.marker)),
        leaf("MaxKeys", operation.max_keys),
        *_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_after is not None),
    )
    if page.next_after is not None and operation.delimiter:
        root.append(leaf("NextMarker", show(page.next_after)))
    root.extend(_contents(info, show, with_owner=True) for info in page.objects)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


async def list_objects_v2(operation: ListObjectsV2, context: Context) -> XmlReply:
    """Version 2: a continuation token, where there is one, takes the place of start-after."""
    show = shown(operation.encode)
    token = operation.continuation_token
    page = await context.storage.list_objects(
        ListQuery(
            operation.bucket,
            operation.prefix,
            operation.delimiter,
            after=resume_after(token) if token else operation.start_after,
            limit=operation.max_keys,
        )
    )
    root = document(
        "ListBucketResult",
        leaf("Name", operation.bucket),
        leaf("Prefix", show(operation.prefix)),
        leaf("KeyCount", len(page.objects) + len(page.prefixes)),
        leaf("MaxKeys", operation.max_keys),
        *_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_after is not None),
    )
    if token is not None:
        root.append(leaf("ContinuationToken", token))
    if page.next_after is not None:
        root.append(leaf("NextContinuationToken", continuation_token(page.next_after)))
    if operation.start_after:
        root.append(leaf("StartAfter", show(operation.start_after)))
    root.extend(_contents(info, show, operation.fetch_owner) for info in page.objects)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


async def list_object_versions(operation: ListObjectVersions, context: Context) -> XmlReply:
    """Every key's one version: ``null``, the latest.

    A key marker lists after all versions of that key, and with a version marker after that one of
    them; where each key has a single version, both are the same place.
    """
    show = shown(operation.encode)
    page = await context.storage.list_objects(
        ListQuery(
            operation.bucket,
            operation.prefix,
            operation.delimiter,
            after=operation.key_marker,
            limit=operation.max_keys,
        )
    )
    root = document(
        "ListVersionsResult",
        leaf("Name", operation.bucket),
        leaf("Prefix", show(operation.prefix)),
        leaf("KeyMarker", show(operation.key_marker)),
        leaf("VersionIdMarker", operation.version_id_marker),
        leaf("MaxKeys", operation.max_keys),
        *_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_after is not None),
    )
    if page.next_after is not None:
        root.append(leaf("NextKeyMarker", show(page.next_after)))
        if page.objects and page.objects[-1].key == page.next_after:
            root.append(leaf("NextVersionIdMarker", page.objects[-1].version_id))
    root.extend(_version(info, show) for info in page.objects)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


def _delimiter(delimiter: str, show: Callable[[str], str]) -> Iterator[Element]:
    if delimiter:
        yield leaf("Delimiter", show(delimiter))


def _contents(info: ObjectInfo, show: Callable[[str], str], with_owner: bool) -> Element:
    entry = element("Contents", leaf("Key", show(info.key)), *object_facts(info))
    if with_owner:
        entry.append(owner())
    return entry


def _version(info: ObjectInfo, show: Callable[[str], str]) -> Element:
    return element(
        "Version",
        leaf("Key", show(info.key)),
        leaf("VersionId", info.version_id),
        truth("IsLatest", True),
        *object_facts(info),
        owner(),
    )
