"""Pages of objects, versions and uploads: the service's own, in the port's terms.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html
https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.storage.port import (
    NULL_VERSION,
    ListPage,
    ListQuery,
    ObjectAttributes,
    ObjectInfo,
    UploadInfo,
    UploadPage,
    VersionPage,
    VersionQuery,
)
from gateway.storage.upstream.service import Service
from gateway.storage.upstream.values import Parameters, posix_ns
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import unquote_etag

_LAST_CHARACTER = "\U0010ffff"

Entry = tuple[str, str]  # (key, what orders rows of one key), or (common prefix, "")


class Listings:
    """Asks the service for pages."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def objects(self, query: ListQuery) -> ListPage:
        """Stateless: the last entry shown is where the next page begins, whoever is asked."""
        if not query.limit:
            await self._service.call("head_bucket", Bucket=query.bucket)
            return ListPage((), (), None)
        reply = await self._service.call(
            "list_objects_v2",
            MaxKeys=query.limit,
            **_scope(query.bucket, query.prefix, query.delimiter),
            **_optional(StartAfter=_behind(query)),
        )
        prefixes = _prefixes(reply, query.after)
        objects = tuple(
            _listed(query.bucket, entry, latest=True) for entry in reply.get("Contents", ())
        )
        shown = [*prefixes, *(info.key for info in objects)]
        more = bool(reply.get("IsTruncated")) and bool(shown)
        return ListPage(objects, prefixes, max(shown, key=str.encode) if more else None)

    async def versions(self, query: VersionQuery) -> VersionPage:
        """Delete markers among them; of one key the newest first."""
        if not query.limit:
            await self._service.call("head_bucket", Bucket=query.bucket)
            return VersionPage((), (), None, None)
        reply = await self._service.call(
            "list_object_versions",
            MaxKeys=query.limit,
            **_scope(query.bucket, query.prefix, query.delimiter),
            **_optional(KeyMarker=query.after_key, VersionIdMarker=query.after_version),
        )
        prefixes = _prefixes(reply, query.after_key)
        versions = [_version(query.bucket, entry) for entry in reply.get("Versions", ())]
        versions += [_marker(query.bucket, entry) for entry in reply.get("DeleteMarkers", ())]
        # The reply has the two apart, each in its order; a key's own are by time, newest first.
        versions.sort(key=lambda info: (info.key.encode(), not info.latest, -info.modified_ns))
        last = _last(prefixes, [(info.key, info.version_id) for info in versions])
        if not reply.get("IsTruncated") or last is None:
            return VersionPage(tuple(versions), prefixes, None, None)
        return VersionPage(tuple(versions), prefixes, *last)

    async def uploads(
        self,
        bucket: str,
        prefix: str,
        delimiter: str,
        after_key: str,
        after_upload_id: str,
        limit: int,
    ) -> UploadPage:
        """In the service's order of the uploads of one key."""
        if not limit:
            await self._service.call("head_bucket", Bucket=bucket)
            return UploadPage((), (), None, None)
        reply = await self._service.call(
            "list_multipart_uploads",
            MaxUploads=limit,
            **_scope(bucket, prefix, delimiter),
            **_optional(KeyMarker=after_key, UploadIdMarker=after_upload_id),
        )
        prefixes = _prefixes(reply, after_key)
        uploads = tuple(_upload(bucket, entry) for entry in reply.get("Uploads", ()))
        last = _last(prefixes, [(info.key, info.upload_id) for info in uploads])
        if not reply.get("IsTruncated") or last is None:
            return UploadPage(uploads, prefixes, None, None)
        return UploadPage(uploads, prefixes, *last)


def _scope(bucket: str, prefix: str, delimiter: str) -> Parameters:
    return {"Bucket": bucket, **_optional(Prefix=prefix, Delimiter=delimiter)}


def _optional(**given: str) -> Parameters:
    return {name: text for name, text in given.items() if text}


def _behind(query: ListQuery) -> str:
    """The key behind which a page begins; a common prefix has everything below it behind it."""
    below = query.after.removeprefix(query.prefix)
    if query.delimiter and query.after.startswith(query.prefix) and below.endswith(query.delimiter):
        return query.after + _LAST_CHARACTER
    return query.after


def _prefixes(reply: Mapping[str, Any], after: str) -> tuple[str, ...]:
    """The common prefixes of a page, without the one that ended the page before."""
    found = (entry["Prefix"] for entry in reply.get("CommonPrefixes", ()))
    return tuple(prefix for prefix in found if prefix != after)


def _last(prefixes: tuple[str, ...], rows: list[Entry]) -> Entry | None:
    """The last entry of a page: a row, or a common prefix with an empty id."""
    last_prefix = (prefixes[-1], "") if prefixes else None
    last_row = rows[-1] if rows else None
    if last_prefix is None or last_row is None:
        return last_prefix or last_row
    return max(last_prefix, last_row, key=lambda entry: entry[0].encode())


def _listed(bucket: str, entry: Mapping[str, Any], *, latest: bool) -> ObjectInfo:
    return ObjectInfo(
        bucket=bucket,
        key=entry["Key"],
        size_bytes=int(entry["Size"]),
        etag=unquote_etag(entry["ETag"]),
        modified_ns=posix_ns(entry["LastModified"]),
        attributes=ObjectAttributes(storage_class=entry.get("StorageClass") or "STANDARD"),
        version_id=entry.get("VersionId") or NULL_VERSION,
        latest=latest,
    )


def _version(bucket: str, entry: Mapping[str, Any]) -> ObjectInfo:
    return _listed(bucket, entry, latest=bool(entry.get("IsLatest")))


def _marker(bucket: str, entry: Mapping[str, Any]) -> ObjectInfo:
    return ObjectInfo(
        bucket=bucket,
        key=entry["Key"],
        size_bytes=0,
        etag="",
        modified_ns=posix_ns(entry["LastModified"]),
        attributes=ObjectAttributes(),
        version_id=entry.get("VersionId") or NULL_VERSION,
        delete_marker=True,
        latest=bool(entry.get("IsLatest")),
    )


def _upload(bucket: str, entry: Mapping[str, Any]) -> UploadInfo:
    algorithm, kind = entry.get("ChecksumAlgorithm"), entry.get("ChecksumType")
    return UploadInfo(
        bucket=bucket,
        key=entry["Key"],
        upload_id=entry["UploadId"],
        initiated_ns=posix_ns(entry["Initiated"]),
        attributes=ObjectAttributes(storage_class=entry.get("StorageClass") or "STANDARD"),
        checksum_algorithm=Algorithm[algorithm] if algorithm else None,
        checksum_type=ChecksumType(kind) if kind else None,
    )
