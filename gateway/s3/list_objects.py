"""Listing a bucket: ListObjects versions 1 and 2.

Both show pages of the same walk (``Storage.list_objects``); they differ in how a page names the
place where the next one begins. What is encoded for display never takes part in a comparison.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

from gateway.auth.accounts import Accounts
from gateway.s3.context import Context
from gateway.s3.documents import (
    common_prefixes,
    continuation_token,
    encoding_type,
    leaf,
    object_facts,
    owned_by,
    resume_after,
    shown,
    shown_delimiter,
    truth,
)
from gateway.s3.operations import ListObjects, ListObjectsV2
from gateway.s3.results import XmlReply
from gateway.storage.port import ListQuery, ObjectInfo
from gateway.wire.xml import document, element, holds


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
        leaf("Prefix", _own_prefix(operation.prefix, show)),
        leaf("Marker", show(operation.marker)),
        leaf("MaxKeys", operation.max_keys),
        *shown_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_after is not None),
    )
    if page.next_after is not None and operation.delimiter:
        root.append(leaf("NextMarker", show(page.next_after)))
    root.extend(_contents(info, show, context.accounts) for info in page.objects)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


def _own_prefix(prefix: str, show: Callable[[str], str]) -> str:
    """Version 1's prefix, as it was sent where XML can hold it: botocore decodes all but this."""
    return prefix if holds(prefix) else show(prefix)


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
        *shown_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_after is not None),
    )
    if token is not None:
        root.append(leaf("ContinuationToken", token))
    if page.next_after is not None:
        root.append(leaf("NextContinuationToken", continuation_token(page.next_after)))
    if operation.start_after:
        root.append(leaf("StartAfter", show(operation.start_after)))
    accounts = context.accounts if operation.fetch_owner else None
    root.extend(_contents(info, show, accounts) for info in page.objects)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


def _contents(info: ObjectInfo, show: Callable[[str], str], accounts: Accounts | None) -> Element:
    """One object; its owner where `accounts` say who that is."""
    entry = element("Contents", leaf("Key", show(info.key)), *object_facts(info))
    if accounts is not None:
        entry.append(owned_by(info.owner, accounts))
    return entry
