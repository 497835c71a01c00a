"""HTTP at the level of bytes: order, framing, limits, odd keys, and connections that live on."""

from __future__ import annotations

import hashlib
import re
import socket
from base64 import b64encode
from typing import Any

import pytest
from chunked_bodies import (
    crc32,
    crc32_trailer,
    trailer_headers,
    transfer_chunked,
    unsigned_chunks,
)
from gateway_process import GatewayProcess
from raw_http import RawClient, assert_error

DATA = bytes(range(256)) * 1000
EXPECT = {"Expect": "100-continue"}


def test_reply__any__has_server_date_and_ids(raw: RawClient) -> None:
    reply = raw.ask("GET", "/")
    assert reply.status == 200
    assert reply.headers["server"].startswith("s3rdma/")
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", reply.headers["date"])
    assert re.fullmatch(r"[0-9A-F]{16}", reply.headers["x-amz-request-id"])
    assert reply.headers["x-amz-id-2"]


# Keep-alive


def test_connection__errors_of_every_kind__serves_the_next_request(
    raw: RawClient, bucket: str
) -> None:
    assert_error(raw.ask("GET", f"/{bucket}/none"), 404, "NoSuchKey")
    assert_error(raw.ask("PUT", f"/{bucket}-none/k", DATA), 404, "NoSuchBucket")
    wrong = {"Content-MD5": b64encode(hashlib.md5(b"other").digest()).decode()}
    assert_error(raw.ask("PUT", f"/{bucket}/k", DATA, wrong), 400, "BadDigest")
    assert raw.ask("HEAD", f"/{bucket}/none").status == 404
    assert_error(raw.ask("PATCH", f"/{bucket}/k"), 405, "MethodNotAllowed")
    assert raw.ask("PUT", f"/{bucket}/k", DATA).status == 200
    assert raw.ask("GET", f"/{bucket}/k").body == DATA
    assert raw.ask("GET", f"/{bucket}").status == 200


def test_connection__two_requests_at_once__are_answered_in_order(
    raw: RawClient, bucket: str
) -> None:
    raw.send(
        raw.signed_head("PUT", f"/{bucket}/k", DATA)
        + DATA
        + raw.signed_head("GET", f"/{bucket}/k")
        + raw.signed_head("DELETE", f"/{bucket}/k")
    )
    assert raw.reply().status == 200
    assert raw.reply().body == DATA
    assert raw.reply().status == 204


def test_connection__asked_to_close__closes_after_the_reply(raw: RawClient, bucket: str) -> None:
    reply = raw.ask("GET", f"/{bucket}", headers={"Connection": "close"})
    assert reply.status == 200
    assert reply.headers["connection"] == "close"
    assert raw.hung_up()


# 100-continue


def test_expect__authenticated__is_continued_with_a_reason_phrase(
    raw: RawClient, bucket: str
) -> None:
    """botocore#3455: clients wait for the whole line, reason phrase and all."""
    raw.send(raw.signed_head("PUT", f"/{bucket}/k", DATA, EXPECT))
    assert raw.line() == b"HTTP/1.1 100 Continue\r\n"
    assert raw.line() == b"\r\n"
    raw.send(DATA)
    assert raw.reply().status == 200
    assert raw.ask("GET", f"/{bucket}/k").body == DATA


@pytest.mark.parametrize("missing", ["signature", "bucket"])
def test_expect__refused__gets_the_error_without_100_and_the_connection_ends(
    raw: RawClient, bucket: str, missing: str
) -> None:
    if missing == "signature":
        head = raw.head("PUT", f"/{bucket}/k", {"Content-Length": "5"} | EXPECT)
        raw.send(head)
        assert_error(raw.reply(), 403, "AccessDenied")
    else:
        raw.send(raw.signed_head("PUT", f"/{bucket}-none/k", DATA, EXPECT))
        assert_error(raw.reply(), 404, "NoSuchBucket")
    assert raw.hung_up()


# Framing


def test_put__aws_chunked_inside_transfer_encoding_chunked__stores_the_payload_only(
    raw: RawClient, s3: Any, bucket: str
) -> None:
    headers = trailer_headers(DATA) | EXPECT | {"Transfer-Encoding": "chunked"}
    raw.send(raw.signed_head("PUT", f"/{bucket}/k", b"", headers, content_length=False))
    assert raw.line() == b"HTTP/1.1 100 Continue\r\n"
    assert raw.line() == b"\r\n"
    raw.send(transfer_chunked(unsigned_chunks(DATA, crc32_trailer(DATA))))
    assert raw.reply().status == 200
    stored = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert stored["Body"].read() == DATA
    assert stored["ChecksumCRC32"] == crc32(DATA)
    assert "ContentEncoding" not in stored


def test_put__aws_chunked_with_content_length__stores_the_payload_only(
    raw: RawClient, bucket: str
) -> None:
    body = unsigned_chunks(DATA, crc32_trailer(DATA))
    assert raw.ask("PUT", f"/{bucket}/k", body, trailer_headers(DATA)).status == 200
    assert raw.ask("GET", f"/{bucket}/k").body == DATA


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (unsigned_chunks(DATA, crc32_trailer(b"other")), "BadDigest"),
        (unsigned_chunks(DATA, "x-amz-checksum-crc32:not base64"), "InvalidRequest"),
        (unsigned_chunks(DATA, crc32_trailer(DATA))[:-20], "IncompleteBody"),
        (unsigned_chunks(DATA[:-1], crc32_trailer(DATA[:-1])), "IncompleteBody"),
        (unsigned_chunks(DATA, "x-amz-what:1"), "MalformedTrailerError"),
    ],
)
def test_put__aws_chunked_with_a_fault__is_refused_and_stores_nothing(
    raw: RawClient, bucket: str, body: bytes, code: str
) -> None:
    assert_error(raw.ask("PUT", f"/{bucket}/k", body, trailer_headers(DATA)), 400, code)
    assert_error(raw.ask("GET", f"/{bucket}/k"), 404, "NoSuchKey")


def test_put__transfer_encoding_chunked_alone__is_stored(raw: RawClient, bucket: str) -> None:
    headers = {"Transfer-Encoding": "chunked", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    head = raw.signed_head("PUT", f"/{bucket}/k", b"", headers, content_length=False)
    raw.send(head + transfer_chunked(DATA))
    assert raw.reply().status == 200
    assert raw.ask("GET", f"/{bucket}/k").body == DATA


def test_put__neither_length_nor_chunked__is_411(raw: RawClient, bucket: str) -> None:
    headers = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    raw.send(raw.signed_head("PUT", f"/{bucket}/k", b"", headers, content_length=False))
    assert_error(raw.reply(), 411, "MissingContentLength")


def test_put__content_length_and_transfer_encoding__is_refused_and_closed(
    raw: RawClient, bucket: str
) -> None:
    headers = {"Content-Length": "5", "Transfer-Encoding": "chunked"}
    raw.send(raw.head("PUT", f"/{bucket}/k", headers) + b"0\r\n\r\n")
    assert_error(raw.reply(), 400, "InvalidRequest")
    assert raw.hung_up()


def test_put__broken_transfer_chunks__store_nothing(raw: RawClient, s3: Any, bucket: str) -> None:
    headers = {"Transfer-Encoding": "chunked", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    head = raw.signed_head("PUT", f"/{bucket}/k", b"", headers, content_length=False)
    raw.send(head + b"5\r\nhello\r\nnot a size\r\n")
    assert raw.reply().status == 400
    assert raw.hung_up()
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_put__client_goes_away_halfway__stores_nothing(
    served: GatewayProcess, raw: RawClient, s3: Any, bucket: str
) -> None:
    with RawClient(served.address, served.access_key, served.secret_key) as gone:
        gone.send(gone.signed_head("PUT", f"/{bucket}/k", DATA) + DATA[:100_000])
    assert_error(raw.ask("GET", f"/{bucket}/k"), 404, "NoSuchKey")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_put__payload_other_than_signed__is_refused(raw: RawClient, bucket: str) -> None:
    head = raw.signed_head("PUT", f"/{bucket}/k", b"signed")
    raw.send(head + b"forged")
    assert_error(raw.reply(), 400, "XAmzContentSHA256Mismatch")


# Limits and heads that are none


def test_head__field_too_long__is_s3_xml(raw: RawClient) -> None:
    raw.send(raw.head("GET", "/", {"x-amz-meta-long": "v" * 20_000}))
    assert_error(raw.reply(), 400, "RequestHeaderSectionTooLarge")
    assert raw.hung_up()


def test_head__too_many_fields__is_s3_xml(raw: RawClient) -> None:
    raw.send(raw.head("GET", "/", {f"x-amz-meta-{number}": "v" for number in range(300)}))
    assert_error(raw.reply(), 400, "RequestHeaderSectionTooLarge")


def test_head__fields_together_too_long__is_s3_xml(raw: RawClient) -> None:
    raw.send(raw.head("GET", "/", {f"x-amz-meta-{number}": "v" * 15_000 for number in range(5)}))
    assert_error(raw.reply(), 400, "RequestHeaderSectionTooLarge")


def test_head__never_ends__is_cut_off_at_the_limit(raw: RawClient) -> None:
    raw.send(b"GET / HTTP/1.1\r\n")
    field = b"x-amz-meta-a: " + b"v" * 8000 + b"\r\n"
    for _ in range(9):
        raw.send(field)
    assert_error(raw.reply(), 400, "RequestHeaderSectionTooLarge")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",  # a TLS hello on a plain port
        b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_head__not_http__is_s3_xml_and_closed(raw: RawClient, garbage: bytes) -> None:
    raw.send(garbage)
    assert raw.reply().status in (400, 405)
    assert raw.hung_up()


def test_target__options_asterisk__is_invalid_uri(raw: RawClient) -> None:
    raw.send(raw.head("OPTIONS", "*", {}))
    assert_error(raw.reply(), 400, "InvalidURI")


def test_target__bytes_no_uri_may_hold__is_invalid_uri(raw: RawClient) -> None:
    raw.send(raw.head("GET", "/b/\u00e9", {}))
    assert_error(raw.reply(), 400, "InvalidURI")


def test_target__absolute_form__is_answered_as_its_path(raw: RawClient, bucket: str) -> None:
    head = raw.signed_head("GET", f"/{bucket}")
    absolute = head.replace(b"GET /", f"GET http://{raw.host}/".encode(), 1)
    raw.send(absolute)
    assert raw.reply().status == 200


# Keys

ODD_KEYS = (
    ("b%25az", "b%az"),
    ("what%3F", "what?"),
    ("a%20b", "a b"),
    ("a%2Bb", "a+b"),
    ("/leading", "/leading"),
    ("trailing/", "trailing/"),
    ("a//b", "a//b"),
    ("a/./b", "a/./b"),
    ("a/../b", "a/../b"),
    ("%C3%A9", "\u00e9"),
    ("%23hash", "#hash"),
    ("semi%3Bcolon%26amp%3D", "semi;colon&amp="),
    ("%0Anewline%09tab", "\nnewline\ttab"),
)


@pytest.mark.parametrize(("on_wire", "key"), ODD_KEYS)
def test_key__odd_but_legal__is_stored_under_exactly_that_name(
    raw: RawClient, s3: Any, bucket: str, on_wire: str, key: str
) -> None:
    assert raw.ask("PUT", f"/{bucket}/{on_wire}", b"odd").status == 200
    assert raw.ask("GET", f"/{bucket}/{on_wire}").body == b"odd"
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == [key]


def test_key__too_long__is_refused(raw: RawClient, bucket: str) -> None:
    assert_error(raw.ask("PUT", f"/{bucket}/{'k' * 1025}", b""), 400, "KeyTooLongError")


# Presigned


def test_presigned__get_and_put__need_no_header(raw: RawClient, bucket: str) -> None:
    target = raw.presigned_target("PUT", f"/{bucket}/k")
    raw.send(raw.head("PUT", target, {"Content-Length": str(len(DATA))}) + DATA)
    assert raw.reply().status == 200
    raw.send(raw.head("GET", raw.presigned_target("GET", f"/{bucket}/k"), {}))
    assert raw.reply().body == DATA


def test_presigned__changed__is_403(raw: RawClient, bucket: str) -> None:
    target = raw.presigned_target("GET", f"/{bucket}/k").replace("/k?", "/other?")
    raw.send(raw.head("GET", target, {}))
    assert_error(raw.reply(), 403, "SignatureDoesNotMatch")


def test_presigned__used__is_redacted_in_the_log(
    served: GatewayProcess, raw: RawClient, bucket: str
) -> None:
    target = raw.presigned_target("GET", f"/{bucket}/redacted-key")
    raw.send(raw.head("GET", target, {}))
    raw.reply()
    raw.ask("GET", f"/{bucket}/after")  # the line before it is written by now
    (line,) = served.log_lines("redacted-key")
    assert "X-Amz-Signature=-" in line
    assert "X-Amz-Credential=-" in line
    assert served.access_key not in line
    assert not served.log_lines("Authorization|AWS4-HMAC-SHA256 Credential")


# RDMA off


def test_prepare__rdma_is_off__is_501_that_sends_clients_to_http(raw: RawClient) -> None:
    headers = {"x-amz-rdma-protocol": "hipobj-rc-v2"}
    reply = raw.ask("POST", "/.hipobj-rc/prepare", headers=headers)
    assert reply.status == 501
    assert reply.headers["x-amz-rdma-protocol-status"] == "unsupported"
    assert int(reply.headers["content-length"]) == len(reply.body)


def test_get__dc_token__is_declined_with_the_body(raw: RawClient, bucket: str) -> None:
    raw.ask("PUT", f"/{bucket}/k", b"abc")
    token = ":".join(("0" * 16, "0" * 8, "0" * 8, "0" * 4, "0" * 6, "1", "0" * 32))
    headers = {"x-amz-rdma-token": token, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    reply = raw.ask("GET", f"/{bucket}/k", headers=headers)
    assert (reply.status, reply.body) == (200, b"abc")
    assert reply.headers["x-amz-rdma-reply"] == "501"


def test_connections__half_open__do_not_disturb_others(
    served: GatewayProcess, raw: RawClient
) -> None:
    idle = [socket.create_connection(served.address) for _ in range(20)]
    try:
        assert raw.ask("GET", "/").status == 200
    finally:
        for one in idle:
            one.close()
