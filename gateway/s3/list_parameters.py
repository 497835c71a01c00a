"""The parameters of the list operations."""

from __future__ import annotations

from gateway.s3.addressed import Addressed
from gateway.s3.operations import (
    ListBuckets,
    ListMultipartUploads,
    ListObjects,
    ListObjectsV2,
    ListObjectVersions,
    ListParts,
)
from gateway.s3.query import MAX_PART_NUMBER, Query, invalid_argument

MAX_LIST_ENTRIES = 1000
MAX_LIST_BUCKETS = 10_000


def list_buckets(query: Query) -> ListBuckets:
    """GET / of the service."""
    return ListBuckets(
        prefix=query.text("prefix"),
        continuation_token=query.text("continuation-token"),
        max_buckets=query.integer(
            "max-buckets", default=MAX_LIST_BUCKETS, least=1, most=MAX_LIST_BUCKETS
        ),
    )


def list_objects(request: Addressed) -> ListObjects | ListObjectsV2:
    """GET of a bucket: version 1 without list-type, version 2 with list-type=2."""
    query = request.query
    _refuse_unordered(query)
    version = query.get("list-type")
    if version == "2":
        return _list_objects_v2(request)
    if version is not None:
        raise invalid_argument("list-type", version, "list-type must be 2 or absent.")
    return ListObjects(
        request.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        marker=query.text("marker"),
        max_keys=_entries(query, "max-keys"),
        encode=query.encode(),
    )


def _refuse_unordered(query: Query) -> None:
    """Ceph RGW's ``allow-unordered``: our order is one of those allowed, but for a delimiter.

    https://docs.ceph.com/en/latest/radosgw/s3/bucketops/
    """
    unordered = query.text("allow-unordered")
    if unordered.lower() == "true" and query.text("delimiter"):
        raise invalid_argument(
            "allow-unordered", unordered, "An unordered listing can't have a delimiter."
        )


def _list_objects_v2(request: Addressed) -> ListObjectsV2:
    query = request.query
    return ListObjectsV2(
        request.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        start_after=query.text("start-after"),
        continuation_token=query.get("continuation-token"),
        fetch_owner=query.text("fetch-owner").lower() == "true",
        max_keys=_entries(query, "max-keys"),
        encode=query.encode(),
    )


def list_versions(request: Addressed) -> ListObjectVersions:
    """GET ?versions: a version marker needs the key marker beside it."""
    query = request.query
    key_marker, version_marker = query.text("key-marker"), query.text("version-id-marker")
    if version_marker and not key_marker:
        raise invalid_argument(
            "version-id-marker",
            version_marker,
            "A version-id marker cannot be specified without a key marker.",
        )
    return ListObjectVersions(
        request.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        key_marker=key_marker,
        version_id_marker=version_marker,
        max_keys=_entries(query, "max-keys"),
        encode=query.encode(),
    )


def list_uploads(request: Addressed) -> ListMultipartUploads:
    """GET ?uploads."""
    query = request.query
    return ListMultipartUploads(
        request.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        key_marker=query.text("key-marker"),
        upload_id_marker=query.text("upload-id-marker"),
        max_uploads=_entries(query, "max-uploads"),
        encode=query.encode(),
    )


def list_parts(request: Addressed) -> ListParts:
    """GET ?uploadId=."""
    query = request.query
    return ListParts(
        request.bucket,
        request.key,
        query.text("uploadId"),
        part_number_marker=query.integer("part-number-marker", default=0, most=MAX_PART_NUMBER),
        max_parts=_entries(query, "max-parts"),
        encode=query.encode(),
    )


def _entries(query: Query, name: str) -> int:
    """How many entries one page may hold; S3 gives no more than a thousand whatever is asked."""
    return query.integer(name, default=MAX_LIST_ENTRIES, most=MAX_LIST_ENTRIES)
