"""Request headers that become an object's attributes, a copy's source, or a checksum's choice."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3.object_lock import lock_of_headers
from gateway.s3.operations import CopySource
from gateway.s3.ownership import ObjectOwnership
from gateway.s3.query import invalid_argument
from gateway.s3.tagging import parse_tagging_header
from gateway.storage.port import ObjectAttributes
from gateway.wire.checksums import Algorithm, ChecksumType, requested_type
from gateway.wire.conditional import parse_conditions
from gateway.wire.names import check_bucket_name, check_key
from gateway.wire.request import RequestHead, decode_path

_META_PREFIX = "x-amz-meta-"
_COPY_PREFIX = "x-amz-copy-source-"

# https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html
_KEPT_HEADERS = (
    "content-type",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "x-amz-website-redirect-location",
)

# Headers that ask for something this gateway would otherwise silently not do, and what that is.
_UNSERVED: Mapping[str, str] = MappingProxyType(
    {
        "x-amz-server-side-encryption": "this gateway stores objects as they are",
        "x-amz-copy-source-server-side-encryption": "this gateway stores objects as they are",
        "x-amz-write-offset-bytes": "objects can't be appended to",
    }
)

_STORAGE_CLASSES = frozenset(
    {
        "STANDARD",
        "REDUCED_REDUNDANCY",
        "STANDARD_IA",
        "ONEZONE_IA",
        "INTELLIGENT_TIERING",
        "GLACIER",
        "GLACIER_IR",
        "DEEP_ARCHIVE",
        "EXPRESS_ONEZONE",
        "OUTPOSTS",
        "SNOW",
    }
)


class Directive(Enum):
    """x-amz-metadata-directive and x-amz-tagging-directive."""

    COPY = "COPY"
    REPLACE = "REPLACE"


def refuse_unserved(head: RequestHead) -> None:
    """NotImplemented for a header whose promise would be broken, naming it."""
    for name, _ in head.headers:
        for prefix, why in _UNSERVED.items():
            if name.startswith(prefix):
                raise ClientError(
                    S3Code.NOT_IMPLEMENTED, f"The header {name} is not implemented: {why}."
                )


def object_attributes(head: RequestHead, limits: HttpLimits) -> ObjectAttributes:
    """Everything a client says of an object it writes.

    Raises ClientError: MetadataTooLarge, InvalidTag, InvalidStorageClass, InvalidArgument (locks).
    """
    kept: dict[str, str] = {}
    for name in _KEPT_HEADERS:
        value = head.get(name)
        if name == "content-encoding" and value is not None:
            value = _without_aws_chunked(value)
        if value:
            kept[name] = value
    retention, legal_hold = lock_of_headers(head)
    return ObjectAttributes(
        headers=kept,
        metadata=_metadata(head, limits.max_metadata_bytes),
        tags=parse_tagging_header(head.get("x-amz-tagging") or ""),
        storage_class=_storage_class(head),
        retention=retention,
        legal_hold=legal_hold,
    )


def _without_aws_chunked(value: str) -> str:
    """The codings of the object itself: `aws-chunked` is the transfer's."""
    codings = [coding for coding in value.split(",") if coding.strip().lower() != "aws-chunked"]
    return ",".join(codings).strip(" \t,")


def _metadata(head: RequestHead, limit_bytes: int) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for name, value in head.headers:
        if name.startswith(_META_PREFIX):
            short = name.removeprefix(_META_PREFIX)
            metadata[short] = f"{metadata[short]},{value}" if short in metadata else value
    size_bytes = sum(len(name) + len(value) for name, value in metadata.items())  # latin-1: bytes
    if size_bytes > limit_bytes:
        raise ClientError(
            S3Code.METADATA_TOO_LARGE,
            details={"Size": str(size_bytes), "MaxSizeAllowed": str(limit_bytes)},
        )
    return metadata


def _storage_class(head: RequestHead) -> str:
    value = head.get("x-amz-storage-class") or "STANDARD"
    if value not in _STORAGE_CLASSES:
        raise ClientError(S3Code.INVALID_STORAGE_CLASS)
    return value


def copy_source(head: RequestHead) -> CopySource | None:
    """x-amz-copy-source and its conditions, or None where the header is absent.

    Split at the first "/" before decoding, so that "%2F" stays part of the key; where there is
    none, the client escaped the whole, separator and all. A leading "/" is optional;
    ``?versionId=`` is cut off first, for a "?" of the key arrives as "%3F". "+" is a space, as in
    a query: real clients escape it so, and S3 reads it so.
    """
    value = head.get("x-amz-copy-source")
    if value is None:
        return None
    # Header text is latin-1; a client that escaped nothing sent UTF-8.
    utf8 = value.encode("latin-1").decode("utf-8", "surrogateescape")
    path, separator, version = utf8.rpartition("?versionId=")
    escaped = (path if separator else utf8).replace("+", " ").removeprefix("/")
    if "/" in escaped:
        bucket, key = map(decode_path, escaped.split("/", 1))
    else:
        bucket, _, key = decode_path(escaped).removeprefix("/").partition("/")
    if not bucket or not key:
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
            details={"ArgumentName": "x-amz-copy-source", "ArgumentValue": value},
        )
    check_bucket_name(bucket)
    check_key(key)
    return CopySource(
        bucket=bucket,
        key=key,
        version_id=version if separator else None,
        conditions=parse_conditions(head, prefix=_COPY_PREFIX),
        expected_owner=head.get("x-amz-source-expected-bucket-owner"),
    )


def flag(head: RequestHead, name: str) -> bool:
    """Whether the header `name` says true, in any case."""
    return (head.get(name) or "").lower() == "true"


def bypass_governance(head: RequestHead) -> bool:
    """Whether a request asks to override retentions in GOVERNANCE mode."""
    return flag(head, "x-amz-bypass-governance-retention")


def object_ownership(head: RequestHead) -> ObjectOwnership | None:
    """x-amz-object-ownership, or None. InvalidArgument where it is none of S3's words."""
    value = head.get("x-amz-object-ownership")
    try:
        return None if value is None else ObjectOwnership(value)
    except ValueError as error:
        message = "Invalid x-amz-object-ownership header"
        raise invalid_argument("x-amz-object-ownership", value or "", message) from error


def directive(head: RequestHead, name: str) -> Directive:
    """COPY (also where the header `name` is absent) or REPLACE."""
    value = head.get(name) or Directive.COPY.value
    try:
        return Directive(value)
    except ValueError as error:
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            f"{name} must be COPY or REPLACE.",
            details={"ArgumentName": name, "ArgumentValue": value},
        ) from error


def claimed_checksums(head: RequestHead) -> dict[Algorithm, str]:
    """The whole object's checksums as CompleteMultipartUpload claims them; composites end in -N."""
    found = ((algorithm, head.get(algorithm.header)) for algorithm in Algorithm)
    return {algorithm: value for algorithm, value in found if value is not None}


def claimed_size(head: RequestHead) -> int | None:
    """x-amz-mp-object-size, or None. InvalidRequest where it is no number of bytes."""
    value = head.get("x-amz-mp-object-size")
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise ClientError(
            S3Code.INVALID_REQUEST, "Value for x-amz-mp-object-size header is invalid."
        )
    return int(value)


def checksum_type(head: RequestHead, algorithm: Algorithm | None) -> ChecksumType | None:
    """x-amz-checksum-type, or the algorithm's default.

    CRC64NVME is for full objects only, a SHA for composites only: InvalidRequest otherwise.
    """
    wanted = requested_type(head)
    if algorithm is None:
        return wanted
    full_only = algorithm is Algorithm.CRC64NVME
    if wanted is None:
        return ChecksumType.FULL_OBJECT if full_only else ChecksumType.COMPOSITE
    composite_only = algorithm in (Algorithm.SHA1, Algorithm.SHA256)
    if (full_only and wanted is ChecksumType.COMPOSITE) or (
        composite_only and wanted is ChecksumType.FULL_OBJECT
    ):
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"The {wanted.value} checksum type cannot be used with the {algorithm.label} checksum "
            "algorithm.",
        )
    return wanted
