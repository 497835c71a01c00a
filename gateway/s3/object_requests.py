"""Requests on an object's address: what their headers and parameters say, as operations."""

from __future__ import annotations

from gateway.errors import ClientError, S3Code
from gateway.s3 import headers
from gateway.s3.addressed import Addressed, method_not_allowed
from gateway.s3.headers import Directive
from gateway.s3.list_parameters import MAX_LIST_ENTRIES, list_parts
from gateway.s3.operations import (
    AbortMultipartUpload,
    CompleteMultipartUpload,
    CopyObject,
    CreateMultipartUpload,
    DeleteObject,
    GetObject,
    GetObjectAttributes,
    HeadObject,
    ObjectAttribute,
    Operation,
    PutObject,
    UploadPart,
    UploadPartCopy,
)
from gateway.s3.query import MAX_PART_NUMBER, Query, bounded_integer, invalid_argument
from gateway.wire.byte_range import parse_copy_range, parse_range
from gateway.wire.checksums import requested_algorithm
from gateway.wire.conditional import Conditions, parse_conditions, parse_delete_conditions
from gateway.wire.grants import parse_acl_headers
from gateway.wire.request import RequestHead

_ATTRIBUTES = "x-amz-object-attributes"

# GetObject's response-* parameters and the reply headers they replace.
# https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
_OVERRIDES = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
)


def get_object(request: Addressed) -> GetObject:
    """A malformed Range is ignored; a Range beside partNumber is InvalidRequest."""
    head, query = request.head, request.query
    byte_range, part_number = parse_range(head.get("range")), query.part_number()
    if byte_range is not None and part_number is not None:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "Cannot specify both Range header and partNumber query parameter",
        )
    return GetObject(
        request.bucket,
        request.key,
        version_id=query.version_id(),
        byte_range=byte_range,
        if_range=head.get("if-range"),
        part_number=part_number,
        conditions=parse_conditions(head),
        overrides=_overrides(query),
        checksum_mode=(head.get("x-amz-checksum-mode") or "").upper() == "ENABLED",
    )


def _overrides(query: Query) -> dict[str, str]:
    """The response-* parameters, as latin-1 header text like every header of a RequestHead.

    A decoded value may hold anything; a line break in it would begin a header of its own.
    """
    overrides: dict[str, str] = {}
    for name in _OVERRIDES:
        value = query.text(f"response-{name}")
        if any(character < " " or character == "\x7f" for character in value):
            raise invalid_argument(
                f"response-{name}", "", f"response-{name} holds a control character."
            )
        if value:
            overrides[name] = value.encode("utf-8").decode("latin-1")
    return overrides


def head_object(request: Addressed) -> HeadObject:
    """The same as `get_object`, for the reply without its body."""
    wanted = get_object(request)
    return HeadObject(
        wanted.bucket,
        wanted.key,
        version_id=wanted.version_id,
        byte_range=wanted.byte_range,
        if_range=wanted.if_range,
        part_number=wanted.part_number,
        conditions=wanted.conditions,
        overrides=wanted.overrides,
        checksum_mode=wanted.checksum_mode,
    )


def get_attributes(request: Addressed) -> GetObjectAttributes:
    """GET ?attributes; x-amz-object-attributes names at least one of them."""
    head = request.head
    words = [word.strip() for word in (head.get(_ATTRIBUTES) or "").split(",")]
    try:
        wanted = frozenset(ObjectAttribute(word) for word in words)
    except ValueError as error:
        raise invalid_argument(
            _ATTRIBUTES, ",".join(words), "Invalid attribute name specified."
        ) from error
    return GetObjectAttributes(
        request.bucket,
        request.key,
        request.query.version_id(),
        wanted,
        part_number_marker=bounded_integer(
            "x-amz-part-number-marker",
            head.get("x-amz-part-number-marker"),
            default=0,
            most=MAX_PART_NUMBER,
        ),
        max_parts=bounded_integer(
            "x-amz-max-parts",
            head.get("x-amz-max-parts"),
            default=MAX_LIST_ENTRIES,
            most=MAX_LIST_ENTRIES,
        ),
    )


def put_or_copy_object(request: Addressed) -> PutObject | CopyObject:
    """PUT of a whole object; x-amz-copy-source makes it a copy."""
    head = request.head
    if request.query.get("partNumber") is not None:  # never a whole object by mistake
        raise ClientError(S3Code.INVALID_ARGUMENT, "A PUT with partNumber needs uploadId as well.")
    attributes = headers.object_attributes(head, request.limits)
    conditions = _write_conditions(head)
    acl = parse_acl_headers(head)
    source = headers.copy_source(head)
    if source is None:
        return PutObject(request.bucket, request.key, attributes, conditions, acl)
    return CopyObject(
        request.bucket,
        request.key,
        source,
        attributes,
        replace_metadata=headers.directive(head, "x-amz-metadata-directive") is Directive.REPLACE,
        replace_tags=headers.directive(head, "x-amz-tagging-directive") is Directive.REPLACE,
        checksum_algorithm=requested_algorithm(head),
        conditions=conditions,
        acl=acl,
    )


def delete_object(request: Addressed) -> DeleteObject:
    """DELETE of an object."""
    return DeleteObject(
        request.bucket,
        request.key,
        request.query.version_id(),
        parse_delete_conditions(request.head),
        headers.bypass_governance(request.head),
    )


def create_upload(request: Addressed) -> CreateMultipartUpload:
    """POST ?uploads."""
    algorithm = requested_algorithm(request.head)
    return CreateMultipartUpload(
        request.bucket,
        request.key,
        headers.object_attributes(request.head, request.limits),
        checksum_algorithm=algorithm,
        checksum_type=headers.checksum_type(request.head, algorithm),
        acl=parse_acl_headers(request.head),
    )


def upload_operation(request: Addressed) -> Operation:
    """Everything addressed by ?uploadId=."""
    upload_id = request.query.text("uploadId")
    match request.head.method:
        case "PUT":
            return _upload_part(request, upload_id)
        case "POST":
            return _complete_upload(request, upload_id)
        case "DELETE":
            return AbortMultipartUpload(request.bucket, request.key, upload_id)
        case "GET":
            return list_parts(request)
        case method:
            raise method_not_allowed(method, "UPLOAD")


def _upload_part(request: Addressed, upload_id: str) -> UploadPart | UploadPartCopy:
    number = request.query.part_number()
    if number is None:
        raise invalid_argument("partNumber", "", "A PUT with uploadId needs partNumber as well.")
    source = headers.copy_source(request.head)
    if source is None:
        return UploadPart(request.bucket, request.key, upload_id, number)
    range_text = request.head.get("x-amz-copy-source-range")
    return UploadPartCopy(
        request.bucket,
        request.key,
        upload_id,
        number,
        source,
        parse_copy_range(range_text) if range_text is not None else None,
    )


def _complete_upload(request: Addressed, upload_id: str) -> CompleteMultipartUpload:
    head = request.head
    claimed = headers.claimed_checksums(head)
    named_type = head.get("x-amz-checksum-type") is not None
    return CompleteMultipartUpload(
        request.bucket,
        request.key,
        upload_id,
        conditions=_write_conditions(head),
        checksums=claimed,
        checksum_type=(
            headers.checksum_type(head, next(iter(claimed), None)) if named_type else None
        ),
        object_size_bytes=headers.claimed_size(head),
    )


def _write_conditions(head: RequestHead) -> Conditions:
    """If-Match and If-None-Match of a write; dates are no write conditions in S3.

    Of If-None-Match S3 itself knows only ``*``; an entity tag means what RFC 9110 section 13.1.2
    says, as in Ceph RGW: a condition that is understood is better kept than refused.
    """
    given = parse_conditions(head)
    return Conditions(if_match=given.if_match, if_none_match=given.if_none_match)
