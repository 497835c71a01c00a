"""Pages of a bucket's listings: the walk's keys, each described as it is now."""

from __future__ import annotations

from gateway.errors import ClientError
from gateway.storage.listing import page
from gateway.storage.port import (
    NULL_VERSION,
    ListPage,
    ListQuery,
    ObjectInfo,
    VersionPage,
    VersionQuery,
)
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.found import find
from gateway.storage.tree.paths import find_path
from gateway.storage.tree.root import Root
from gateway.storage.tree.walk import Walker


def list_objects(root: Root, query: ListQuery) -> ListPage:
    """What goes while the page is made is left out of it. Raises NoSuchBucket, InternalError."""
    with root.bucket(query.bucket) as bucket:
        walker = Walker(bucket, query.prefix.encode(), shallow=query.delimiter == "/")
        found = page(walker.seek, query)
        infos = [_info(bucket, key.decode()) for key in found.rows]
    return ListPage(
        objects=tuple(info for info in infos if info is not None),
        prefixes=tuple(found.prefixes),
        next_after=found.next_key,
    )


def _info(bucket: Bucket, key: str) -> ObjectInfo | None:
    """None where it is gone, or may not be read."""
    where = find_path(key, bucket.meta_name)
    try:
        found = find(bucket, key, where) if where else None
    except ClientError:
        return None
    if found is None:
        return None
    found.close()
    return found.info


def list_versions(root: Root, query: VersionQuery) -> VersionPage:
    """Each object is its key's only version, so that both markers mean the place behind it."""
    plain = list_objects(
        root,
        ListQuery(query.bucket, query.prefix, query.delimiter, query.after_key, query.limit),
    )
    last = plain.next_after
    at_prefix = last is not None and last in plain.prefixes
    return VersionPage(
        versions=plain.objects,
        prefixes=plain.prefixes,
        next_key=last,
        next_version=None if last is None else "" if at_prefix else NULL_VERSION,
    )
