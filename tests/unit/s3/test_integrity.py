from __future__ import annotations

import base64
import hashlib

import pytest
from bodies import checksum
from s3_desk import refused

from gateway.errors import S3Code
from gateway.s3.integrity import Declared
from gateway.wire.checksums import Algorithm
from gateway.wire.request import RequestHead

DATA = b"body"
MD5 = hashlib.md5(DATA).digest()
CRC = checksum(Algorithm.CRC32, DATA)


def declared(method: str = "PUT", query: str = "", **headers: str) -> Declared:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Declared.of(RequestHead(method, "/shop/k", query, fields))


def test_declared__right_digests__verify() -> None:
    both = declared(content_md5=base64.b64encode(MD5).decode(), x_amz_checksum_crc32=CRC)
    assert both == Declared(MD5, {Algorithm.CRC32: CRC})
    both.verify(MD5, {Algorithm.CRC32: CRC})


def test_declared__wrong_md5__is_bad_digest_with_both() -> None:
    with refused(S3Code.BAD_DIGEST) as caught:
        Declared(MD5).verify(bytes(16), {})
    assert caught.value.details == {"ExpectedDigest": MD5.hex(), "CalculatedDigest": "00" * 16}


def test_declared__wrong_checksum__is_bad_digest_with_both() -> None:
    with refused(S3Code.BAD_DIGEST) as caught:
        Declared(checksums={Algorithm.CRC32: CRC}).verify(MD5, {Algorithm.CRC32: "AAAAAA=="})
    assert caught.value.details == {"ExpectedDigest": CRC, "CalculatedDigest": "AAAAAA=="}


@pytest.mark.parametrize("value", ["x", "AAAA", base64.b64encode(MD5).decode()[:-1]])
def test_declared__malformed_md5__is_invalid_digest(value: str) -> None:
    with refused(S3Code.INVALID_DIGEST):
        declared(content_md5=value)


def test_declared__complete_upload__checksum_is_not_the_documents() -> None:
    found = declared("POST", "uploadId=u", x_amz_checksum_sha256="composite-2")
    assert found.checksums == {}


def test_declared__delete_objects__checksum_is_the_documents() -> None:
    assert declared("POST", "delete", x_amz_checksum_crc32=CRC).checksums
