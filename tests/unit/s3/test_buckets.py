from __future__ import annotations

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request
from storing import new_bucket

from gateway.auth.accounts import Accounts
from gateway.auth.principal import Account, Principal
from gateway.errors import S3Code
from gateway.s3.results import XmlReply
from gateway.wire.xml import render


async def test_create_bucket__new__says_where_it_is(desk: Desk) -> None:
    made = await desk.ask("CreateBucket", Bucket="second")
    assert made["Location"] == "/second"


async def test_create_bucket__ours_already_in_the_first_region__changes_nothing(
    desk: Desk,
) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k")
    await desk.ask("CreateBucket", Bucket="shop")
    with refused(S3Code.BUCKET_ALREADY_EXISTS):
        await desk.ask("CreateBucket", Bucket="shop", ACL="public-read")
    assert len((await desk.ask("GetBucketAcl", Bucket="shop"))["Grants"]) == 1
    assert await desk.ask("HeadObject", Bucket="shop", Key="k")


async def test_create_bucket__ours_already_elsewhere__is_409(desk: Desk) -> None:
    await desk.storage.create_bucket(new_bucket("older"))
    desk.region = "eu-west-1"
    for name in ("shop", "older"):
        with refused(S3Code.BUCKET_ALREADY_OWNED_BY_YOU):
            await desk.ask("CreateBucket", Bucket=name)


async def test_create_bucket__anothers_already__is_409_and_not_in_ones_list(desk: Desk) -> None:
    alice = Account("alice", "Alice")
    desk.principal, desk.accounts = Principal("key", alice), Accounts([alice])
    with refused(S3Code.BUCKET_ALREADY_EXISTS):
        await desk.ask("CreateBucket", Bucket="shop")
    await desk.ask("CreateBucket", Bucket="hers")
    found = await desk.ask("ListBuckets")
    assert [one["Name"] for one in found["Buckets"]] == ["hers"]
    assert found["Owner"] == {"ID": "alice", "DisplayName": "Alice"}


@pytest.mark.parametrize(
    "document",
    [
        b"<CreateBucketConfiguration/>",
        b"<CreateBucketConfiguration><LocationConstraint/></CreateBucketConfiguration>",
        b"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint>"
        b"</CreateBucketConfiguration>",
    ],
)
async def test_create_bucket__our_region_or_none__is_made(desk: Desk, document: bytes) -> None:
    head, _ = request("CreateBucket", Bucket="second")
    assert (await desk.perform(head, BytesBody(document))).status == 200


async def test_create_bucket__another_region__is_invalid_location(desk: Desk) -> None:
    elsewhere = {"LocationConstraint": "eu-west-1"}
    with refused(S3Code.INVALID_LOCATION_CONSTRAINT):
        await desk.ask("CreateBucket", Bucket="second", CreateBucketConfiguration=elsewhere)


@pytest.mark.parametrize("document", [b"nonsense", b"<Other/>"])
async def test_create_bucket__bad_document__is_malformed_xml(desk: Desk, document: bytes) -> None:
    head, _ = request("CreateBucket", Bucket="second")
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(head, BytesBody(document))


async def test_head_bucket__present__names_the_region(desk: Desk) -> None:
    assert (await desk.ask("HeadBucket", Bucket="shop"))["BucketRegion"] == "us-east-1"
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("HeadBucket", Bucket="none")


async def test_delete_bucket__with_objects__is_409_until_they_are_gone(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k")
    with refused(S3Code.BUCKET_NOT_EMPTY):
        await desk.ask("DeleteBucket", Bucket="shop")
    await desk.ask("DeleteObject", Bucket="shop", Key="k")
    reply = await desk.ask("DeleteBucket", Bucket="shop")
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("DeleteBucket", Bucket="shop")


async def test_list_buckets__pages_and_prefix__are_by_name(desk: Desk) -> None:
    for name in ("box-b", "box-a", "box-c"):
        await desk.ask("CreateBucket", Bucket=name)
    page = await desk.ask("ListBuckets", Prefix="box", MaxBuckets=2)
    rest = await desk.ask("ListBuckets", Prefix="box", ContinuationToken=page["ContinuationToken"])
    assert [one["Name"] for one in page["Buckets"]] == ["box-a", "box-b"]
    assert [one["Name"] for one in rest["Buckets"]] == ["box-c"]
    assert "ContinuationToken" not in rest
    assert page["Owner"]["ID"]


@pytest.mark.parametrize(
    ("region", "element"),
    [
        ("us-east-1", b'<LocationConstraint xmlns="%s"/>'),
        ("eu-west-1", b'<LocationConstraint xmlns="%s">eu-west-1</LocationConstraint>'),
    ],
)
async def test_get_bucket_location__region__is_the_roots_text(
    desk: Desk, region: str, element: bytes
) -> None:
    await desk.storage.create_bucket(new_bucket("there", region))
    head, _ = request("GetBucketLocation", Bucket="there")
    reply = await desk.perform(head)
    assert isinstance(reply, XmlReply)
    assert render(reply.root).endswith(element % b"http://s3.amazonaws.com/doc/2006-03-01/")
