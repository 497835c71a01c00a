"""One invariant for every parser of the edge: any input gives a value or a ClientError."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_heads import REGION, STORE, captured_requests, captured_store, head, with_header

from gateway.auth.claim import parse_claim
from gateway.auth.sigv4 import verify
from gateway.errors import ClientError
from gateway.wire.aws_chunked import AwsChunkedDecoder, decoded_length, is_aws_chunked
from gateway.wire.byte_range import parse_copy_range, parse_range
from gateway.wire.checksums import (
    declared_checksums,
    declared_trailers,
    parse_content_md5,
    requested_algorithm,
    requested_type,
)
from gateway.wire.conditional import evaluate, parse_conditions
from gateway.wire.names import check_bucket_name, check_key
from gateway.wire.rc_token import RcToken
from gateway.wire.rdma_headers import parse_cancel, parse_prepare, parse_ready
from gateway.wire.request import RequestHead, decode_path, decode_query
from gateway.wire.xml import parse_xml, render

wire_bytes = st.binary(max_size=200)
header_texts = wire_bytes.map(lambda raw: raw.decode("latin-1"))
any_texts = st.text(max_size=100)

HEADER_NAMES = (
    "authorization",
    "content-encoding",
    "content-md5",
    "date",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "range",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-type",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-trailer",
)
RDMA_NAMES = tuple(
    f"x-amz-rdma-{name}"
    for name in (
        "cookie",
        "mr-addr",
        "mr-rkey",
        "offset",
        "op",
        "protocol",
        "psn",
        "qpn",
        "session",
        "size",
        "target",
        "token",
    )
)
plausible = st.sampled_from(
    [
        "hipobj-rc-v2",
        "GET",
        "PUT",
        "/b/k",
        "/b/k?versionId=1",
        "1",
        "0000000f",
        "0" * 32,
        "01" + "0" * 86,
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "20260101T000000Z",
        'W/"a", b',
        "x-amz-checksum-crc32",
        "AAAAAA==",
    ]
)


def heads(names: tuple[str, ...]) -> st.SearchStrategy[RequestHead]:
    fields = st.lists(st.tuples(st.sampled_from(names), plausible | header_texts), max_size=12)
    targets = st.text(max_size=40).map(lambda text: "/" + text.replace("?", ""))
    return st.builds(RequestHead, st.just("GET"), targets, any_texts, fields.map(tuple))


def value_or_client_error(call: Callable[..., object], *arguments: object) -> None:
    with suppress(ClientError):
        call(*arguments)


@given(heads(HEADER_NAMES))
def test_sigv4__any_head__verifies_or_is_refused(request: RequestHead) -> None:
    value_or_client_error(parse_claim, request)
    value_or_client_error(verify, request, STORE, 1_767_225_600.0, REGION)


@given(st.sampled_from(captured_requests()), header_texts, st.integers(0, 400))
def test_sigv4__authorization_with_bytes_put_in__verifies_or_is_refused(
    captured: object, text: str, place: int
) -> None:
    request = captured.head  # type: ignore[attr-defined]
    authorization = request.get("authorization")
    changed = authorization[:place] + text + authorization[place:]
    value_or_client_error(
        verify,
        with_header(request, "authorization", changed),
        captured_store(),
        captured.sent_s,  # type: ignore[attr-defined]
        REGION,
    )


QUERY_NAMES = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
QUERY_VALUES = st.sampled_from(
    ["AWS4-HMAC-SHA256", "host", "a/20260101/us-east-1/s3/aws4_request", "20260101T000000Z", "60"]
)


@given(st.lists(st.tuples(st.sampled_from(QUERY_NAMES), QUERY_VALUES | any_texts), max_size=9))
def test_sigv4__any_presigned_query__verifies_or_is_refused(pairs: list[tuple[str, str]]) -> None:
    query = "&".join(f"X-Amz-{name}={value}" for name, value in pairs)
    value_or_client_error(
        verify, head(target=f"/b/k?{query}", host="h"), STORE, 1_767_225_600.0, REGION
    )


@given(heads(RDMA_NAMES), st.booleans())
def test_rdma_headers__any_head__parses_or_is_refused(request: RequestHead, spoken: bool) -> None:
    if spoken:
        request = with_header(request, "x-amz-rdma-protocol", "hipobj-rc-v2")
    for parse in (parse_prepare, parse_ready, parse_cancel):
        value_or_client_error(parse, request)


@given(
    any_texts | st.from_regex(r"[0-9A-Fa-f]{88}(:[0-9a-f]{1,16}:[0-9a-f]{1,16})?", fullmatch=True)
)
def test_rc_token__any_text__parses_or_is_refused(text: str) -> None:
    value_or_client_error(RcToken.parse, text)


@given(heads(HEADER_NAMES))
def test_headers__any_head__parses_or_is_refused(request: RequestHead) -> None:
    for parse in (
        declared_checksums,
        declared_trailers,
        parse_content_md5,
        requested_algorithm,
        requested_type,
        is_aws_chunked,
        decoded_length,
    ):
        value_or_client_error(parse, request)
    evaluate(parse_conditions(request), "etag", 0)


@given(any_texts | st.from_regex(r"bytes=[0-9,-]{0,30}", fullmatch=True), st.integers(0, 2**63))
def test_byte_range__any_text__lies_inside_the_object(text: str, size_bytes: int) -> None:
    spec = parse_range(text)
    extent = spec.resolve(size_bytes) if spec else None
    if extent is not None:
        assert 0 <= extent.offset_bytes < extent.end_bytes <= size_bytes
    value_or_client_error(parse_copy_range, text)


class AcceptingVerifier:
    def verify_chunk(self, sha256_hex: str, signature: str) -> None:
        assert len(sha256_hex) == 64

    verify_trailer = verify_chunk


SIGNATURE = b"a" * 64
FRAMES = st.lists(
    st.sampled_from(
        [b"0", b"3", b"\r\n", b"abc", b";chunk-signature=" + SIGNATURE, b"x:y", b"\n", b"F"]
    )
    | st.binary(max_size=8),
    max_size=30,
)


@pytest.mark.parametrize("verifier", [None, AcceptingVerifier()], ids=["unsigned", "signed"])
@given(pieces=FRAMES, length_bytes=st.none() | st.integers(0, 20))
def test_aws_chunked__any_bytes_cut_anywhere__decode_the_same_or_are_refused(
    verifier: AcceptingVerifier | None, pieces: list[bytes], length_bytes: int | None
) -> None:
    def outcome(chunks: list[bytes]) -> object:
        decoder = AwsChunkedDecoder(verifier, (), length_bytes)
        try:
            payload = b"".join(bytes(view) for chunk in chunks for view in decoder.feed(chunk))
            decoder.finish()
        except ClientError as error:
            return error.code
        return payload

    whole = b"".join(pieces)
    assert outcome(pieces) == outcome([whole]) == outcome([bytes([byte]) for byte in whole])


@given(wire_bytes | any_texts.map(lambda text: f"<a>{text}</a>".encode("utf-8", "replace")))
def test_xml__any_bytes__parse_or_are_refused(data: bytes) -> None:
    try:
        root = parse_xml(data, 150)
    except ClientError:
        return
    assert parse_xml(render(root), 1 << 16).tag == root.tag


@given(any_texts)
def test_names_and_targets__any_text__parse_or_are_refused(text: str) -> None:
    for parse in (check_bucket_name, decode_path, decode_query):
        value_or_client_error(parse, text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_check_key__any_unicode__passes_or_is_refused(key: str) -> None:
    value_or_client_error(check_key, key)
