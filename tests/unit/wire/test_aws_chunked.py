"""Framing by botocore's own encoder, cut anywhere; and every way a frame can be broken."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given
from hypothesis import strategies as st
from request_heads import captured_requests, head

from gateway.errors import ClientError, S3Code
from gateway.wire.aws_chunked import (
    MAX_CHUNK_LINE_BYTES,
    MAX_TRAILER_BYTES,
    AwsChunkedDecoder,
    decoded_length,
    is_aws_chunked,
)

CRC32 = "x-amz-checksum-crc32"
SIGNATURE = "5" * 64


class RecordingVerifier:
    """Accepts everything and remembers it; refuses the signature of sixty-four zeros."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def verify_chunk(self, sha256_hex: str, signature: str) -> None:
        self.seen.append((sha256_hex, signature))
        if signature == "0" * 64:
            raise ClientError(S3Code.SIGNATURE_DOES_NOT_MATCH)

    verify_trailer = verify_chunk


def encoded_by_botocore(payload: bytes, chunk_bytes: int) -> bytes:
    wrapper = AwsChunkedWrapper(
        io.BytesIO(payload),
        checksum_cls=Crc32Checksum,
        checksum_name=CRC32,
        chunk_size=chunk_bytes,
    )
    return wrapper.read()


def decode(
    body: bytes,
    *trailers: str,
    verifier: RecordingVerifier | None = None,
    length_bytes: int | None = None,
    step_bytes: int | None = None,
) -> tuple[bytes, dict[str, str]]:
    decoder = AwsChunkedDecoder(verifier, trailers, length_bytes)
    payload = bytearray()
    step_bytes = step_bytes or max(1, len(body))
    for start in range(0, len(body), step_bytes):
        for piece in decoder.feed(body[start : start + step_bytes]):
            payload += piece
    trailers_found = dict(decoder.finish())
    assert decoder.decoded_bytes == len(payload)
    return bytes(payload), trailers_found


def signed_chunk(data: bytes) -> bytes:
    return b"%x;chunk-signature=%b\r\n%b" % (len(data), SIGNATURE.encode(), data) + (
        b"\r\n" if data else b""
    )


def code_of(body: bytes, *trailers: str, **options: object) -> S3Code:
    with pytest.raises(ClientError) as caught:
        decode(body, *trailers, **options)  # type: ignore[arg-type]
    return caught.value.code


@given(st.binary(max_size=300), st.integers(1, 64), st.integers(1, 40))
def test_decode__encoded_by_botocore__gives_payload_and_trailer(
    payload: bytes, chunk_bytes: int, step_bytes: int
) -> None:
    body = encoded_by_botocore(payload, chunk_bytes)

    found, trailers = decode(body, CRC32, length_bytes=len(payload), step_bytes=step_bytes)

    crc = base64.b64encode(zlib.crc32(payload).to_bytes(4, "big")).decode()
    assert found == payload
    assert trailers == {CRC32: crc}


@given(st.binary(max_size=60), st.data())
def test_decode__body_cut_short_anywhere__is_refused(payload: bytes, data: st.DataObject) -> None:
    body = encoded_by_botocore(payload, 16)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]

    code = code_of(cut, CRC32, length_bytes=len(payload))

    assert code is S3Code.INCOMPLETE_BODY


def test_feed__payload__is_a_view_into_what_was_fed() -> None:
    data = bytearray(b"4\r\nabcd\r\n")

    (piece,) = AwsChunkedDecoder(None).feed(data)

    assert piece.obj is data


def test_decode__chunk_longer_than_any_buffer__is_released_as_it_comes() -> None:
    decoder = AwsChunkedDecoder(None)
    decoder.feed(b"ffffffffffffffff\r\n")

    assert [bytes(piece) for piece in decoder.feed(b"x" * 1000)] == [b"x" * 1000]
    assert decoder.decoded_bytes == 1000


def test_decode__bare_newlines_and_upper_case_size__are_accepted() -> None:
    assert decode(b"A\n0123456789\n0\n\n") == (b"0123456789", {})


def test_decode__payload_that_looks_like_framing__stays_payload() -> None:
    payload = b"0\r\n\r\n5\r\n"

    assert decode(b"8\r\n" + payload + b"\r\n0\r\n\r\n")[0] == payload


def test_decode__signed__hands_each_chunk_to_the_verifier() -> None:
    verifier = RecordingVerifier()
    body = signed_chunk(b"abc") + signed_chunk(b"de") + signed_chunk(b"") + b"\r\n"

    assert decode(body, verifier=verifier, step_bytes=2)[0] == b"abcde"

    assert verifier.seen == [
        (hashlib.sha256(data).hexdigest(), SIGNATURE) for data in (b"abc", b"de", b"")
    ]


def test_decode__signed_trailer__is_hashed_line_by_line() -> None:
    verifier = RecordingVerifier()
    body = (
        signed_chunk(b"")
        + b"X-Amz-Checksum-CRC32: AAAAAA== \r\nx-amz-trailer-signature:"
        + SIGNATURE.encode()
        + b"\r\n\r\n"
    )

    assert decode(body, CRC32, verifier=verifier)[1] == {CRC32: "AAAAAA=="}

    signed = b"x-amz-checksum-crc32:AAAAAA==\n"
    assert verifier.seen[-1] == (hashlib.sha256(signed).hexdigest(), SIGNATURE)


@pytest.mark.parametrize("place", range(3))
def test_decode__verifier_refuses__its_error_comes_through(place: int) -> None:
    parts = [signed_chunk(b"abc"), signed_chunk(b""), b"x-amz-trailer-signature:%b\r\n\r\n"]
    parts[2] %= SIGNATURE.encode()
    parts[place] = parts[place].replace(SIGNATURE.encode(), b"0" * 64)

    code = code_of(b"".join(parts), verifier=RecordingVerifier())

    assert code is S3Code.SIGNATURE_DOES_NOT_MATCH


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"0\r\n",
        b"3\r\nab",
        b"3\r\nabc",
        b"3\r\nabc\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"3;name=value\r\nabc\r\n0\r\n\r\n",
        b"3;chunk-signature=" + b"5" * 64 + b"\r\nabc\r\n0\r\n\r\n",
        b"1" * 17 + b"\r\n",
        b"1" * MAX_CHUNK_LINE_BYTES,
        b"0" * 4096,
    ],
)
def test_decode__broken_framing__is_incomplete_body(body: bytes) -> None:
    assert code_of(body) is S3Code.INCOMPLETE_BODY
    assert code_of(body, step_bytes=1) is S3Code.INCOMPLETE_BODY


@pytest.mark.parametrize(
    "line", [b"3\r\nabc\r\n", b"3;chunk-signature=55\r\nabc\r\n", b"3;chunk-signature=\r\nabc\r\n"]
)
def test_decode__signed_mode_without_signature__is_incomplete_body(line: bytes) -> None:
    assert code_of(line, verifier=RecordingVerifier()) is S3Code.INCOMPLETE_BODY


@pytest.mark.parametrize("length_bytes", [2, 4])
def test_decode__another_length_than_announced__is_incomplete_body(length_bytes: int) -> None:
    body = b"3\r\nabc\r\n0\r\n\r\n"

    assert code_of(body, length_bytes=length_bytes) is S3Code.INCOMPLETE_BODY


def test_feed__chunk_beyond_the_announced_length__is_refused_before_its_payload() -> None:
    decoder = AwsChunkedDecoder(None, (), 3)

    with pytest.raises(ClientError):
        decoder.feed(b"4\r\nabcd")

    assert decoder.decoded_bytes == 0


@pytest.mark.parametrize(
    ("section", "trailers"),
    [
        (b"\r\n", (CRC32,)),
        (b"x-amz-checksum-crc32:a\r\n\r\n", ()),
        (b"x-amz-checksum-sha1:a\r\n\r\n", (CRC32,)),
        (b"x-amz-checksum-crc32:a\r\nx-amz-checksum-sha1:a\r\n\r\n", (CRC32,)),
        (b"x-amz-checksum-crc32:a\r\nx-amz-checksum-crc32:a\r\n\r\n", (CRC32,)),
        (b"x-amz-checksum-crc32\r\n\r\n", (CRC32,)),
        (b":a\r\n\r\n", (CRC32,)),
        (b"x-amz-trailer-signature:1\r\nx-amz-trailer-signature:1\r\n\r\n", ()),
        (b"x" * (MAX_TRAILER_BYTES + 1), ()),
        (b"a:b\r\n" * MAX_TRAILER_BYTES, ()),
    ],
)
def test_decode__trailers_missing_unannounced_or_malformed__is_malformed_trailer(
    section: bytes, trailers: tuple[str, ...]
) -> None:
    assert code_of(b"0\r\n" + section, *trailers) is S3Code.MALFORMED_TRAILER
    assert code_of(b"0\r\n" + section, *trailers, step_bytes=1) is S3Code.MALFORMED_TRAILER


def test_decode__signed_chunks_with_unsigned_trailer__is_malformed_trailer() -> None:
    body = signed_chunk(b"") + b"x-amz-checksum-crc32:a\r\n\r\n"

    assert code_of(body, CRC32, verifier=RecordingVerifier()) is S3Code.MALFORMED_TRAILER


@pytest.mark.parametrize(
    ("headers", "chunked"),
    [
        ({"x_amz_content_sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, True),
        ({"content_encoding": "gzip, AWS-Chunked"}, True),
        ({"x_amz_decoded_content_length": "5"}, True),
        ({"content_encoding": "aws-chunked", "x_amz_content_sha256": "UNSIGNED-PAYLOAD"}, False),
        ({"content_encoding": "aws-chunked", "x_amz_content_sha256": "0" * 64}, False),
        ({"host": "h"}, False),
    ],
)
def test_is_aws_chunked__one_sign_is_enough(headers: dict[str, str], chunked: bool) -> None:
    assert is_aws_chunked(head(**headers)) is chunked


def test_is_aws_chunked__captured_clients__are_pyarrow_and_restic_only() -> None:
    clients = {request.client for request in captured_requests() if is_aws_chunked(request.head)}

    assert clients == {"pyarrow", "restic"}


def test_decoded_length__decimal__is_read() -> None:
    assert decoded_length(head(x_amz_decoded_content_length="0")) == 0
    assert decoded_length(head(host="h")) is None


@pytest.mark.parametrize("value", ["", "-1", "+1", "1.0", "٣", "1" * 20, "0x1"])
def test_decoded_length__anything_else__is_invalid_argument(value: str) -> None:
    with pytest.raises(ClientError) as caught:
        decoded_length(head(x_amz_decoded_content_length=value))
    assert caught.value.code is S3Code.INVALID_ARGUMENT
