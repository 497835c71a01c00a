"""ListObjectVersions: every version and delete marker, of one key the newest first.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

from gateway.auth.accounts import Accounts
from gateway.s3.context import Context
from gateway.s3.documents import (
    common_prefixes,
    encoding_type,
    iso_time,
    leaf,
    object_facts,
    owned_by,
    shown,
    shown_delimiter,
    truth,
)
from gateway.s3.operations import ListObjectVersions
from gateway.s3.results import XmlReply
from gateway.storage.port import ObjectInfo, VersionQuery
from gateway.wire.xml import document, element


async def list_object_versions(operation: ListObjectVersions, context: Context) -> XmlReply:
    """A page; a key marker alone lists after all versions of that key."""
    show = shown(operation.encode)
    page = await context.storage.list_versions(
        VersionQuery(
            operation.bucket,
            operation.prefix,
            operation.delimiter,
            after_key=operation.key_marker,
            after_version=operation.version_id_marker,
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
        *shown_delimiter(operation.delimiter, show),
        *encoding_type(operation.encode),
        truth("IsTruncated", page.next_key is not None),
    )
    if page.next_key is not None:
        root.append(leaf("NextKeyMarker", show(page.next_key)))
    if page.next_version:
        root.append(leaf("NextVersionIdMarker", page.next_version))
    root.extend(_entry(info, show, context.accounts) for info in page.versions)
    root.extend(common_prefixes(page.prefixes, show))
    return XmlReply(root=root)


def _entry(info: ObjectInfo, show: Callable[[str], str], accounts: Accounts) -> Element:
    return element(
        "DeleteMarker" if info.delete_marker else "Version",
        leaf("Key", show(info.key)),
        leaf("VersionId", info.version_id),
        truth("IsLatest", info.latest),
        *_facts(info),
        owned_by(info.owner, accounts),
    )


def _facts(info: ObjectInfo) -> Iterator[Element]:
    """A delete marker has a time and nothing else."""
    if info.delete_marker:
        return iter((leaf("LastModified", iso_time(info.modified_ns)),))
    return object_facts(info)
