"""A request with a token is the request that plain HTTP makes: same rules, same answers.

Each GET and PUT is done both ways, and what the witness over HTTP gets must be what the connection
gets, but for the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from gateway_process import GatewayProcess
from raw_hipobj import Answer
from raw_http import RawClient, RawReply
from rc_client import RcClient
from rc_fabrics import BOB, RcFabric

DATA = bytes(range(256)) * 40
OF_THE_BODY = {"content-length", "date", "x-amz-request-id", "x-amz-id-2", "connection"}
OF_RDMA = {"x-amz-rdma-reply", "x-amz-rdma-bytes-transferred"}
LONG_AGO, LATER = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 06 Nov 2099 08:49:37 GMT"
ETAG = f'"{hashlib.md5(DATA).hexdigest()}"'
BOB_MAY = {
    "Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam:::user/bob"},
    "Action": ["s3:GetObject", "s3:PutObject"],
}


def said(answer: Answer | RawReply) -> dict[str, str]:
    """What an answer says of the object, whichever way its bytes went."""
    left_out = OF_THE_BODY | OF_RDMA
    return {name: value for name, value in answer.headers.items() if name not in left_out}


@pytest.fixture(scope="module")
def stored(s3: Any) -> str:
    """An object with all that a GET tells."""
    s3.put_object(
        Bucket="connected",
        Key="described",
        Body=DATA,
        ContentType="text/x-test",
        CacheControl="max-age=1",
        ContentLanguage="eo",
        Metadata={"colour": "blue"},
        Tagging="a=1&b=2",
        ChecksumAlgorithm="SHA256",
    )
    return "/connected/described"


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"x-amz-checksum-mode": "ENABLED"}, ""),
        ({"if-match": ETAG}, ""),
        ({"if-none-match": '"other"'}, ""),
        ({"if-modified-since": LONG_AGO}, ""),
        ({"if-unmodified-since": LATER}, ""),
        ({"range": "bytes=5-99"}, ""),
        ({"range": "bytes=5-99", "if-range": ETAG}, ""),
        ({"range": "bytes=5-99", "if-range": '"other"'}, ""),
        ({"range": "bytes=0-0,9-9"}, ""),
        ({"range": "bytes=nonsense"}, ""),
        ({}, "?partNumber=1"),
        ({}, "?response-content-type=text%2Fplain&response-cache-control=no-store"),
    ],
)
async def test_get__whatever_is_asked__is_what_http_answers(
    peer: RcClient, stored: str, headers: dict[str, str], query: str
) -> None:
    plain = await asyncio.to_thread(peer.desk.ask, "GET", stored + query, headers)
    target = bytearray(len(DATA))
    answer = await peer.get(stored + query, target, headers)
    assert answer.status == plain.status
    assert answer.headers["x-amz-rdma-reply"] == str(plain.status)
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(len(plain.body))
    assert (answer.body, answer.headers["content-length"]) == (b"", "0")
    assert target == plain.body + bytes(len(DATA) - len(plain.body))
    assert said(answer) == said(plain)


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"if-match": '"other"'}, "/connected/described", 412),
        ({"if-none-match": ETAG}, "/connected/described", 304),
        ({"if-modified-since": LATER.replace("2099", "2024")}, "/connected/described", None),
        ({"if-unmodified-since": LONG_AGO}, "/connected/described", 412),
        ({"range": f"bytes={len(DATA)}-"}, "/connected/described", 416),
        ({"range": "bytes=-0"}, "/connected/described", 416),
        ({}, "/connected/described?partNumber=2", 416),
        ({}, "/connected/described?versionId=nonsense", None),
        ({}, "/connected/missing", 404),
        ({}, "/no-such-bucket/key", 404),
    ],
)
async def test_get__s3s_own_refusal__is_that_of_http_without_a_reply_header(
    peer: RcClient, stored: str, headers: dict[str, str], path: str, status: int | None
) -> None:
    plain = await asyncio.to_thread(peer.desk.ask, "GET", path, headers)
    target = bytearray(len(DATA))
    answer = await peer.get(path, target, headers)
    if plain.status == 200:
        assert target == DATA
        return
    assert answer.status == plain.status == (status or plain.status)
    assert answer.code == plain.code
    assert not OF_RDMA & answer.headers.keys()
    assert target == bytes(len(DATA))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/x-test", "cache-control": "max-age=1", "content-encoding": "x"},
        {"x-amz-meta-colour": "blue", "expires": LATER, "content-disposition": "inline"},
        {"x-amz-tagging": "a=1&b=2"},
        {"x-amz-acl": "public-read"},
        {"range": "bytes=0-1"},  # means nothing here
    ],
)
async def test_put__whatever_is_said_of_the_object__is_kept_as_by_http(
    peer: RcClient, raw: RawClient, s3: Any, bucket: str, headers: dict[str, str]
) -> None:
    answer = await peer.put(f"/{bucket}/by-rdma", DATA, headers)
    plain = await asyncio.to_thread(raw.ask, "PUT", f"/{bucket}/by-http", DATA, headers)
    assert answer.status == plain.status == 200
    assert said(answer) == said(plain)
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(len(DATA))
    heads = [
        said(await asyncio.to_thread(peer.desk.ask, "HEAD", f"/{bucket}/by-{way}"))
        for way in ("rdma", "http")
    ]
    for head in heads:
        head.pop("last-modified")
    assert heads[0] == heads[1]
    for call in (s3.get_object_tagging, s3.get_object_acl):
        ours, theirs = (call(Bucket=bucket, Key=f"by-{way}") for way in ("rdma", "http"))
        ours.pop("ResponseMetadata"), theirs.pop("ResponseMetadata")
        assert ours == theirs


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
async def test_put__checksum_declared__is_verified_on_what_came(
    peer: RcClient, s3: Any, bucket: str, algorithm: str
) -> None:
    """botocore's awscrt and hashlib computed what S3 gives back of an object put by boto3."""
    name = f"x-amz-checksum-{algorithm.lower()}"
    put = s3.put_object(Bucket=bucket, Key="sum", Body=DATA, ChecksumAlgorithm=algorithm)
    right = {name: put[f"Checksum{algorithm}"]}
    bad = await peer.put(f"/{bucket}/checked", DATA[::-1], right)
    assert (bad.status, bad.code) == (400, "BadDigest")
    assert not OF_RDMA & bad.headers.keys()
    assert (await asyncio.to_thread(peer.desk.ask, "HEAD", f"/{bucket}/checked")).status == 404
    good = await peer.put(f"/{bucket}/summed", DATA, right)
    assert (good.status, good.headers[name]) == (200, right[name])
    part_of = s3.create_multipart_upload(Bucket=bucket, Key="p", ChecksumAlgorithm=algorithm)
    where = f"/{bucket}/p?partNumber=1&uploadId={part_of['UploadId']}"
    assert (await peer.put(where, DATA[::-1], right)).code == "BadDigest"
    assert (await peer.put(where, DATA, right)).headers[name] == right[name]


async def test_put__conditions__are_those_of_http(peer: RcClient, s3: Any, bucket: str) -> None:
    s3.delete_object(Bucket=bucket, Key="once")
    path, absent = f"/{bucket}/once", {"if-none-match": "*"}
    first, second = [await peer.put(path, data, absent) for data in (b"first", b"second")]
    assert (first.status, second.status) == (200, 412)
    third = await peer.put(path, b"third", {"if-match": '"other"'})
    assert {second.code, third.code} == {"PreconditionFailed"}
    for refused in (second, third):
        assert not OF_RDMA & refused.headers.keys()
    assert s3.get_object(Bucket=bucket, Key="once")["Body"].read() == b"first"
    fourth = await peer.put(path, b"fourth", {"if-match": first.headers["etag"]})
    assert fourth.status == 200


async def test_upload_part__by_connection__is_a_part_like_any(
    peer: RcClient, s3: Any, bucket: str
) -> None:
    parts = [bytes([1]) * 5 * 2**20, DATA]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    listed = []
    for number, data in enumerate(parts, 1):
        answer = await peer.put(f"/{bucket}/parts?partNumber={number}&uploadId={upload}", data)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["x-amz-rdma-reply"] == "200"
        assert answer.headers["x-amz-rdma-bytes-transferred"] == str(len(data))
        assert answer.headers["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
        listed.append({"PartNumber": number, "ETag": answer.headers["etag"]})
    s3.complete_multipart_upload(
        Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": listed}
    )
    target = bytearray(5 * 2**20 + len(DATA))
    await peer.get(f"/{bucket}/parts", target)
    assert target == b"".join(parts)
    second = bytearray(len(DATA))
    answer = await peer.get(f"/{bucket}/parts?partNumber=2", second)
    assert (answer.status, answer.headers["x-amz-mp-parts-count"]) == (206, "2")
    assert second == DATA


async def test_upload_part__no_such_upload__is_s3s_own_error(peer: RcClient, bucket: str) -> None:
    answer = await peer.put(f"/{bucket}/parts?partNumber=1&uploadId=none", DATA)
    assert (answer.status, answer.code) == (404, "NoSuchUpload")
    assert not OF_RDMA & answer.headers.keys()


async def test_versions__by_connection__are_kept_and_fetched(peer: RcClient, s3: Any) -> None:
    s3.create_bucket(Bucket="versioned")
    s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    ids = [
        (await peer.put("/versioned/key", data)).headers["x-amz-version-id"]
        for data in (b"first!", b"second")
    ]
    marker = s3.delete_object(Bucket="versioned", Key="key")["VersionId"]
    for version, data in zip(ids, (b"first!", b"second"), strict=True):
        target = bytearray(6)
        answer = await peer.get(f"/versioned/key?versionId={version}", target)
        assert answer.headers["x-amz-version-id"] == version
        assert target == data
    gone = await peer.get("/versioned/key", bytearray(6))
    assert (gone.status, gone.headers["x-amz-delete-marker"]) == (404, "true")
    refused = await peer.get(f"/versioned/key?versionId={marker}", bytearray(6))
    assert refused.status == 405
    assert not OF_RDMA & gone.headers.keys() | OF_RDMA & refused.headers.keys()


async def test_policy__another_account__may_what_it_may_by_http(
    fabric: RcFabric, gateway: GatewayProcess, s3: Any, stored: str
) -> None:
    s3.create_bucket(Bucket="shared")
    s3.put_object(Bucket="shared", Key="key", Body=DATA)
    async with fabric.client(gateway, BOB) as bob:
        target = bytearray(len(DATA))
        for answer in (await bob.get("/shared/key", target), await bob.put("/shared/key", b"1")):
            assert (answer.status, answer.code) == (403, "AccessDenied")
            assert not OF_RDMA & answer.headers.keys()
        assert target == bytes(len(DATA))
        denied = BOB_MAY | {"Effect": "Deny", "Resource": "arn:aws:s3:::shared/private/*"}
        allowed = BOB_MAY | {"Resource": "arn:aws:s3:::shared/*"}
        policy = {"Version": "2012-10-17", "Statement": [allowed, denied]}
        s3.put_bucket_policy(Bucket="shared", Policy=json.dumps(policy))
        assert (await bob.get("/shared/key", target)).headers["x-amz-rdma-reply"] == "200"
        assert target == DATA
        assert (await bob.put("/shared/bobs", DATA)).status == 200
        assert (await bob.put("/shared/private/bobs", DATA)).status == 403


async def test_signature__another_secret__is_refused(peer: RcClient, stored: str) -> None:
    wrong = (peer.desk.key[0], "not-the-secret")
    for method in ("GET", "PUT"):
        answer = await peer.ask(method, stored, f"rc:{peer.connection}:0:0:0", key=wrong)
        assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")
        assert not OF_RDMA & answer.headers.keys()
