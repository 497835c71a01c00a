"""The body of a PUT as botocore has made it ready for HTTP, and what it is without HTTP's framing.

Over https botocore sends aws-chunked bodies whose checksum comes behind them
(https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html). Bytes that go by
RDMA have no such frame; the checksum becomes a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from botocore.awsrequest import AWSPreparedRequest

from gateway.config import MIB
from gateway.errors import ClientError
from gateway.wire.aws_chunked import AwsChunkedDecoder

Headers = Mapping[str, str]
"""Lower-case names."""

_TRAILER = "x-amz-trailer"
_DECODED_LENGTH = "x-amz-decoded-content-length"
_ENCODING = "content-encoding"
_CHUNKED = "aws-chunked"


def body_length(headers: Headers) -> int | None:
    """How many bytes of the object a PUT carries; None where it does not say."""
    text = headers.get(_DECODED_LENGTH, headers.get("content-length", ""))
    return int(text) if text.isdecimal() else None


def take_body(request: AWSPreparedRequest, headers: Headers) -> tuple[bytes | bytearray, Headers]:
    """All of a PUT's body, and its headers, both without framing.

    Raises:
        ValueError: the body is not what its headers announce; the request is as it was.
    """
    try:
        if _TRAILER in headers:
            return _unframed(request.body, headers)
        return _whole(request.body, headers), headers
    except (ClientError, ValueError) as error:
        request.reset_stream()
        raise ValueError(f"this body can't be read ahead: {error}") from error


def _whole(body: Any, headers: Headers) -> bytes | bytearray:
    data: bytes | bytearray = body if isinstance(body, bytes | bytearray) else body.read()
    if len(data) != body_length(headers):
        raise ValueError("it is not as long as its Content-Length")
    return data


def _unframed(body: Any, headers: Headers) -> tuple[bytearray, Headers]:
    """The payload, read piece by piece, and the headers with the trailer's checksum among them."""
    length_bytes = body_length(headers) or 0
    decoder = AwsChunkedDecoder(None, (headers[_TRAILER].lower(),), length_bytes)
    data, at = bytearray(length_bytes), 0
    for framed in iter(partial(body.read, MIB), b""):
        for piece in decoder.feed(framed):
            data[at : at + len(piece)] = piece
            at += len(piece)
    kept = {name: text for name, text in headers.items() if name not in (_TRAILER, _DECODED_LENGTH)}
    codings = [coding.strip() for coding in kept.pop(_ENCODING, "").split(",")]
    own = ",".join(coding for coding in codings if coding not in ("", _CHUNKED))
    return data, kept | ({_ENCODING: own} if own else {}) | dict(decoder.finish())
