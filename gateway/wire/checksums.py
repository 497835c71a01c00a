"""S3's checksum algorithms: names, header names, lengths, and what a request says of them.

The computing is `s3.digest`'s.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum

from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

_MD5_BYTES = 16


class Algorithm(Enum):
    """(name as in x-amz-sdk-checksum-algorithm, digest length in bytes)."""

    CRC32 = ("CRC32", 4)
    CRC32C = ("CRC32C", 4)
    CRC64NVME = ("CRC64NVME", 8)
    SHA1 = ("SHA1", 20)
    SHA256 = ("SHA256", 32)

    def __init__(self, label: str, length_bytes: int) -> None:
        self.label = label
        self.length_bytes = length_bytes

    @property
    def header(self) -> str:
        """The header and trailer name, lower case: ``x-amz-checksum-crc32``."""
        return f"x-amz-checksum-{self.label.lower()}"

    @property
    def element(self) -> str:
        """The XML element: ``ChecksumCRC32``."""
        return f"Checksum{self.label}"


class ChecksumType(Enum):
    """Of a multipart object: over the whole object, or over the parts' checksums."""

    FULL_OBJECT = "FULL_OBJECT"
    COMPOSITE = "COMPOSITE"


_BY_HEADER = {algorithm.header: algorithm for algorithm in Algorithm}
_BY_LABEL = {algorithm.label: algorithm for algorithm in Algorithm}


def decode_base64(text: str, length_bytes: int) -> bytes | None:
    """Canonical, padded base64 of exactly `length_bytes` bytes (RFC 4648 section 4), or None."""
    try:
        digest = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # not base64; not ASCII
        return None
    return digest if len(digest) == length_bytes else None


def composite_etag(part_md5s: Sequence[bytes]) -> str:
    """The ETag of a multipart object: MD5 over the parts' MD5s, a dash, the number of parts."""
    joined = hashlib.md5(b"".join(part_md5s), usedforsecurity=False)
    return f"{joined.hexdigest()}-{len(part_md5s)}"


def parse_algorithm(label: str) -> Algorithm:
    """The algorithm of that name, in any case.

    Raises:
        ClientError: InvalidRequest.
    """
    try:
        return _BY_LABEL[label.upper()]
    except KeyError as error:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"Checksum algorithm provided is unsupported. Please try again with any of the valid "
            f"types: [{', '.join(_BY_LABEL)}]",
        ) from error


def requested_algorithm(head: RequestHead) -> Algorithm | None:
    """What x-amz-sdk-checksum-algorithm or x-amz-checksum-algorithm names; None without either.

    Raises:
        ClientError: InvalidRequest for an unknown name.
    """
    label = head.get("x-amz-sdk-checksum-algorithm") or head.get("x-amz-checksum-algorithm")
    return parse_algorithm(label) if label else None


def requested_type(head: RequestHead) -> ChecksumType | None:
    """What x-amz-checksum-type says; None where it is absent.

    Raises:
        ClientError: InvalidRequest for a value that is no type.
    """
    value = head.get("x-amz-checksum-type")
    if value is None:
        return None
    try:
        return ChecksumType(value.upper())
    except ValueError as error:
        raise ClientError(
            S3Code.INVALID_REQUEST, "x-amz-checksum-type must be FULL_OBJECT or COMPOSITE."
        ) from error


def declared_checksums(head: RequestHead) -> Mapping[Algorithm, str]:
    """The checksum that the request's headers claim for its body: base64 by algorithm, 0 or 1.

    Raises:
        ClientError: InvalidRequest: more than one, a value that is not base64 of the algorithm's
            length, or another algorithm than x-amz-sdk-checksum-algorithm announces.
    """
    found = [(_BY_HEADER[name], value) for name, value in head.headers if name in _BY_HEADER]
    if not found:
        return {}
    if len(found) > 1:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "Expecting a single x-amz-checksum- header. Multiple are not allowed.",
        )
    algorithm, value = found[0]
    _check_agreement(head, algorithm)
    if decode_base64(value, algorithm.length_bytes) is None:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"Value for {algorithm.header} header is invalid: it must be base64 of "
            f"{algorithm.length_bytes} bytes.",
        )
    return {algorithm: value}


def declared_trailers(head: RequestHead) -> tuple[Algorithm, ...]:
    """The checksums that x-amz-trailer announces to follow the body; () where there is none.

    Raises:
        ClientError: InvalidRequest: a name that is no checksum, more than one, one beside a
            checksum header, or another than x-amz-sdk-checksum-algorithm announces.
    """
    listed = ",".join(head.values("x-amz-trailer"))
    names = [name for name in (piece.strip().lower() for piece in listed.split(",")) if name]
    if any(name not in _BY_HEADER for name in names):
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "The value specified in the x-amz-trailer header is not supported.",
        )
    beside = sum(name in _BY_HEADER for name, _ in head.headers)
    if names and len(names) + beside > 1:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "Expecting a single x-amz-checksum- header or trailer. Multiple are not allowed.",
        )
    algorithms = tuple(_BY_HEADER[name] for name in names)
    for algorithm in algorithms:
        _check_agreement(head, algorithm)
    return algorithms


def trailer_checksums(trailers: Mapping[str, str]) -> Mapping[Algorithm, str]:
    """The checksums in a decoded trailer section: base64 by algorithm.

    Raises:
        ClientError: InvalidRequest for a value that is not base64 of the algorithm's length.
    """
    found = {_BY_HEADER[name]: value for name, value in trailers.items() if name in _BY_HEADER}
    for algorithm, value in found.items():
        if decode_base64(value, algorithm.length_bytes) is None:
            raise ClientError(
                S3Code.INVALID_REQUEST, f"Value for {algorithm.header} trailing header is invalid."
            )
    return found


def parse_content_md5(head: RequestHead) -> bytes | None:
    """The 16 bytes of Content-MD5 (RFC 1864); None where the header is absent.

    Raises:
        ClientError: InvalidDigest.
    """
    value = head.get("content-md5")
    if value is None:
        return None
    digest = decode_base64(value, _MD5_BYTES)
    if digest is None:
        raise ClientError(S3Code.INVALID_DIGEST, details={"Content-MD5": value})
    return digest


def _check_agreement(head: RequestHead, algorithm: Algorithm) -> None:
    label = head.get("x-amz-sdk-checksum-algorithm")
    if label is not None and parse_algorithm(label) is not algorithm:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            f"x-amz-sdk-checksum-algorithm says {label}, but {algorithm.header} was sent.",
        )
