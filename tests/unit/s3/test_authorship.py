"""Whose a new object is and who else may use it, as its bucket's settings and its writer say."""

from __future__ import annotations

from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused

from gateway.auth.accounts import Accounts
from gateway.auth.principal import ANONYMOUS, ANONYMOUS_ID, GATEWAY_ACCOUNT, Account, Principal
from gateway.errors import S3Code

ALICE = Account("alice", "Alice")
ALL = "http://acs.amazonaws.com/groups/global/AllUsers"
AUTHENTICATED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
OWN = (GATEWAY_ACCOUNT.user_id, "FULL_CONTROL")


@pytest.fixture(autouse=True)
async def people(desk: Desk) -> None:
    """Alice exists; "shop" is the gateway's own and holds "k"."""
    desk.accounts = Accounts([ALICE])
    await desk.ask("PutObject", Bucket="shop", Key="k")


def grants(reply: Any) -> list[tuple[str, str]]:
    """(who, what) of each grant, in order."""
    return [
        (one["Grantee"].get("ID") or one["Grantee"]["URI"], one["Permission"])
        for one in reply["Grants"]
    ]


async def object_grants(desk: Desk, key: str) -> list[tuple[str, str]]:
    return grants(await desk.ask("GetObjectAcl", Bucket="shop", Key=key))


@pytest.mark.parametrize(
    ("principal", "owner"), [(Principal("key", ALICE), "alice"), (ANONYMOUS, ANONYMOUS_ID)]
)
async def test_put__by_a_guest__belongs_to_the_guest(
    desk: Desk, principal: Principal, owner: str
) -> None:
    desk.principal = principal
    await desk.ask("PutObject", Bucket="shop", Key="guest")
    found = await desk.ask("GetObjectAcl", Bucket="shop", Key="guest")
    assert found["Owner"]["ID"] == owner
    assert grants(found) == [(owner, "FULL_CONTROL")]


async def test_copy__acl__is_the_requests_own_and_never_the_sources(desk: Desk) -> None:
    await desk.ask("PutObjectAcl", Bucket="shop", Key="k", ACL="public-read")
    await desk.ask("CopyObject", Bucket="shop", Key="plain", CopySource="shop/k")
    await desk.ask(
        "CopyObject", Bucket="shop", Key="open", CopySource="shop/k", ACL="authenticated-read"
    )
    assert await object_grants(desk, "plain") == [OWN]
    assert await object_grants(desk, "open") == [(AUTHENTICATED, "READ"), OWN]


async def test_multipart__acl__is_that_of_its_creation(desk: Desk) -> None:
    made = await desk.ask("CreateMultipartUpload", Bucket="shop", Key="big", ACL="public-read")
    upload = {"Bucket": "shop", "Key": "big", "UploadId": made["UploadId"]}
    part = await desk.ask("UploadPart", BytesBody(b"abc"), PartNumber=1, **upload)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    await desk.ask("CompleteMultipartUpload", MultipartUpload=parts, **upload)
    assert await object_grants(desk, "big") == [(ALL, "READ"), OWN]


# Settings of the bucket that ACLs depend on


async def block(desk: Desk, **switches: bool) -> None:
    await desk.ask("PutPublicAccessBlock", Bucket="shop", PublicAccessBlockConfiguration=switches)


@pytest.mark.parametrize("word", ["public-read", "public-read-write", "authenticated-read"])
async def test_public_acl__blocked__is_access_denied(desk: Desk, word: str) -> None:
    await block(desk, BlockPublicAcls=True)
    for verb, key in (
        ("PutBucketAcl", {}),
        ("PutObjectAcl", {"Key": "k"}),
        ("PutObject", {"Key": "k"}),
        ("CreateMultipartUpload", {"Key": "k"}),
    ):
        with refused(S3Code.ACCESS_DENIED):
            await desk.ask(verb, Bucket="shop", ACL=word, **key)
    await desk.ask("PutObject", Bucket="shop", Key="k", ACL="private")


async def enforce(desk: Desk, setting: str) -> None:
    rules = {"Rules": [{"ObjectOwnership": setting}]}
    await desk.ask("PutBucketOwnershipControls", Bucket="shop", OwnershipControls=rules)


async def test_owner_enforced__guests_object__belongs_to_the_buckets_owner(desk: Desk) -> None:
    await enforce(desk, "BucketOwnerEnforced")
    desk.principal = Principal("key", ALICE)
    for acl in ({}, {"ACL": "bucket-owner-full-control"}):
        await desk.ask("PutObject", Bucket="shop", Key="guest", **acl)
        found = await desk.ask("GetObjectAcl", Bucket="shop", Key="guest")
        assert found["Owner"]["ID"] == GATEWAY_ACCOUNT.user_id
        assert grants(found) == [OWN]


async def test_owner_enforced__any_other_acl__is_not_supported(desk: Desk) -> None:
    await enforce(desk, "BucketOwnerEnforced")
    for verb, key in (
        ("PutBucketAcl", {}),
        ("PutObjectAcl", {"Key": "k"}),
        ("PutObject", {"Key": "k"}),
    ):
        with refused(S3Code.ACCESS_CONTROL_LIST_NOT_SUPPORTED):
            await desk.ask(verb, Bucket="shop", ACL="public-read", **key)
    with refused(S3Code.ACCESS_CONTROL_LIST_NOT_SUPPORTED):
        await desk.ask(
            "CreateBucket",
            Bucket="second",
            ObjectOwnership="BucketOwnerEnforced",
            ACL="public-read",
        )


async def test_owner_preferred__guest_gives_full_control__and_the_object_with_it(
    desk: Desk,
) -> None:
    await enforce(desk, "BucketOwnerPreferred")
    desk.principal = Principal("key", ALICE)
    await desk.ask("PutObject", Bucket="shop", Key="given", ACL="bucket-owner-full-control")
    await desk.ask("PutObject", Bucket="shop", Key="kept")
    given = await desk.ask("GetObjectAcl", Bucket="shop", Key="given")
    kept = await desk.ask("GetObjectAcl", Bucket="shop", Key="kept")
    assert (given["Owner"]["ID"], kept["Owner"]["ID"]) == (GATEWAY_ACCOUNT.user_id, "alice")


async def test_multipart__of_a_guest__belongs_to_who_began_it(desk: Desk) -> None:
    desk.principal = Principal("key", ALICE)
    made = await desk.ask("CreateMultipartUpload", Bucket="shop", Key="big")
    desk.principal = Principal("key")
    upload = {"Bucket": "shop", "Key": "big", "UploadId": made["UploadId"]}
    part = await desk.ask("UploadPart", BytesBody(b"abc"), PartNumber=1, **upload)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    await desk.ask("CompleteMultipartUpload", MultipartUpload=parts, **upload)
    found = await desk.ask("GetObjectAcl", Bucket="shop", Key="big")
    assert found["Owner"]["ID"] == "alice"
