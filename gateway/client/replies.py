"""S3's replies, from XML and headers to values; and the documents that a client sends.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from gateway.client import checksum
from gateway.client.errors import S3Error
from gateway.client.models import (
    Bucket,
    DeleteFailure,
    Deletion,
    Listing,
    ObjectHead,
    ObjectSummary,
    ObjectVersion,
    PartListing,
    UploadedPart,
    UploadInProgress,
    VersionListing,
)
from gateway.errors import GatewayError
from gateway.wire.xml import document, element, parse_xml, render

_METADATA = "x-amz-meta-"
_KEPT_HEADERS = frozenset(
    ("Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires")
)


def s3_error(status: int, headers: Mapping[str, str], body: bytes) -> S3Error:
    """The error of a reply that is not 2xx; a body that is not S3's XML is passed over."""
    root = _parsed(body)
    if root is None or root.tag != "Error":
        root = Element("Error")
    return S3Error(
        code=_text(root, "Code") or _phrase(status),
        status=status,
        message=_text(root, "Message"),
        request_id=headers.get("x-amz-request-id", ""),
        retry_after_s=_seconds(headers.get("Retry-After", "")),
    )


def object_head(headers: Mapping[str, str]) -> ObjectHead:
    """HeadObject's reply.

    Raises:
        S3Error: it has no Content-Length.
    """
    length = headers.get("Content-Length", "")
    if not length.isdecimal():
        raise S3Error("HTTP 200", 200, "HEAD was answered without a Content-Length")
    return ObjectHead(
        size_bytes=int(length),
        etag=etag(headers),
        last_modified=headers.get("Last-Modified", ""),
        content_type=headers.get("Content-Type", ""),
        version_id=headers.get("x-amz-version-id"),
        crc64nvme=checksum.from_text(headers.get(checksum.HEADER)),
        metadata={
            name.lower().removeprefix(_METADATA): value
            for name, value in headers.items()
            if name.lower().startswith(_METADATA)
        },
        headers={name: headers[name] for name in _KEPT_HEADERS if name in headers},
    )


def etag(headers: Mapping[str, str]) -> str:
    """The ETag without its quotes, or ""."""
    return headers.get("ETag", "").strip('"')


def buckets(body: bytes) -> tuple[Bucket, ...]:
    """ListAllMyBucketsResult."""
    root = _document(body, "ListAllMyBucketsResult")
    return tuple(
        Bucket(_text(row, "Name"), _text(row, "CreationDate")) for row in root.iterfind(".//Bucket")
    )


def listing(body: bytes) -> Listing:
    """ListBucketResult of ListObjectsV2 with ``encoding-type=url``."""
    root = _document(body, "ListBucketResult")
    return Listing(
        objects=tuple(
            ObjectSummary(
                key=unquote_plus(_text(row, "Key")),
                size_bytes=int(_text(row, "Size") or 0),
                etag=_text(row, "ETag").strip('"'),
                last_modified=_text(row, "LastModified"),
            )
            for row in root.iterfind("Contents")
        ),
        prefixes=_prefixes(root),
        next_token=_text(root, "NextContinuationToken") or None,
    )


def versions(body: bytes) -> VersionListing:
    """ListVersionsResult with ``encoding-type=url``."""
    root = _document(body, "ListVersionsResult")
    marker = unquote_plus(_text(root, "NextKeyMarker")), _text(root, "NextVersionIdMarker")
    return VersionListing(
        versions=tuple(_version(row) for row in root if row.tag in {"Version", "DeleteMarker"}),
        prefixes=_prefixes(root),
        next_marker=marker if _text(root, "IsTruncated") == "true" else None,
    )


def _version(row: Element) -> ObjectVersion:
    return ObjectVersion(
        key=unquote_plus(_text(row, "Key")),
        version_id=_text(row, "VersionId"),
        latest=_text(row, "IsLatest") == "true",
        last_modified=_text(row, "LastModified"),
        size_bytes=int(_text(row, "Size") or 0),
        etag=_text(row, "ETag").strip('"'),
        delete_marker=row.tag == "DeleteMarker",
    )


def uploads(body: bytes) -> tuple[UploadInProgress, ...]:
    """ListMultipartUploadsResult with ``encoding-type=url``: its first page."""
    root = _document(body, "ListMultipartUploadsResult")
    return tuple(
        UploadInProgress(
            unquote_plus(_text(row, "Key")),
            _text(row, "UploadId"),
            _text(row, "Initiated"),
            _text(row, "ChecksumAlgorithm"),
        )
        for row in root.iterfind("Upload")
    )


def parts(body: bytes) -> PartListing:
    """ListPartsResult."""
    root = _document(body, "ListPartsResult")
    truncated = _text(root, "IsTruncated") == "true"
    return PartListing(
        parts=tuple(
            UploadedPart(
                number=int(_text(row, "PartNumber")),
                size_bytes=int(_text(row, "Size")),
                etag=_text(row, "ETag").strip('"'),
                crc64nvme=checksum.from_text(_text(row, "ChecksumCRC64NVME")),
            )
            for row in root.iterfind("Part")
        ),
        next_marker=_text(root, "NextPartNumberMarker") if truncated else None,
    )


def delete_failures(body: bytes) -> tuple[DeleteFailure, ...]:
    """DeleteResult: those that were not deleted."""
    root = _document(body, "DeleteResult")
    return tuple(
        DeleteFailure(
            Deletion(_text(row, "Key"), _text(row, "VersionId") or None),
            _text(row, "Code"),
            _text(row, "Message"),
        )
        for row in root.iterfind("Error")
    )


def tags(body: bytes) -> dict[str, str]:
    """Tagging, of GetObjectTagging."""
    rows = _document(body, "Tagging").iterfind("TagSet/Tag")
    return {_text(row, "Key"): _text(row, "Value") for row in rows}


def upload_id(body: bytes) -> str:
    """InitiateMultipartUploadResult."""
    return _text(_document(body, "InitiateMultipartUploadResult"), "UploadId")


def completed_etag(body: bytes) -> str:
    """CompleteMultipartUploadResult, which may be an error under a status of 200."""
    return _text(_document(body, "CompleteMultipartUploadResult"), "ETag").strip('"')


def copied_etag(body: bytes) -> str:
    """CopyObjectResult or CopyPartResult, which may be an error under a status of 200."""
    return _text(_document(body, "CopyObjectResult", "CopyPartResult"), "ETag").strip('"')


def complete_request(etags: Sequence[str]) -> bytes:
    """CompleteMultipartUpload for parts 1, 2, … of these ETags."""
    parts = (
        element(
            "Part",
            element("PartNumber", text=str(number)),
            element("ETag", text=f'"{part_etag}"'),
        )
        for number, part_etag in enumerate(etags, start=1)
    )
    return render(document("CompleteMultipartUpload", *parts))


def delete_request(deletions: Sequence[Deletion]) -> bytes:
    """Delete, whose answer will name the failures only."""
    rows = (
        element(
            "Object",
            element("Key", text=deletion.key),
            *(
                [element("VersionId", text=deletion.version_id)]
                if deletion.version_id is not None
                else []
            ),
        )
        for deletion in deletions
    )
    return render(document("Delete", element("Quiet", text="true"), *rows))


def _prefixes(root: Element) -> tuple[str, ...]:
    return tuple(unquote_plus(_text(row, "Prefix")) for row in root.iterfind("CommonPrefixes"))


def _document(body: bytes, *names: str) -> Element:
    root = _parsed(body)
    if root is None or root.tag not in {*names, "Error"}:
        raise S3Error("HTTP 200", 200, f"the reply is not the XML of {' or '.join(names)}")
    if root.tag == "Error":
        raise S3Error(_text(root, "Code"), 200, _text(root, "Message"))
    return root


def _parsed(body: bytes) -> Element | None:
    """The root of a reply, which `max_reply_bytes` has bounded already."""
    try:
        return parse_xml(body, len(body))
    except GatewayError:
        return None


def _text(parent: Element, name: str) -> str:
    return parent.findtext(name) or ""


def _phrase(status: int) -> str:
    """The status in a word, where there is no body to say more (HEAD)."""
    try:
        return HTTPStatus(status).phrase.replace(" ", "")
    except ValueError:
        return f"HTTP{status}"


def _seconds(text: str) -> float:
    """Retry-After in its form of seconds; a date asks for nothing that a client can plan with."""
    return float(text) if text.isdecimal() else 0.0
