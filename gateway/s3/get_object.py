"""GetObject and HeadObject: one resolution of preconditions, ranges and parts for both.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gateway.errors import ClientError, S3Code
from gateway.s3.context import Context
from gateway.s3.documents import checksum_headers, http_date, quoted, version_header
from gateway.s3.object_lock import lock_headers
from gateway.s3.operations import GetObject, HeadObject
from gateway.s3.results import ObjectReply, Reply
from gateway.storage.port import ObjectInfo, PartInfo
from gateway.wire.byte_range import RangeSpec, content_range, unsatisfied_range
from gateway.wire.checksums import Algorithm
from gateway.wire.conditional import Outcome, evaluate, parse_http_date, unquote_etag
from gateway.wire.extent import Extent

_NS_PER_S = 1_000_000_000
_DEFAULT_TYPE = "binary/octet-stream"

# What a 304 repeats (RFC 9110 section 15.4.5) besides its validators.
_CACHE_HEADERS = ("cache-control", "expires")


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which bytes are asked for.

    Attributes:
        partial: they are less than the whole object.
        checksums: of just these bytes, where they are known.
    """

    extent: Extent
    partial: bool
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)


async def get_object(operation: GetObject, context: Context) -> ObjectReply:
    """The open object and the extent to deliver; whoever delivers it closes the reader.

    Raises:
        ClientError: NotModified, PreconditionFailed, InvalidRange, InvalidPartNumber, NoSuchKey, ….
    """
    _refuse_anonymous_overrides(operation, context)
    reader = await context.storage.open_object(
        operation.bucket, operation.key, operation.version_id
    )
    try:
        selection = _select(operation, reader.info)
        if operation.extent_exact:
            _require_exact(operation.byte_range, selection.extent, reader.info)
        headers = tuple(_reply_headers(operation, reader.info, selection))
    except BaseException:
        await reader.close()
        raise
    return ObjectReply(
        status=206 if selection.partial else 200,
        headers=headers,
        reader=reader,
        extent=selection.extent,
    )


async def head_object(operation: HeadObject, context: Context) -> Reply:
    """The reply of the same GET, with its content-length and without its body."""
    _refuse_anonymous_overrides(operation, context)
    info = await context.storage.head_object(operation.bucket, operation.key, operation.version_id)
    selection = _select(operation, info)
    return Reply(
        status=206 if selection.partial else 200,
        headers=(
            ("content-length", str(selection.extent.length_bytes)),
            *_reply_headers(operation, info, selection),
        ),
    )


def _refuse_anonymous_overrides(operation: GetObject | HeadObject, context: Context) -> None:
    """Without a signature anyone could make the server serve an object as something else."""
    if operation.overrides and context.principal.anonymous:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "Request specific response headers cannot be used for anonymous GET requests.",
        )


def _select(operation: GetObject | HeadObject, info: ObjectInfo) -> _Selection:
    """Preconditions first, then If-Range, then the range or the part (RFC 9110 section 13.2.2)."""
    match evaluate(operation.conditions, info.etag, info.modified_ns // _NS_PER_S):
        case Outcome.NOT_MODIFIED:
            raise ClientError(S3Code.NOT_MODIFIED, headers=dict(_validators(info)))
        case Outcome.PRECONDITION_FAILED:
            raise ClientError(S3Code.PRECONDITION_FAILED)
    if operation.part_number is not None:
        return _select_part(operation.part_number, info)
    wanted = operation.byte_range
    if wanted is None or not _range_applies(operation.if_range, info):
        return _Selection(Extent(0, info.size_bytes), False, info.checksums)
    extent = wanted.resolve(info.size_bytes)
    if extent is None:
        raise _invalid_range(wanted, info)
    return _Selection(extent, partial=True)


def _select_part(number: int, info: ObjectInfo) -> _Selection:
    """A part of a multipart object; any other object is its own first part."""
    whole = PartInfo(1, info.size_bytes, info.etag, info.modified_ns, info.checksums)
    parts = info.parts or (whole,)
    if number > len(parts):
        raise ClientError(
            S3Code.INVALID_PART_NUMBER,
            details={"ActualPartCount": str(len(parts)), "PartNumberRequested": str(number)},
        )
    part = parts[number - 1]
    extent = Extent(sum(before.size_bytes for before in parts[: number - 1]), part.size_bytes)
    kept = {name: value for name, value in part.checksums.items() if name in info.checksums}
    return _Selection(extent, extent.length_bytes > 0, kept)  # no Content-Range says "nothing"


def _range_applies(if_range: str | None, info: ObjectInfo) -> bool:
    """If-Range: an ETag, compared strongly, or the exact Last-Modified (RFC 9110, 13.1.5)."""
    if if_range is None:
        return True
    date = parse_http_date(if_range)
    if date is not None:
        return date == info.modified_ns // _NS_PER_S
    return not if_range.startswith("W/") and unquote_etag(if_range) == info.etag


def _require_exact(wanted: RangeSpec | None, extent: Extent, info: ObjectInfo) -> None:
    """An RDMA peer waits for exactly the bytes it named: a clipped range is no answer."""
    if wanted is None or wanted.last is None:
        return
    named_bytes = wanted.last if wanted.first is None else wanted.last + 1 - wanted.first
    if extent.length_bytes != named_bytes:
        raise _invalid_range(wanted, info)


def _invalid_range(wanted: RangeSpec, info: ObjectInfo) -> ClientError:
    return ClientError(
        S3Code.INVALID_RANGE,
        details={"RangeRequested": wanted.text, "ActualObjectSize": str(info.size_bytes)},
        headers={"Content-Range": unsatisfied_range(info.size_bytes)},
    )


def _validators(info: ObjectInfo) -> Iterator[tuple[str, str]]:
    yield "etag", quoted(info.etag)
    yield "last-modified", http_date(info.modified_ns)
    for name in _CACHE_HEADERS:
        if name in info.attributes.headers:
            yield name, info.attributes.headers[name]


def _reply_headers(
    operation: GetObject | HeadObject, info: ObjectInfo, selection: _Selection
) -> Iterator[tuple[str, str]]:
    attributes = info.attributes
    yield "etag", quoted(info.etag)
    yield "last-modified", http_date(info.modified_ns)
    yield "accept-ranges", "bytes"
    yield from {
        "content-type": _DEFAULT_TYPE,
        **attributes.headers,
        **operation.overrides,
    }.items()
    if selection.partial:
        yield "content-range", content_range(selection.extent, info.size_bytes)
    if operation.checksum_mode:
        yield from checksum_headers(selection.checksums, info.checksum_type)
    yield from version_header(info)
    if operation.part_number is not None and info.parts:
        yield "x-amz-mp-parts-count", str(len(info.parts))
    if attributes.storage_class != "STANDARD":
        yield "x-amz-storage-class", attributes.storage_class
    if attributes.tags:
        yield "x-amz-tagging-count", str(len(attributes.tags))
    yield from lock_headers(attributes)
    for name, value in attributes.metadata.items():
        yield f"x-amz-meta-{name}", value
