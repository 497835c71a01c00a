"""Bug reports of other S3 servers, as tests: aws-chunked bodies and checksums."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from awscrt import checksums as crt
from chunked_bodies import (
    SIGNED_CHUNKS,
    SIGNED_TRAILER,
    UNSIGNED_TRAILER,
    ChunkSigner,
    crc32,
    crc32_trailer,
    trailer_headers,
    transfer_chunked,
    unsigned_chunks,
)
from gateway_process import GatewayProcess
from raw_http import RawClient, RawReply, assert_error

DATA = bytes(range(256)) * 1000  # four chunks
PLAIN = unsigned_chunks(DATA)
DIGEST_HEADERS = {"x-amz-checksum-crc32": crc32(DATA)}

PutSigned = Callable[..., RawReply]


def crc64nvme(data: bytes) -> str:
    return b64encode(crt.crc64nvme(data).to_bytes(8, "big")).decode()


def stored(raw: RawClient, bucket: str) -> RawReply:
    return raw.ask("GET", f"/{bucket}/k", headers={"x-amz-checksum-mode": "ENABLED"})


def put_unsigned(
    raw: RawClient, bucket: str, body: bytes, headers: Mapping[str, str] | None = None
) -> RawReply:
    """Put `DATA` in that framing; x-amz-trailer is sent only where `headers` have it."""
    sent = trailer_headers(DATA)
    del sent["x-amz-trailer"]
    return raw.ask("PUT", f"/{bucket}/k", body, sent | dict(headers or {}))


@pytest.fixture
def put_signed(served: GatewayProcess, raw: RawClient, bucket: str) -> PutSigned:
    """Puts `DATA` in signed chunks; what changes head or body does so behind the signatures."""

    def put(
        mode: str = SIGNED_CHUNKS,
        trailers: Mapping[str, str] | None = None,
        announced: str | None = None,
        change_head: Callable[[bytes], bytes] = bytes,
        change_body: Callable[[bytes], bytes] = bytes,
    ) -> RawReply:
        headers = {
            "x-amz-content-sha256": mode,
            "x-amz-decoded-content-length": str(len(DATA)),
            "Transfer-Encoding": "chunked",  # or the body's length would be signed as well
        }
        if announced is not None:
            headers["x-amz-trailer"] = announced
        head = raw.signed_head("PUT", f"/{bucket}/k", headers=headers, content_length=False)
        body = ChunkSigner(head, served.access_key, served.secret_key).body(DATA, trailers)
        raw.send(change_head(head) + transfer_chunked(change_body(body)))
        return raw.reply()

    return put


def other_digit(data: bytes, before: bytes) -> bytes:
    """With another hex digit right behind the first `before`."""
    at = data.index(before) + len(before)
    return data[:at] + (b"1" if data[at : at + 1] == b"0" else b"0") + data[at + 1 :]


def swapped_chunks(body: bytes) -> bytes:
    """The first two chunks, of the same length, in each other's place."""
    second = body.index(b"10000;", 1)
    return body[second : 2 * second] + body[:second] + body[2 * second :]


def without_second_chunk(body: bytes) -> bytes:
    second = body.index(b"10000;", 1)
    return body[:second] + body[2 * second :]


# Recognised, and nothing of it stored


@pytest.mark.parametrize("text", [UNSIGNED_TRAILER, "UNSIGNED-PAYLOAD"])
def test_aws_chunked__streaming_or_decoded_length_alone__is_decoded(
    raw: RawClient, bucket: str, text: str
) -> None:
    """localstack#9999: minio-go and restic send no Content-Encoding."""
    headers = {"x-amz-content-sha256": text, "x-amz-decoded-content-length": str(len(DATA))}
    assert raw.ask("PUT", f"/{bucket}/k", PLAIN, headers).status == 200
    assert stored(raw, bucket).body == DATA


def test_aws_chunked__content_encoding_alone__is_recognised_and_needs_its_length(
    raw: RawClient, bucket: str
) -> None:
    """localstack#9999: a presigned URL says nothing else of its body."""
    headers = {"Content-Encoding": "aws-chunked", "Content-Length": str(len(PLAIN))}
    raw.send(raw.head("PUT", raw.presigned_target("PUT", f"/{bucket}/k"), headers) + PLAIN)
    assert_error(raw.reply(), 411, "MissingContentLength")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


def test_aws_chunked__content_encoding_beside_the_hash_of_a_plain_body__is_plain(
    raw: RawClient, bucket: str
) -> None:
    """localstack#12167: boto3's user may set the encoding; the signed hash says what is sent."""
    reply = raw.ask("PUT", f"/{bucket}/k", DATA, {"Content-Encoding": "aws-chunked"})
    assert reply.status == 200
    assert stored(raw, bucket).body == DATA
    assert "content-encoding" not in stored(raw, bucket).headers


def test_aws_chunked__payload_looks_like_framing__is_stored_word_for_word(
    raw: RawClient, bucket: str
) -> None:
    """s3proxy#657."""
    body = unsigned_chunks(PLAIN)
    headers = trailer_headers(PLAIN)
    del headers["x-amz-trailer"]
    assert raw.ask("PUT", f"/{bucket}/k", body, headers).status == 200
    assert stored(raw, bucket).body == PLAIN


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("aws-chunked", None),
        ("aws-chunked,gzip", "gzip"),
        ("gzip, aws-chunked", "gzip"),
        ("br, AWS-Chunked, gzip", "br, gzip"),
    ],
)
def test_content_encoding__aws_chunked_among_others__is_stripped_and_the_others_stay(
    raw: RawClient, bucket: str, sent: str, kept: str | None
) -> None:
    """versitygw#2398, localstack#9999."""
    assert put_unsigned(raw, bucket, PLAIN, {"Content-Encoding": sent}).status == 200
    reply = stored(raw, bucket)
    assert reply.body == DATA
    assert reply.headers.get("content-encoding") == kept


def test_aws_chunked__of_a_part__stores_the_payload_only(
    raw: RawClient, s3: Any, bucket: str
) -> None:
    """s3proxy#657."""
    address = {"Bucket": bucket, "Key": "k"}
    address["UploadId"] = upload = s3.create_multipart_upload(**address)["UploadId"]
    target = f"/{bucket}/k?partNumber=1&uploadId={upload}"
    body = unsigned_chunks(DATA, crc32_trailer(DATA))
    etag = raw.ask("PUT", target, body, trailer_headers(DATA)).headers["etag"]
    assert etag == f'"{hashlib.md5(DATA).hexdigest()}"'
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    s3.complete_multipart_upload(MultipartUpload=parts, **address)
    assert stored(raw, bucket).body == DATA


# Signatures


@pytest.mark.parametrize("trailers", [None, DIGEST_HEADERS])
def test_signed_chunks__good_chain__store_the_payload_only(
    raw: RawClient, bucket: str, put_signed: PutSigned, trailers: Mapping[str, str] | None
) -> None:
    """chimera#1056, s3proxy#657."""
    mode = SIGNED_TRAILER if trailers else SIGNED_CHUNKS
    announced = "x-amz-checksum-crc32" if trailers else None
    assert put_signed(mode, trailers, announced).status == 200
    reply = stored(raw, bucket)
    assert reply.body == DATA
    assert reply.headers["etag"] == f'"{hashlib.md5(DATA).hexdigest()}"'


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body: body.replace(b"\x00\x01", b"\x01\x00", 1), id="payload"),
        pytest.param(lambda body: other_digit(body, b"chunk-signature="), id="signature"),
        pytest.param(swapped_chunks, id="order"),
        pytest.param(lambda body: other_digit(body, b"\r\n0;chunk-signature="), id="last"),
    ],
)
def test_signed_chunks__chain_is_broken__is_403_and_stores_nothing(
    raw: RawClient, bucket: str, put_signed: PutSigned, change: Callable[[bytes], bytes]
) -> None:
    """chimera#1056, s3proxy#657."""
    assert_error(put_signed(change_body=change), 403, "SignatureDoesNotMatch")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


def test_signed_chunks__bad_seed_signature__is_403(
    raw: RawClient, bucket: str, put_signed: PutSigned
) -> None:
    """versitygw#1056."""
    reply = put_signed(change_head=lambda head: other_digit(head, b"Signature="))
    assert_error(reply, 403, "SignatureDoesNotMatch")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


def test_signed_chunks__chunk_left_out__is_refused_and_stores_nothing(
    raw: RawClient, bucket: str, put_signed: PutSigned
) -> None:
    """chimera#1056."""
    reply = put_signed(change_body=without_second_chunk)
    assert_error(reply, 403, "SignatureDoesNotMatch")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


def test_signed_trailer__altered__is_403_and_stores_nothing(
    raw: RawClient, bucket: str, put_signed: PutSigned
) -> None:
    """versitygw#1653."""
    reply = put_signed(
        SIGNED_TRAILER,
        DIGEST_HEADERS,
        "x-amz-checksum-crc32",
        change_body=lambda body: other_digit(body, b"x-amz-trailer-signature:"),
    )
    assert_error(reply, 403, "SignatureDoesNotMatch")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


@pytest.mark.parametrize("payload", [DATA[:-1], DATA + b"x"])
def test_decoded_length__payload_of_another_length__is_incomplete_body(
    raw: RawClient, bucket: str, payload: bytes
) -> None:
    """s3proxy#657."""
    assert_error(put_unsigned(raw, bucket, unsigned_chunks(payload)), 400, "IncompleteBody")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


# Trailers


@pytest.mark.parametrize(
    ("announced", "trailer", "code"),
    [
        pytest.param("crc32", "", "MalformedTrailerError", id="missing"),
        pytest.param("crc32", "x-amz-checksum-crc32", "MalformedTrailerError", id="no-colon"),
        pytest.param("crc32", f":{crc32(DATA)}", "MalformedTrailerError", id="no-name"),
        pytest.param(
            "crc32", f"x-amz-checksum-sha1:{'A' * 27}=", "MalformedTrailerError", id="another"
        ),
        pytest.param(None, crc32_trailer(DATA), "MalformedTrailerError", id="not-announced"),
        pytest.param("crc32", "x-amz-checksum-crc32:!", "InvalidRequest", id="not-base64"),
        pytest.param(
            "crc64nvme", "x-amz-checksum-crc64nvme:M3eFcAZSQlcb", "InvalidRequest", id="length"
        ),
        pytest.param("crc32", "x-amz-checksum-crc32:", "InvalidRequest", id="empty"),
        pytest.param("crc32", crc32_trailer(b""), "BadDigest", id="wrong"),
        pytest.param("md5", "x-amz-checksum-md5:AAAA", "InvalidRequest", id="unsupported"),
        pytest.param("crc32,x-amz-checksum-sha1", "", "InvalidRequest", id="two"),
    ],
)
def test_trailer__fault__has_its_own_code_and_stores_nothing(
    raw: RawClient, bucket: str, announced: str | None, trailer: str, code: str
) -> None:
    """versitygw#1626 (malformed), #1652 (invalid), #1653 (wrong), #1161 (unsupported)."""
    headers = {} if announced is None else {"x-amz-trailer": f"x-amz-checksum-{announced}"}
    reply = put_unsigned(raw, bucket, unsigned_chunks(DATA, trailer), headers)
    assert_error(reply, 400, code)
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


@pytest.mark.parametrize(
    ("announced", "trailers", "code"),
    [
        pytest.param("crc32", {}, "MalformedTrailerError", id="missing"),
        pytest.param("sha1", DIGEST_HEADERS, "MalformedTrailerError", id="another"),
        pytest.param("crc32", {"x-amz-checksum-crc32": "AAA="}, "InvalidRequest", id="length"),
        pytest.param("crc32", {"x-amz-checksum-crc32": crc32(b"")}, "BadDigest", id="wrong"),
        pytest.param("md5", DIGEST_HEADERS, "InvalidRequest", id="unsupported"),
    ],
)
def test_signed_trailer__fault_under_a_good_signature__has_the_same_codes(
    raw: RawClient,
    bucket: str,
    put_signed: PutSigned,
    announced: str,
    trailers: Mapping[str, str],
    code: str,
) -> None:
    """versitygw#1626 #1652 #1653 #1161."""
    reply = put_signed(SIGNED_TRAILER, trailers, f"x-amz-checksum-{announced}")
    assert_error(reply, 400, code)
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(PLAIN[:-2], id="without-the-last-line"),
        pytest.param(PLAIN[:-1] + b"X", id="last-byte-is-another"),
        pytest.param(PLAIN[:-5], id="without-the-last-chunk"),
        pytest.param(PLAIN[: len(PLAIN) // 2], id="inside-a-chunk"),
        pytest.param(PLAIN[:3], id="inside-a-size"),
        pytest.param(b"", id="nothing"),
        pytest.param(PLAIN.replace(b"10000\r\n", b"0fffe\r\n", 1), id="size-too-small"),
        pytest.param(PLAIN.replace(b"10000\r\n", b"sixteen\r\n", 1), id="size-is-no-number"),
    ],
)
def test_framing__truncated_or_broken__is_incomplete_body_and_stores_nothing(
    raw: RawClient, bucket: str, body: bytes
) -> None:
    """versitygw#1660."""
    assert_error(put_unsigned(raw, bucket, body), 400, "IncompleteBody")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


def test_trailer__none_announced_and_none_sent__is_200_with_the_gateways_crc64nvme(
    raw: RawClient, bucket: str
) -> None:
    """versitygw#1632."""
    reply = put_unsigned(raw, bucket, PLAIN)
    assert reply.status == 200
    for told in (reply, stored(raw, bucket)):
        assert told.headers["x-amz-checksum-crc64nvme"] == crc64nvme(DATA)
        assert told.headers["x-amz-checksum-type"] == "FULL_OBJECT"


def test_signed_trailer__none_announced_and_none_sent__is_200_with_the_gateways_crc64nvme(
    raw: RawClient, bucket: str, put_signed: PutSigned
) -> None:
    """versitygw#1632."""
    assert put_signed(SIGNED_TRAILER).status == 200
    assert stored(raw, bucket).headers["x-amz-checksum-crc64nvme"] == crc64nvme(DATA)


# Checksums


def test_crc64nvme__of_a_multipart_upload__is_that_of_the_whole_and_of_a_single_put(
    s3: Any, bucket: str
) -> None:
    """seaweedfs#10235."""
    pieces = [DATA * 21, b"end"]  # S3's smallest part has 5 MiB
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm="CRC64NVME")
    address = {"Bucket": bucket, "Key": "m", "UploadId": upload["UploadId"]}
    parts = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(
                PartNumber=number, Body=piece, ChecksumAlgorithm="CRC64NVME", **address
            )["ETag"],
        }
        for number, piece in enumerate(pieces, 1)
    ]
    done = s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **address)
    single = s3.put_object(
        Bucket=bucket, Key="s", Body=b"".join(pieces), ChecksumAlgorithm="CRC64NVME"
    )
    head = s3.head_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")
    for told in (done, single, head):
        assert told["ChecksumCRC64NVME"] == crc64nvme(b"".join(pieces))
        assert told["ChecksumType"] == "FULL_OBJECT"


@pytest.mark.parametrize("value", ["not base64", "AAAA", "", f"{'A' * 22}=", "A" * 24])
def test_content_md5__malformed__is_invalid_digest(raw: RawClient, bucket: str, value: str) -> None:
    """versitygw#1525."""
    assert_error(raw.ask("PUT", f"/{bucket}/k", DATA, {"Content-MD5": value}), 400, "InvalidDigest")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


def test_content_md5__differs__is_bad_digest_with_both_digests(raw: RawClient, bucket: str) -> None:
    """versitygw#1525."""
    claimed = hashlib.md5(b"other")
    header = {"Content-MD5": b64encode(claimed.digest()).decode()}
    reply = raw.ask("PUT", f"/{bucket}/k", DATA, header)
    assert_error(reply, 400, "BadDigest")
    assert reply.text("ExpectedDigest") == claimed.hexdigest()
    assert reply.text("CalculatedDigest") == hashlib.md5(DATA).hexdigest()
    assert_error(stored(raw, bucket), 404, "NoSuchKey")


@pytest.mark.parametrize(
    ("condition", "status"), [("Range", 206), ("If-None-Match", 304), ("If-Modified-Since", 304)]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_checksums__of_206_and_304__are_not_shown_and_the_validators_are(
    raw: RawClient, bucket: str, method: str, condition: str, status: int
) -> None:
    """ministack#1390."""
    raw.ask("PUT", f"/{bucket}/k", DATA, DIGEST_HEADERS | {"Cache-Control": "max-age=5"})
    whole = stored(raw, bucket).headers
    value = {"Range": "bytes=1-5", "If-None-Match": whole["etag"]}.get(
        condition, whole["last-modified"]
    )
    asked = {condition: value, "x-amz-checksum-mode": "ENABLED"}
    reply = raw.ask(method, f"/{bucket}/k", headers=asked)
    assert reply.status == status
    assert whole["x-amz-checksum-crc32"] == crc32(DATA)
    assert not [name for name in reply.headers if name.startswith("x-amz-checksum-")]
    for name in ("etag", "last-modified", "cache-control"):
        assert reply.headers[name] == whole[name]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(
            {"x-amz-checksum-crc64nvme": crc64nvme(DATA)} | DIGEST_HEADERS, id="two-headers"
        ),
        pytest.param(
            {"x-amz-sdk-checksum-algorithm": "SHA256"} | DIGEST_HEADERS, id="another-algorithm"
        ),
    ],
)
def test_checksum_headers__several_or_not_the_algorithm_announced__are_invalid_request(
    raw: RawClient, bucket: str, headers: dict[str, str]
) -> None:
    """PutObject of S3's API reference."""
    assert_error(raw.ask("PUT", f"/{bucket}/k", DATA, headers), 400, "InvalidRequest")
    assert_error(stored(raw, bucket), 404, "NoSuchKey")
