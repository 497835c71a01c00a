"""The daily life of objects through boto3: what it sends is accepted, what it reads is right."""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
from contextlib import closing
from typing import Any

import boto3
import pytest
from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess

DATA = random.Random(2).randbytes(1_500_000)


def code_of(call: Any, **arguments: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as failure:
        call(**arguments)
    response = failure.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("size_bytes", [0, 1, 4096, 70_000, len(DATA)])
def test_object__put_got_headed_deleted__is_what_was_put(
    s3: Any, bucket: str, size_bytes: int
) -> None:
    data = DATA[:size_bytes]
    put = s3.put_object(Bucket=bucket, Key="k", Body=data, Metadata={"one": "two  three"})
    assert put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'

    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == data
    assert got["ContentLength"] == size_bytes
    assert got["Metadata"] == {"one": "two  three"}

    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentLength"], head["ETag"]) == (size_bytes, put["ETag"])

    s3.delete_object(Bucket=bucket, Key="k")
    assert code_of(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


@pytest.mark.parametrize(
    ("asked", "expected", "shown"),
    [
        ("bytes=0-0", DATA[:1], "bytes 0-0/1500000"),
        ("bytes=1000-700999", DATA[1000:701_000], "bytes 1000-700999/1500000"),
        ("bytes=1499999-", DATA[-1:], "bytes 1499999-1499999/1500000"),
        ("bytes=-10", DATA[-10:], "bytes 1499990-1499999/1500000"),
    ],
)
def test_range__inside_the_object__is_206_with_those_bytes(
    s3: Any, bucket: str, asked: str, expected: bytes, shown: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=DATA)
    got = s3.get_object(Bucket=bucket, Key="k", Range=asked)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == shown
    assert got["Body"].read() == expected


def test_range__beyond_the_object__is_416(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    assert code_of(s3.get_object, Bucket=bucket, Key="k", Range="bytes=3-") == ("InvalidRange", 416)


def test_get__etag_matches_if_none_match__is_304_without_a_body(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"abc")["ETag"]
    assert code_of(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag) == ("304", 304)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"abc"


def test_head__object_or_bucket_missing__is_404_without_a_body(s3: Any, bucket: str) -> None:
    assert code_of(s3.head_object, Bucket=bucket, Key="none") == ("404", 404)
    assert code_of(s3.head_bucket, Bucket=f"{bucket}-none") == ("404", 404)


def test_put__gzip_content_encoding__is_stored_untouched(s3: Any, bucket: str) -> None:
    packed = gzip.compress(DATA[:100_000])
    s3.put_object(Bucket=bucket, Key="k", Body=packed, ContentEncoding="gzip")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentEncoding"] == "gzip"
    assert got["Body"].read() == packed


def test_multipart__three_parts__are_one_object(s3: Any, bucket: str) -> None:
    pieces = [DATA * 4, DATA * 4, b"end"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(
                Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=piece
            )["ETag"],
        }
        for number, piece in enumerate(pieces, 1)
    ]
    s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    got = s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    assert hashlib.sha256(got).digest() == hashlib.sha256(b"".join(pieces)).digest()


def test_multipart__composite_checksum_claimed_at_completion__is_held_against_the_parts(
    s3: Any, bucket: str
) -> None:
    pieces = [DATA * 4, b"end"]
    address = {
        "Bucket": bucket,
        "Key": "k",
        "UploadId": s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")[
            "UploadId"
        ],
    }
    parts = []
    for number, piece in enumerate(pieces, 1):
        part = s3.upload_part(PartNumber=number, Body=piece, ChecksumAlgorithm="SHA256", **address)
        names = ("ETag", "ChecksumSHA256")
        parts.append({"PartNumber": number, **{name: part[name] for name in names}})
    digests = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
    whole = base64.b64encode(hashlib.sha256(digests).digest()).decode() + "-2"
    wrong = base64.b64encode(bytes(32)).decode() + "-2"
    complete = {"MultipartUpload": {"Parts": parts}, **address}
    refusal = code_of(s3.complete_multipart_upload, ChecksumSHA256=wrong, **complete)
    assert refusal == ("BadDigest", 400)
    done = s3.complete_multipart_upload(ChecksumSHA256=whole, **complete)
    assert (done["ChecksumSHA256"], done["ChecksumType"]) == (whole, "COMPOSITE")


def test_versions__life_of_a_key__through_boto3(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=bucket, Key="k", Body=body)["VersionId"] for body in (b"1", b"2")]
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert marker["DeleteMarker"] is True
    assert code_of(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)
    named = {"Bucket": bucket, "Key": "k", "VersionId": marker["VersionId"]}
    assert code_of(s3.get_object, **named) == ("MethodNotAllowed", 405)
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=ids[0])["Body"].read() == b"1"
    assert code_of(s3.delete_bucket, Bucket=bucket) == ("BucketNotEmpty", 409)
    s3.delete_object(**named)
    assert s3.get_object(Bucket=bucket, Key="k")["VersionId"] == ids[1]
    for page in s3.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 1}
    ):
        for entry in page["Versions"]:
            s3.delete_object(Bucket=bucket, Key="k", VersionId=entry["VersionId"])
    s3.delete_bucket(Bucket=bucket)


def test_copy_and_delete_objects__through_xml_bodies__leave_what_they_should(
    s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"abc")
    for key in ("b", "c"):
        s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": "a"})
    done = s3.delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "b"}, {"Key": "none"}]}
    )
    assert {entry["Key"] for entry in done["Deleted"]} == {"a", "b", "none"}
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == ["c"]


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_put__each_checksum_algorithm__is_verified_by_boto3_on_get(
    s3: Any, bucket: str, algorithm: str
) -> None:
    put = s3.put_object(Bucket=bucket, Key="k", Body=DATA, ChecksumAlgorithm=algorithm)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == DATA  # boto3 raises FlexibleChecksumError where it differs
    assert got[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]


def test_put__unsigned_payload__is_accepted(served: GatewayProcess, s3: Any, bucket: str) -> None:
    settings = {"payload_signing_enabled": False, "addressing_style": "path"}
    with closing(boto3_client(served, s3=settings)) as unsigned:
        unsigned.put_object(Bucket=bucket, Key="k", Body=DATA)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == DATA


def test_error__any__carries_request_id_and_resource(s3: Any, bucket: str) -> None:
    with pytest.raises(ClientError) as failure:
        s3.get_object(Bucket=bucket, Key="no/such")
    response = failure.value.response
    assert response["Error"]["Resource"] == f"/{bucket}/no/such"
    headers = response["ResponseMetadata"]["HTTPHeaders"]
    assert response["ResponseMetadata"]["RequestId"] == headers["x-amz-request-id"]
    assert headers["content-type"] == "application/xml"


def test_keys__wrong_secret_or_unknown__are_403(served: GatewayProcess, bucket: str) -> None:
    for keys, expected in (
        ((served.access_key, "wrong"), "SignatureDoesNotMatch"),
        (("UNKNOWN", "wrong"), "InvalidAccessKeyId"),
    ):
        stranger = boto3.client(
            "s3",
            endpoint_url=served.endpoint,
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            region_name="us-east-1",
        )
        with closing(stranger):
            assert code_of(stranger.list_objects_v2, Bucket=bucket) == (expected, 403)
