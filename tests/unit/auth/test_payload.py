from __future__ import annotations

import pytest

from gateway.auth.payload import Payload, PayloadMode, parse_payload
from gateway.errors import ClientError, S3Code


@pytest.mark.parametrize(
    ("text", "mode", "chunked", "signed"),
    [
        ("UNSIGNED-PAYLOAD", PayloadMode.UNSIGNED, False, False),
        ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", PayloadMode.UNSIGNED_CHUNKS_TRAILER, True, False),
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", PayloadMode.SIGNED_CHUNKS, True, True),
        (
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            PayloadMode.SIGNED_CHUNKS_TRAILER,
            True,
            True,
        ),
    ],
)
def test_parse_payload__mode__is_recognised(
    text: str, mode: PayloadMode, chunked: bool, signed: bool
) -> None:
    assert parse_payload(text) == Payload(mode)
    assert (mode.chunked, mode.signed_chunks) == (chunked, signed)


def test_parse_payload__digest__is_lower_case() -> None:
    assert parse_payload("AB" * 32) == Payload(PayloadMode.SHA256, "ab" * 32)
    assert not PayloadMode.SHA256.chunked


@pytest.mark.parametrize("text", ["", "unsigned-payload", "ab" * 31, "zz" * 32, "STREAMING-"])
def test_parse_payload__anything_else__is_invalid_argument(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_payload(text)
    assert caught.value.code is S3Code.INVALID_ARGUMENT


def test_parse_payload__sigv4a__is_not_implemented() -> None:
    with pytest.raises(ClientError) as caught:
        parse_payload("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")
    assert caught.value.code is S3Code.NOT_IMPLEMENTED
