"""Buckets' documents through botocore: put, got back, deleted, absent, and refused honestly."""

from __future__ import annotations

from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.errors import S3Code
from gateway.s3.bucket_settings import SETTINGS
from gateway.s3.results import XmlReply
from gateway.s3.subresources import MAX_DOCUMENT_BYTES
from gateway.storage.port import Versioning
from gateway.wire.request import RequestHead
from gateway.wire.xml import render

TAGS = {"Tagging": {"TagSet": [{"Key": "b", "Value": ""}, {"Key": "a", "Value": "1"}]}}
BLOCK = {
    "PublicAccessBlockConfiguration": {
        "BlockPublicAcls": True,
        "IgnorePublicAcls": False,
        "BlockPublicPolicy": True,
        "RestrictPublicBuckets": False,
    }
}
OWNERSHIP = {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]}}
LOCK = {
    "ObjectLockConfiguration": {
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
    }
}


def without_metadata(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reply.items() if name != "ResponseMetadata"}


# What is not there


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("GetBucketLogging", {}),
        ("GetBucketAccelerateConfiguration", {}),
        ("GetBucketNotificationConfiguration", {}),
        ("GetBucketRequestPayment", {"Payer": "BucketOwner"}),
        ("GetBucketPolicyStatus", {"PolicyStatus": {"IsPublic": False}}),
    ],
)
async def test_subresource__not_in_use__is_s3s_default(
    desk: Desk, verb: str, expected: dict[str, Any]
) -> None:
    assert without_metadata(await desk.ask(verb, Bucket="shop")) == expected
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none")


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        ("GetBucketPolicy", "NoSuchBucketPolicy"),
        ("GetBucketCors", "NoSuchCORSConfiguration"),
        ("GetBucketTagging", "NoSuchTagSet"),
        ("GetBucketLifecycleConfiguration", "NoSuchLifecycleConfiguration"),
        ("GetBucketWebsite", "NoSuchWebsiteConfiguration"),
        ("GetObjectLockConfiguration", "ObjectLockConfigurationNotFoundError"),
        ("GetBucketEncryption", "ServerSideEncryptionConfigurationNotFoundError"),
        ("GetBucketReplication", "ReplicationConfigurationNotFoundError"),
        ("GetBucketOwnershipControls", "OwnershipControlsNotFoundError"),
        ("GetPublicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
    ],
)
async def test_subresource__absent__is_404_with_its_own_code(
    desk: Desk, verb: str, code: str
) -> None:
    (row,) = (row for row in S3Code if row.code == code)
    assert row.status == 404
    with refused(row) as caught:
        await desk.ask(verb, Bucket="shop")
    assert caught.value.details == {"BucketName": "shop"}
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none")


# What is stored


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("BucketTagging", TAGS, {"TagSet": sorted(TAGS["Tagging"]["TagSet"], key=str)}),
        ("PublicAccessBlock", BLOCK, BLOCK),
        ("BucketOwnershipControls", OWNERSHIP, OWNERSHIP),
        (
            "BucketRequestPayment",
            {"RequestPaymentConfiguration": {"Payer": "BucketOwner"}},
            {"Payer": "BucketOwner"},
        ),
        (
            "BucketAccelerateConfiguration",
            {"AccelerateConfiguration": {"Status": "Suspended"}},
            {"Status": "Suspended"},
        ),
        ("BucketLogging", {"BucketLoggingStatus": {}}, {}),
        ("BucketNotificationConfiguration", {"NotificationConfiguration": {}}, {}),
    ],
)
async def test_subresource__put__comes_back(
    desk: Desk, name: str, document: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert (await desk.ask(f"Put{name}", Bucket="shop", **document))["ResponseMetadata"][
        "HTTPStatusCode"
    ] == 200
    assert without_metadata(await desk.ask(f"Get{name}", Bucket="shop")) == expected
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(f"Put{name}", Bucket="none", **document)


async def test_subresource__stored__is_in_s3s_namespace_without_what_was_around_it(
    desk: Desk,
) -> None:
    head, _ = request("PutBucketTagging", Bucket="shop", **TAGS)
    document = (
        b"<!-- mine -->\n<Tagging xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>\n <TagSet>"
        b"<Tag><Key>k</Key><Value>a &lt; b</Value></Tag></TagSet></Tagging>"
    ).replace(b" &lt; ", b" = ")
    await desk.perform(head, BytesBody(document))
    asked, _ = request("GetBucketTagging", Bucket="shop")
    reply = await desk.perform(asked)
    assert isinstance(reply, XmlReply)
    assert render(reply.root).partition(b"\n")[2] == (
        b'<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>'
        b"<Tag><Key>k</Key><Value>a = b</Value></Tag></TagSet></Tagging>"
    )


@pytest.mark.parametrize(
    ("name", "document", "code"),
    [
        ("BucketTagging", TAGS, S3Code.NO_SUCH_TAG_SET),
        ("PublicAccessBlock", BLOCK, S3Code.NO_SUCH_PUBLIC_ACCESS_BLOCK),
        ("BucketOwnershipControls", OWNERSHIP, S3Code.OWNERSHIP_CONTROLS_NOT_FOUND),
    ],
)
async def test_subresource__deleted__is_absent_again(
    desk: Desk, name: str, document: dict[str, Any], code: S3Code
) -> None:
    await desk.ask(f"Put{name}", Bucket="shop", **document)
    await desk.ask("PutBucketCors", Bucket="shop", CORSConfiguration=CORS)
    for _ in range(2):
        gone = await desk.ask(f"Delete{name}", Bucket="shop")
        assert gone["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(code):
        await desk.ask(f"Get{name}", Bucket="shop")
    assert (await desk.ask("GetBucketCors", Bucket="shop"))["CORSRules"]


CORS = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}


@pytest.mark.parametrize(
    "verb",
    [
        "DeleteBucketLifecycle",
        "DeleteBucketWebsite",
        "DeleteBucketEncryption",
        "DeleteBucketReplication",
        "DeleteBucketPolicy",
    ],
)
async def test_subresource__delete_of_what_is_never_there__is_204(desk: Desk, verb: str) -> None:
    gone = await desk.ask(verb, Bucket="shop")
    assert gone["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none")


# What is refused


@pytest.mark.parametrize(
    ("verb", "document"),
    [
        (
            "PutBucketLifecycleConfiguration",
            {"LifecycleConfiguration": {"Rules": [{"Status": "Enabled"}]}},
        ),
        (
            "PutBucketEncryption",
            {"ServerSideEncryptionConfiguration": {"Rules": []}},
        ),
        ("PutBucketReplication", {"ReplicationConfiguration": {"Role": "r", "Rules": []}}),
        (
            "PutBucketWebsite",
            {"WebsiteConfiguration": {"IndexDocument": {"Suffix": "index.html"}}},
        ),
        (
            "PutBucketLogging",
            {
                "BucketLoggingStatus": {
                    "LoggingEnabled": {"TargetBucket": "logs", "TargetPrefix": ""}
                }
            },
        ),
        (
            "PutBucketNotificationConfiguration",
            {
                "NotificationConfiguration": {
                    "TopicConfigurations": [{"TopicArn": "a", "Events": ["s3:ObjectCreated:*"]}]
                }
            },
        ),
        (
            "PutBucketAccelerateConfiguration",
            {"AccelerateConfiguration": {"Status": "Enabled"}},
        ),
        ("PutBucketRequestPayment", {"RequestPaymentConfiguration": {"Payer": "Requester"}}),
    ],
)
async def test_subresource__whose_promise_would_be_broken__is_501_that_says_why(
    desk: Desk, verb: str, document: dict[str, Any]
) -> None:
    with refused(S3Code.NOT_IMPLEMENTED) as caught:
        await desk.ask(verb, Bucket="shop", **document)
    assert caught.value.message != S3Code.NOT_IMPLEMENTED.message
    assert not (await desk.storage.head_bucket("shop")).settings


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("document", [b"", b"nonsense", b"<Unknown/>"])
async def test_subresource__no_such_document__is_malformed_xml(
    desk: Desk, name: str, document: bytes
) -> None:
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(
            RequestHead("PUT", "/shop", name, (("host", "127.0.0.1"),)), BytesBody(document)
        )


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("tagging", "<Tagging><TagSet/><Extra/></Tagging>"),
        ("ownershipControls", "<OwnershipControls/>"),
        (
            "ownershipControls",
            "<OwnershipControls><Rule><ObjectOwnership>Mine</ObjectOwnership></Rule>"
            "</OwnershipControls>",
        ),
        (
            "publicAccessBlock",
            "<PublicAccessBlockConfiguration><BlockPublicAcls>yes</BlockPublicAcls>"
            "</PublicAccessBlockConfiguration>",
        ),
        (
            "publicAccessBlock",
            "<PublicAccessBlockConfiguration><Block>true</Block></PublicAccessBlockConfiguration>",
        ),
    ],
)
async def test_subresource__not_after_its_schema__is_malformed_xml(
    desk: Desk, name: str, document: str
) -> None:
    head = RequestHead("PUT", "/shop", name, (("host", "127.0.0.1"),))
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(head, BytesBody(document.encode()))


async def test_subresource__longer_than_any_may_be__is_refused(desk: Desk) -> None:
    head = RequestHead("PUT", "/shop", "cors", (("host", "127.0.0.1"),))
    padded = b"<CORSConfiguration>" + b" " * MAX_DOCUMENT_BYTES
    with refused(S3Code.MAX_MESSAGE_LENGTH_EXCEEDED):
        await desk.perform(head, BytesBody(padded))


# Rules of single documents


async def test_public_access_block__switches_left_out__are_off(desk: Desk) -> None:
    wanted = {"PublicAccessBlockConfiguration": {"IgnorePublicAcls": True}}
    await desk.ask("PutPublicAccessBlock", Bucket="shop", **wanted)
    found = await desk.ask("GetPublicAccessBlock", Bucket="shop")
    assert found["PublicAccessBlockConfiguration"] == {
        "BlockPublicAcls": False,
        "IgnorePublicAcls": True,
        "BlockPublicPolicy": False,
        "RestrictPublicBuckets": False,
    }


async def test_ownership__enforced_over_an_acl__is_refused(desk: Desk) -> None:
    await desk.ask("PutBucketAcl", Bucket="shop", ACL="public-read")
    enforced = {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}}
    with refused(S3Code.INVALID_BUCKET_ACL_WITH_OBJECT_OWNERSHIP):
        await desk.ask("PutBucketOwnershipControls", Bucket="shop", **enforced)
    await desk.ask("PutBucketAcl", Bucket="shop", ACL="private")
    await desk.ask("PutBucketOwnershipControls", Bucket="shop", **enforced)


async def test_object_lock__bucket_made_with_it__has_versions_and_no_default(desk: Desk) -> None:
    await desk.ask("CreateBucket", Bucket="locked", ObjectLockEnabledForBucket=True)
    found = await desk.ask("GetObjectLockConfiguration", Bucket="locked")
    assert found["ObjectLockConfiguration"] == {"ObjectLockEnabled": "Enabled"}
    made = await desk.storage.head_bucket("locked")
    assert (made.object_lock, made.versioning) == (True, Versioning.ENABLED)
    await desk.ask("PutObjectLockConfiguration", Bucket="locked", **LOCK)
    found = await desk.ask("GetObjectLockConfiguration", Bucket="locked")
    assert without_metadata(found) == LOCK


async def test_object_lock__bucket_without_versions__is_invalid_bucket_state(desk: Desk) -> None:
    with refused(S3Code.INVALID_BUCKET_STATE):
        await desk.ask("PutObjectLockConfiguration", Bucket="shop", **LOCK)


async def test_create_bucket__with_tags_and_ownership__has_them_from_the_start(
    desk: Desk,
) -> None:
    await desk.ask(
        "CreateBucket",
        Bucket="second",
        ObjectOwnership="BucketOwnerEnforced",
        CreateBucketConfiguration={"Tags": [{"Key": "k", "Value": "v"}]},
    )
    tags = await desk.ask("GetBucketTagging", Bucket="second")
    controls = await desk.ask("GetBucketOwnershipControls", Bucket="second")
    assert tags["TagSet"] == [{"Key": "k", "Value": "v"}]
    assert controls["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
