"""boto3_body: botocore's own aws-chunked bodies, without their frame."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

from gateway.client.boto3_body import body_length, take_body

DATA = bytes(range(256)) * 9000  # more than one of botocore's chunks
CRC32 = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()


def chunked(data: bytes, **headers: str) -> tuple[AWSPreparedRequest, dict[str, str]]:
    """A request whose body botocore has wrapped, as for https."""
    body = AwsChunkedWrapper(
        io.BytesIO(data), checksum_cls=Crc32Checksum, checksum_name="x-amz-checksum-crc32"
    )
    named = {
        "content-encoding": "aws-chunked",
        "x-amz-trailer": "x-amz-checksum-crc32",
        "x-amz-decoded-content-length": str(len(data)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return request(body), named


def request(body: Any) -> AWSPreparedRequest:
    return AWSPreparedRequest("PUT", "https://gateway/b/k", {}, body, stream_output=False)


def test_take__chunked__is_the_payload_and_its_checksum_a_header() -> None:
    made, headers = chunked(DATA, content_encoding="gzip,aws-chunked", x_amz_meta_a="1")
    assert body_length(headers) == len(DATA)
    data, kept = take_body(made, headers)
    assert data == DATA
    assert kept == {
        "content-encoding": "gzip",
        "x-amz-checksum-crc32": CRC32,
        "x-amz-meta-a": "1",
    }


def test_take__chunked_without_an_own_encoding__has_none() -> None:
    _, kept = take_body(*chunked(b"x"))
    assert "content-encoding" not in kept


@pytest.mark.parametrize("body", [b"plain", bytearray(b"plain"), io.BytesIO(b"plain")])
def test_take__plain__is_as_it_was(body: Any) -> None:
    headers = {"content-length": "5", "x-amz-meta-a": "1"}
    data, kept = take_body(request(body), headers)
    assert (bytes(data), kept) == (b"plain", headers)


def test_take__shorter_than_announced__leaves_the_request_as_it_was() -> None:
    made, headers = chunked(DATA, x_amz_decoded_content_length=str(len(DATA) + 1))
    with pytest.raises(ValueError, match="can't be read ahead"):
        take_body(made, headers)
    assert made.body.read().startswith(b"100000\r\n")  # from its beginning
    plain = request(io.BytesIO(b"four"))
    with pytest.raises(ValueError, match="not as long as its Content-Length"):
        take_body(plain, {"content-length": "5"})
    assert plain.body.read() == b"four"


def test_body_length__not_told__is_none() -> None:
    assert body_length({}) is None
