"""Every operation, every way to sign it, every way to fail: default deny, and none is missing.

The operations come from the gateway's own list and the requests from the examples below; a new
operation without an example fails here. botocore signs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from xml.etree import ElementTree

import pytest
from bodies import BytesBody
from pipelines import pipeline_over
from request_heads import head, presigned_by_botocore, signed_by_botocore, with_header
from storing import new_bucket

from gateway.auth.sigv4 import Verified
from gateway.s3 import operations
from gateway.s3.body import Body
from gateway.s3.bucket_settings import SETTINGS
from gateway.s3.operations import BypassGovernanceRetention, Operation
from gateway.s3.route import route
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import BucketInfo, ObjectDraft, VersionQuery
from gateway.web.render import HttpReply
from gateway.wire.request import RequestHead

HOST = "http://gateway:9000"
DELETE = b"<Delete><Object><Key>key</Key></Object></Delete>"
COPY = {"x-amz-copy-source": "/shop/key"}
SIGNATURE = "X-Amz-Signature="


@dataclass(frozen=True)
class Example:
    """A request that is routed to `operation`."""

    operation: type[Operation]
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.operation.__name__}-{self.target.partition('?')[2]}"


def _of_settings() -> Iterator[Example]:
    """One for each request that a row of the bucket's settings has."""
    for name, row in SETTINGS.items():
        kinds = (
            ("GET", row.get, operations.GetBucketSubresource),
            ("PUT", row.put, operations.PutBucketSubresource),
            ("DELETE", row.delete, operations.DeleteBucketSubresource),
        )
        for method, action, kind in kinds:
            if action:
                yield Example(kind, method, f"/shop?{name}")


EXAMPLES = (
    Example(operations.ListBuckets, "GET", "/"),
    Example(operations.CreateBucket, "PUT", "/fresh"),
    Example(operations.HeadBucket, "HEAD", "/shop"),
    Example(operations.DeleteBucket, "DELETE", "/shop"),
    Example(operations.GetBucketLocation, "GET", "/shop?location"),
    Example(operations.GetBucketPolicy, "GET", "/shop?policy"),
    Example(operations.PutBucketPolicy, "PUT", "/shop?policy"),
    Example(operations.DeleteBucketPolicy, "DELETE", "/shop?policy"),
    Example(operations.GetBucketPolicyStatus, "GET", "/shop?policyStatus"),
    Example(operations.GetBucketAcl, "GET", "/shop?acl"),
    Example(operations.PutBucketAcl, "PUT", "/shop?acl", {"x-amz-acl": "private"}),
    Example(operations.GetBucketVersioning, "GET", "/shop?versioning"),
    Example(operations.PutBucketVersioning, "PUT", "/shop?versioning"),
    Example(operations.ListObjects, "GET", "/shop"),
    Example(operations.ListObjectsV2, "GET", "/shop?list-type=2"),
    Example(operations.ListObjectVersions, "GET", "/shop?versions"),
    Example(operations.ListMultipartUploads, "GET", "/shop?uploads"),
    Example(operations.GetObject, "GET", "/shop/key"),
    Example(operations.HeadObject, "HEAD", "/shop/key"),
    Example(
        operations.GetObjectAttributes,
        "GET",
        "/shop/key?attributes",
        {"x-amz-object-attributes": "ETag"},
    ),
    Example(operations.PutObject, "PUT", "/shop/new", data=b"data"),
    Example(operations.CopyObject, "PUT", "/shop/copy", COPY),
    Example(operations.DeleteObject, "DELETE", "/shop/key"),
    Example(operations.DeleteObjects, "POST", "/shop?delete", data=DELETE),
    Example(operations.GetObjectAcl, "GET", "/shop/key?acl"),
    Example(operations.PutObjectAcl, "PUT", "/shop/key?acl", {"x-amz-acl": "private"}),
    Example(operations.GetObjectTagging, "GET", "/shop/key?tagging"),
    Example(operations.PutObjectTagging, "PUT", "/shop/key?tagging"),
    Example(operations.DeleteObjectTagging, "DELETE", "/shop/key?tagging"),
    Example(operations.GetObjectRetention, "GET", "/shop/key?retention"),
    Example(operations.PutObjectRetention, "PUT", "/shop/key?retention"),
    Example(operations.GetObjectLegalHold, "GET", "/shop/key?legal-hold"),
    Example(operations.PutObjectLegalHold, "PUT", "/shop/key?legal-hold"),
    Example(operations.CreateMultipartUpload, "POST", "/shop/new?uploads"),
    Example(operations.UploadPart, "PUT", "/shop/new?partNumber=1&uploadId=u", data=b"data"),
    Example(operations.UploadPartCopy, "PUT", "/shop/new?partNumber=1&uploadId=u", COPY),
    Example(operations.ListParts, "GET", "/shop/new?uploadId=u"),
    Example(operations.CompleteMultipartUpload, "POST", "/shop/new?uploadId=u"),
    Example(operations.AbortMultipartUpload, "DELETE", "/shop/new?uploadId=u"),
    *_of_settings(),
)
# No request of their own: asked for besides another operation.
IMPLIED = {BypassGovernanceRetention}
# A form is signed by its fields: its rows are test_post_forms's.
FORMS = {operations.PostObject}
# Those that no bucket's policy is about: any account may ask.
OF_ANY_ACCOUNT = {operations.ListBuckets, operations.CreateBucket}

MODES = {
    "header": {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"},
    "presigned": {},
    "chunked": {
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "x-amz-decoded-content-length": "4",
    },
    "trailer": {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-trailer": "x-amz-checksum-crc32",
        "x-amz-decoded-content-length": "4",
    },
}
FAULTS = {
    "bad signature": {"header": "SignatureDoesNotMatch", "presigned": "SignatureDoesNotMatch"},
    "expired": {"header": "RequestTimeTooSkewed", "presigned": "AccessDenied"},
    "skewed": {"header": "RequestTimeTooSkewed", "presigned": "AccessDenied"},
    "unknown key": {"header": "InvalidAccessKeyId", "presigned": "InvalidAccessKeyId"},
}

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=str)
each_mode = pytest.mark.parametrize("mode", MODES)


@dataclass
class Matrix:
    """A bucket "shop" with an object "key", and whether anybody got at a body."""

    storage: MemoryStorage
    now_s: float = 0.0
    opened: int = 0

    async def respond(self, made: RequestHead, data: bytes) -> HttpReply:
        def open_body(_: Verified) -> Body:
            self.opened += 1
            return BytesBody(data)

        pipeline = pipeline_over(self.storage, lambda: self.now_s)
        return await pipeline.respond(made, open_body, "ID")

    async def ask(self, example: Example, mode: str, fault: str = "") -> HttpReply:
        """The example signed so, then spoilt so."""
        sign = presigned_by_botocore if mode == "presigned" else signed_by_botocore
        made, sent_s = sign(example.method, HOST + example.target, example.headers | MODES[mode])
        made, self.now_s = _spoilt(made, fault), sent_s + _LATE_S.get(fault, 0)
        return await self.respond(made, example.data)

    async def contents(self) -> object:
        """Everything that a request could have changed."""
        versions = await self.storage.list_versions(VersionQuery("shop"))
        return await self.storage.list_buckets(), versions


_LATE_S = {"expired": 7200.0, "skewed": -7200.0}


def _spoilt(made: RequestHead, fault: str) -> RequestHead:
    def change(text: str) -> str:
        match fault:
            case "bad signature":
                name = "Signature=" if "SignedHeaders=" in text else ""
                start, _, signature = text.rpartition(name or SIGNATURE)
                other = ("1" if signature[0] == "0" else "0") + signature[1:]
                return f"{start}{name or SIGNATURE}{other}"
            case "unknown key":
                return text.replace("AKIDEXAMPLE", "AKIDUNKNOWN")
            case _:
                return text

    authorization = made.get("authorization")
    if authorization is not None:
        return with_header(made, "authorization", change(authorization))
    target = f"{made.raw_path}?{change(made.raw_query)}"
    spoilt = head(made.method, target)
    return RequestHead(spoilt.method, spoilt.raw_path, spoilt.raw_query, made.headers)


@pytest.fixture
async def matrix() -> Matrix:
    """The signer owns the bucket."""
    return await _matrix(new_bucket("shop"))


@pytest.fixture
async def strangers() -> Matrix:
    """Somebody else owns the bucket, and says nothing about anybody."""
    return await _matrix(new_bucket("shop", owner="somebody-else"))


async def _matrix(bucket: BucketInfo) -> Matrix:
    storage = MemoryStorage()
    await storage.create_bucket(bucket)
    staged = await storage.stage("shop")
    draft = ObjectDraft(0, "d41d8cd98f00b204e9800998ecf8427e", owner=bucket.owner)
    await storage.commit_object(staged, "shop", "key", draft)
    return Matrix(storage)


def code(reply: HttpReply) -> str | None:
    """S3's code of an error; HEAD has no body to hold one."""
    return ElementTree.fromstring(reply.body).findtext("Code") if reply.body else None


def refused(example: Example, reply: HttpReply, expected: str, status: int = 403) -> None:
    assert reply.status == status
    if example.method != "HEAD":
        assert code(reply) == expected


def test_examples__every_operation__has_one() -> None:
    known = {
        kind
        for _, kind in inspect.getmembers(operations, inspect.isclass)
        if issubclass(kind, Operation) and kind is not Operation
    }
    assert {example.operation for example in EXAMPLES} == known - IMPLIED - FORMS


@each_example
def test_examples__routed__are_that_operation(example: Example) -> None:
    headers = {name.replace("-", "_"): value for name, value in example.headers.items()}
    assert type(route(head(example.method, example.target, **headers))) is example.operation


@each_mode
@each_example
async def test_matrix__good__is_not_refused(matrix: Matrix, example: Example, mode: str) -> None:
    reply = await matrix.ask(example, mode)
    assert reply.status != 403
    assert matrix.opened == 1


@pytest.mark.parametrize(("mode", "fault"), list(product(MODES, FAULTS)))
@each_example
async def test_matrix__fault__is_refused_before_anything_is_done(
    matrix: Matrix, example: Example, mode: str, fault: str
) -> None:
    before = await matrix.contents()
    reply = await matrix.ask(example, mode, fault)
    refused(example, reply, FAULTS[fault]["presigned" if mode == "presigned" else "header"])
    assert matrix.opened == 0
    assert await matrix.contents() == before


@each_example
async def test_matrix__anonymous__is_refused_before_anything_is_done(
    matrix: Matrix, example: Example
) -> None:
    before = await matrix.contents()
    headers = {name.replace("-", "_"): value for name, value in example.headers.items()}
    reply = await matrix.respond(head(example.method, example.target, **headers), example.data)
    refused(example, reply, "AccessDenied")
    assert matrix.opened == 0
    assert await matrix.contents() == before


@each_mode
@each_example
async def test_matrix__anothers_bucket__is_denied_by_default(
    strangers: Matrix, example: Example, mode: str
) -> None:
    await _denied(strangers, example, mode)


@each_mode
@each_example
async def test_matrix__policy_denies__outweighs_what_it_allows(
    strangers: Matrix, example: Example, mode: str
) -> None:
    everything = {
        "Principal": "*",
        "Action": "s3:*",
        "Resource": ["arn:aws:s3:::shop", "arn:aws:s3:::shop/*"],
    }
    statements = [everything | {"Effect": effect} for effect in ("Allow", "Deny")]
    await strangers.storage.update_bucket(
        "shop",
        lambda info: new_bucket(
            info.name, owner=info.owner, settings={"policy": json.dumps({"Statement": statements})}
        ),
    )
    await _denied(strangers, example, mode)


async def _denied(matrix: Matrix, example: Example, mode: str) -> None:
    if example.operation in OF_ANY_ACCOUNT:
        return
    before = await matrix.contents()
    reply = await matrix.ask(example, mode)
    if example.operation is operations.DeleteObjects:
        assert ElementTree.fromstring(reply.body).findtext("{*}Error/{*}Code") == "AccessDenied"
    else:
        refused(example, reply, "AccessDenied")
        assert matrix.opened == 0
    assert await matrix.contents() == before
