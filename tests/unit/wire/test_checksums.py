from __future__ import annotations

import base64
import hashlib

import pytest
from request_heads import head

from gateway.errors import ClientError, S3Code
from gateway.wire.checksums import (
    Algorithm,
    ChecksumType,
    declared_checksums,
    declared_trailers,
    parse_content_md5,
    requested_algorithm,
    requested_type,
    trailer_checksums,
)
from gateway.wire.request import RequestHead

CRC32 = "NhCmhg=="  # of "hello", from a captured request
SHA256 = base64.b64encode(hashlib.sha256(b"hello").digest()).decode()


def code_of(call: object, *arguments: object) -> S3Code:
    with pytest.raises(ClientError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


def test_algorithm__names__are_s3s() -> None:
    assert Algorithm.CRC64NVME.header == "x-amz-checksum-crc64nvme"
    assert Algorithm.CRC64NVME.element == "ChecksumCRC64NVME"


def test_declared_checksums__one_header__is_given() -> None:
    assert declared_checksums(head(x_amz_checksum_crc32=CRC32)) == {Algorithm.CRC32: CRC32}
    assert declared_checksums(head(x_amz_checksum_sha256=SHA256)) == {Algorithm.SHA256: SHA256}


def test_declared_checksums__algorithm_agrees_in_any_case__is_given() -> None:
    request = head(x_amz_checksum_crc32=CRC32, x_amz_sdk_checksum_algorithm="crc32")

    assert declared_checksums(request) == {Algorithm.CRC32: CRC32}


@pytest.mark.parametrize(
    "request_",
    [head(host="h"), head(x_amz_checksum_mode="ENABLED", x_amz_checksum_type="COMPOSITE")],
)
def test_declared_checksums__none__is_empty(request_: RequestHead) -> None:
    assert declared_checksums(request_) == {}


@pytest.mark.parametrize(
    "request_",
    [
        head(x_amz_checksum_crc32=CRC32, x_amz_checksum_sha256=SHA256),
        RequestHead("PUT", "/", "", (("x-amz-checksum-crc32", CRC32),) * 2),
        head(x_amz_checksum_crc32=""),
        head(x_amz_checksum_crc32="NhCmhg"),
        head(x_amz_checksum_crc32="NhCm\xe9g=="),
        head(x_amz_checksum_crc32=SHA256),
        head(x_amz_checksum_crc32=CRC32, x_amz_sdk_checksum_algorithm="SHA256"),
        head(x_amz_checksum_crc32=CRC32, x_amz_sdk_checksum_algorithm="MD5"),
    ],
)
def test_declared_checksums__malformed_or_several__is_invalid_request(
    request_: RequestHead,
) -> None:
    assert code_of(declared_checksums, request_) is S3Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("request_", "trailers"),
    [
        (head(host="h"), ()),
        (head(x_amz_trailer=""), ()),
        (head(x_amz_checksum_sha256="of-the-finished-object-2"), ()),
        (head(x_amz_trailer=" X-Amz-Checksum-CRC32 "), (Algorithm.CRC32,)),
        (
            head(x_amz_trailer="x-amz-checksum-sha1", x_amz_sdk_checksum_algorithm="SHA1"),
            (Algorithm.SHA1,),
        ),
    ],
)
def test_declared_trailers__checksum_names__are_given(
    request_: RequestHead, trailers: tuple[Algorithm, ...]
) -> None:
    assert declared_trailers(request_) == trailers


@pytest.mark.parametrize(
    "request_",
    [
        head(x_amz_trailer="x-amz-meta-a"),
        head(x_amz_trailer="x-amz-checksum-crc32,x-amz-checksum-sha1"),
        head(x_amz_trailer="x-amz-checksum-sha1", x_amz_checksum_crc32=CRC32),
        head(x_amz_trailer="x-amz-checksum-sha1", x_amz_sdk_checksum_algorithm="CRC32"),
    ],
)
def test_declared_trailers__unsupported_or_several__is_invalid_request(
    request_: RequestHead,
) -> None:
    assert code_of(declared_trailers, request_) is S3Code.INVALID_REQUEST


def test_trailer_checksums__valid__is_given() -> None:
    assert trailer_checksums({"x-amz-checksum-crc32": CRC32, "x-other": "1"}) == {
        Algorithm.CRC32: CRC32
    }


def test_trailer_checksums__not_base64__is_invalid_request() -> None:
    assert code_of(trailer_checksums, {"x-amz-checksum-crc32": "?"}) is S3Code.INVALID_REQUEST


def test_parse_content_md5__valid__is_bytes() -> None:
    digest = hashlib.md5(b"hello").digest()

    assert parse_content_md5(head(content_md5=base64.b64encode(digest).decode())) == digest
    assert parse_content_md5(head(host="h")) is None


@pytest.mark.parametrize("value", ["", "abc", CRC32, hashlib.md5(b"").hexdigest()])
def test_parse_content_md5__malformed__is_invalid_digest(value: str) -> None:
    assert code_of(parse_content_md5, head(content_md5=value)) is S3Code.INVALID_DIGEST


def test_requested_algorithm__either_header__is_read() -> None:
    assert requested_algorithm(head(x_amz_sdk_checksum_algorithm="sha1")) is Algorithm.SHA1
    assert requested_algorithm(head(x_amz_checksum_algorithm="CRC64NVME")) is Algorithm.CRC64NVME
    assert requested_algorithm(head(host="h")) is None
    assert code_of(requested_algorithm, head(x_amz_checksum_algorithm="MD5")) is (
        S3Code.INVALID_REQUEST
    )


def test_requested_type__header__is_read() -> None:
    assert requested_type(head(x_amz_checksum_type="COMPOSITE")) is ChecksumType.COMPOSITE
    assert requested_type(head(host="h")) is None
    assert code_of(requested_type, head(x_amz_checksum_type="PARTIAL")) is S3Code.INVALID_REQUEST
