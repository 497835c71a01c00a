from __future__ import annotations

import json
from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.errors import S3Code
from gateway.s3.results import JsonReply


def policy(principal: Any = "*", **further: Any) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": principal,
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::shop/*",
        **further,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


async def is_public(desk: Desk) -> bool:
    found = await desk.ask("GetBucketPolicyStatus", Bucket="shop")
    return bool(found["PolicyStatus"]["IsPublic"])


async def test_policy__put__comes_back_byte_for_byte(desk: Desk) -> None:
    text = "{ " + policy(Sid="é").removeprefix("{") + "\n"
    put = await desk.ask("PutBucketPolicy", Bucket="shop", Policy=text)
    assert put["ResponseMetadata"]["HTTPStatusCode"] == 204
    head, _ = request("GetBucketPolicy", Bucket="shop")
    reply = await desk.perform(head)
    assert isinstance(reply, JsonReply)
    assert reply.text == text


async def test_policy__deleted__is_not_there(desk: Desk) -> None:
    await desk.ask("PutBucketPolicy", Bucket="shop", Policy=policy())
    gone = await desk.ask("DeleteBucketPolicy", Bucket="shop")
    assert gone["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(S3Code.NO_SUCH_BUCKET_POLICY):
        await desk.ask("GetBucketPolicy", Bucket="shop")


@pytest.mark.parametrize(
    "document",
    [b"", b"nonsense", b"{}", b"\xff", policy().replace("shop", "other").encode()],
    ids=["empty", "no JSON", "no statement", "not UTF-8", "another bucket's"],
)
async def test_policy__without_sense__is_malformed_policy(desk: Desk, document: bytes) -> None:
    head, _ = request("PutBucketPolicy", Bucket="shop", Policy="")
    with refused(S3Code.MALFORMED_POLICY):
        await desk.perform(head, BytesBody(document))
    with refused(S3Code.NO_SUCH_BUCKET_POLICY):
        await desk.ask("GetBucketPolicy", Bucket="shop")


async def test_policy__public_and_blocked__is_access_denied(desk: Desk) -> None:
    blocked = {"PublicAccessBlockConfiguration": {"BlockPublicPolicy": True}}
    await desk.ask("PutPublicAccessBlock", Bucket="shop", **blocked)
    with refused(S3Code.ACCESS_DENIED):
        await desk.ask("PutBucketPolicy", Bucket="shop", Policy=policy())
    named = policy({"AWS": "arn:aws:iam:::user/alice"})
    await desk.ask("PutBucketPolicy", Bucket="shop", Policy=named)


async def test_policy_status__policy__decides(desk: Desk) -> None:
    assert not await is_public(desk)
    await desk.ask("PutBucketPolicy", Bucket="shop", Policy=policy({"AWS": "*"}))
    assert await is_public(desk)
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/32"}}
    await desk.ask("PutBucketPolicy", Bucket="shop", Policy=policy(Condition=condition))
    assert not await is_public(desk)


@pytest.mark.parametrize("word", ["public-read", "authenticated-read"])
async def test_policy_status__public_acl__makes_it_public(desk: Desk, word: str) -> None:
    await desk.ask("PutBucketAcl", Bucket="shop", ACL=word)
    assert await is_public(desk)


@pytest.mark.parametrize(
    "verb", ["GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy", "GetBucketPolicyStatus"]
)
async def test_policy__of_no_bucket__is_no_such_bucket(desk: Desk, verb: str) -> None:
    document = {"Policy": policy().replace("shop", "none")} if verb.startswith("Put") else {}
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none", **document)
