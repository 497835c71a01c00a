"""Access control lists over botocore's own requests: canned, by header, by document."""

from __future__ import annotations

from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.auth.accounts import Accounts
from gateway.auth.principal import GATEWAY_ACCOUNT, Account, Principal
from gateway.errors import S3Code
from gateway.s3.grants import parse_acl

ALICE, BOB = Account("alice", "Alice"), Account("bob", "Bob", "bob@example.com")
ALL = "http://acs.amazonaws.com/groups/global/AllUsers"
AUTHENTICATED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
LOGS = "http://acs.amazonaws.com/groups/s3/LogDelivery"
OWN = (GATEWAY_ACCOUNT.user_id, "FULL_CONTROL")


@pytest.fixture(autouse=True)
async def people(desk: Desk) -> None:
    """Alice and Bob exist; "shop" is the gateway's own and holds "k"."""
    desk.accounts = Accounts([ALICE, BOB])
    await desk.ask("PutObject", Bucket="shop", Key="k")


def grants(reply: Any) -> list[tuple[str, str]]:
    """(who, what) of each grant, in order."""
    return [
        (one["Grantee"].get("ID") or one["Grantee"]["URI"], one["Permission"])
        for one in reply["Grants"]
    ]


async def bucket_grants(desk: Desk) -> list[tuple[str, str]]:
    return grants(await desk.ask("GetBucketAcl", Bucket="shop"))


async def object_grants(desk: Desk, key: str = "k") -> list[tuple[str, str]]:
    return grants(await desk.ask("GetObjectAcl", Bucket="shop", Key=key))


def policy(*listed: dict[str, Any], owner: str = GATEWAY_ACCOUNT.user_id) -> dict[str, Any]:
    return {"AccessControlPolicy": {"Owner": {"ID": owner}, "Grants": list(listed)}}


def grant(permission: str, kind: str, **grantee: str) -> dict[str, Any]:
    return {"Permission": permission, "Grantee": {"Type": kind, **grantee}}


async def test_acl__never_set__gives_the_owner_full_control(desk: Desk) -> None:
    for found in (
        await desk.ask("GetBucketAcl", Bucket="shop"),
        await desk.ask("GetObjectAcl", Bucket="shop", Key="k"),
    ):
        (only,) = found["Grants"]
        assert only["Permission"] == "FULL_CONTROL"
        assert only["Grantee"]["Type"] == "CanonicalUser"
        assert only["Grantee"]["ID"] == found["Owner"]["ID"] == GATEWAY_ACCOUNT.user_id
        assert found["Owner"]["DisplayName"] == GATEWAY_ACCOUNT.display_name


@pytest.mark.parametrize(
    ("word", "added"),
    [
        ("private", []),
        ("public-read", [(ALL, "READ")]),
        ("public-read-write", [(ALL, "READ"), (ALL, "WRITE")]),
        ("authenticated-read", [(AUTHENTICATED, "READ")]),
        ("log-delivery-write", [(LOGS, "WRITE"), (LOGS, "READ_ACP")]),
        ("bucket-owner-read", []),
        ("bucket-owner-full-control", []),
    ],
)
async def test_canned_acl__of_bucket_and_object__is_spelled_out(
    desk: Desk, word: str, added: list[tuple[str, str]]
) -> None:
    await desk.ask("PutBucketAcl", Bucket="shop", ACL=word)
    await desk.ask("PutObjectAcl", Bucket="shop", Key="k", ACL=word)
    await desk.ask("PutObject", Bucket="shop", Key="new", ACL=word)
    for found in (
        await bucket_grants(desk),
        await object_grants(desk),
        await object_grants(desk, "new"),
    ):
        assert found == [*added, OWN]


@pytest.mark.parametrize(
    ("word", "permission"),
    [("bucket-owner-read", "READ"), ("bucket-owner-full-control", "FULL_CONTROL")],
)
async def test_canned_acl__for_the_buckets_owner__counts_for_a_guests_object(
    desk: Desk, word: str, permission: str
) -> None:
    desk.principal = Principal("key", ALICE)
    await desk.ask("PutObject", Bucket="shop", Key="guest", ACL=word)
    found = await desk.ask("GetObjectAcl", Bucket="shop", Key="guest")
    assert found["Owner"] == {"ID": "alice", "DisplayName": "Alice"}
    assert grants(found) == [("alice", "FULL_CONTROL"), (GATEWAY_ACCOUNT.user_id, permission)]


async def test_acl__set_again_to_private__is_the_default(desk: Desk) -> None:
    await desk.ask("PutBucketAcl", Bucket="shop", ACL="public-read")
    await desk.ask("PutBucketAcl", Bucket="shop", ACL="private")
    assert (await desk.storage.head_bucket("shop")).grants == ()


async def test_grant_headers__name_people_and_groups__without_the_owner(desk: Desk) -> None:
    await desk.ask(
        "PutObjectAcl",
        Bucket="shop",
        Key="k",
        GrantRead=f'id="alice", uri="{ALL}"',
        GrantFullControl='emailAddress="BOB@example.com"',
    )
    assert sorted(await object_grants(desk)) == [
        ("alice", "READ"),
        ("bob", "FULL_CONTROL"),
        (ALL, "READ"),
    ]


async def test_create_bucket__with_acl__has_it_from_the_start(desk: Desk) -> None:
    desk.principal = Principal("key", ALICE)
    await desk.ask("CreateBucket", Bucket="second", ACL="public-read")
    found = await desk.ask("GetBucketAcl", Bucket="second")
    assert grants(found) == [(ALL, "READ"), ("alice", "FULL_CONTROL")]


async def test_acl_document__with_every_kind_of_grantee__is_set(desk: Desk) -> None:
    await desk.ask(
        "PutBucketAcl",
        Bucket="shop",
        **policy(
            grant("WRITE_ACP", "CanonicalUser", ID="alice", DisplayName="whatever"),
            grant("READ_ACP", "AmazonCustomerByEmail", EmailAddress="bob@example.com"),
            grant("READ", "Group", URI=ALL),
        ),
    )
    assert await bucket_grants(desk) == [
        (ALL, "READ"),
        ("alice", "WRITE_ACP"),
        ("bob", "READ_ACP"),
    ]


async def test_acl_document__without_grants__leaves_none(desk: Desk) -> None:
    await desk.ask("PutBucketAcl", Bucket="shop", **policy())
    await desk.ask("PutObjectAcl", Bucket="shop", Key="k", **policy())
    assert await bucket_grants(desk) == await object_grants(desk) == []


async def test_acl_document__of_another_owner__is_access_denied(desk: Desk) -> None:
    with refused(S3Code.ACCESS_DENIED):
        await desk.ask("PutBucketAcl", Bucket="shop", **policy(owner="alice"))


@pytest.mark.parametrize(
    ("grantee", "code"),
    [
        (grant("READ", "CanonicalUser", ID="_foo"), S3Code.INVALID_ARGUMENT),
        (grant("READ", "Group", URI="http://acs.amazonaws.com/none"), S3Code.INVALID_ARGUMENT),
        (
            grant("READ", "AmazonCustomerByEmail", EmailAddress="no@where"),
            S3Code.UNRESOLVABLE_GRANT_BY_EMAIL_ADDRESS,
        ),
        (grant("READ", "CanonicalUser", ID=""), S3Code.MALFORMED_ACL),
        (grant("READ", "Group", ID="alice"), S3Code.MALFORMED_ACL),
        (grant("OWN", "CanonicalUser", ID="alice"), S3Code.MALFORMED_ACL),
    ],
)
async def test_acl_document__grant_without_sense__is_refused(
    desk: Desk, grantee: dict[str, Any], code: S3Code
) -> None:
    for verb, key in (("PutBucketAcl", {}), ("PutObjectAcl", {"Key": "k"})):
        with refused(code):
            await desk.ask(verb, Bucket="shop", **key, **policy(grantee))
    assert await bucket_grants(desk) == await object_grants(desk) == [OWN]


OWNER = f"<Owner><ID>{GATEWAY_ACCOUNT.user_id}</ID></Owner>"
A_GRANT = "<Grant><Grantee><ID>alice</ID></Grantee><Permission>READ</Permission></Grant>"


@pytest.mark.parametrize(
    "document",
    [
        "nonsense",
        "<Other/>",
        "<AccessControlPolicy/>",
        f"<AccessControlPolicy>{OWNER}</AccessControlPolicy>",
        f"<AccessControlPolicy><AccessControlList>{A_GRANT}</AccessControlList></AccessControlPolicy>",
        f"<AccessControlPolicy>{OWNER}<AccessControlList><Extra/></AccessControlList>"
        "</AccessControlPolicy>",
        f"<AccessControlPolicy>{OWNER}<AccessControlList><Grant/></AccessControlList>"
        "</AccessControlPolicy>",
        f"<AccessControlPolicy>{OWNER}<AccessControlList>{A_GRANT * 101}</AccessControlList>"
        "</AccessControlPolicy>",
    ],
)
async def test_acl_document__not_after_the_schema__is_malformed_acl(
    desk: Desk, document: str
) -> None:
    head, _ = request("PutBucketAcl", Bucket="shop")
    with refused(S3Code.MALFORMED_ACL):
        await desk.perform(head, BytesBody(document.encode()))


def test_parse_acl__too_long__is_refused_before_it_is_parsed() -> None:
    with refused(S3Code.MAX_MESSAGE_LENGTH_EXCEEDED):
        parse_acl(b"<" * 11, 10, GATEWAY_ACCOUNT.user_id, Accounts())


async def test_acl_document__grantee_without_a_type__is_known_by_its_name(desk: Desk) -> None:
    head, _ = request("PutBucketAcl", Bucket="shop")
    document = (
        f"<AccessControlPolicy>{OWNER}<AccessControlList>{A_GRANT}</AccessControlList>"
        "</AccessControlPolicy>"
    )
    await desk.perform(head, BytesBody(document.encode()))
    assert await bucket_grants(desk) == [("alice", "READ")]


async def test_put_acl__neither_header_nor_document__is_missing_header(desk: Desk) -> None:
    for verb, key in (("PutBucketAcl", {}), ("PutObjectAcl", {"Key": "k"})):
        with refused(S3Code.MISSING_SECURITY_HEADER):
            await desk.ask(verb, Bucket="shop", **key)


async def test_put_acl__header_and_document__is_unexpected_content(desk: Desk) -> None:
    with refused(S3Code.UNEXPECTED_CONTENT):
        await desk.ask("PutBucketAcl", Bucket="shop", ACL="private", **policy())


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("id=nobody", S3Code.INVALID_ARGUMENT),
        ('id=""', S3Code.INVALID_ARGUMENT),
        ("uri=http://none", S3Code.INVALID_ARGUMENT),
        ("emailAddress=no@where", S3Code.UNRESOLVABLE_GRANT_BY_EMAIL_ADDRESS),
    ],
)
async def test_grant_headers__unknown_grantee__nothing_is_made(
    desk: Desk, header: str, code: S3Code
) -> None:
    with refused(code):
        await desk.ask("CreateBucket", Bucket="second", GrantRead=header)
    with refused(code):
        await desk.ask("PutObject", Bucket="shop", Key="new", GrantRead=header)
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("HeadBucket", Bucket="second")
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask("HeadObject", Bucket="shop", Key="new")


async def test_acl__of_what_is_not_there__is_404(desk: Desk) -> None:
    for verb in ("GetObjectAcl", "PutObjectAcl"):
        acl = {"ACL": "private"} if verb.startswith("Put") else {}
        with refused(S3Code.NO_SUCH_KEY):
            await desk.ask(verb, Bucket="shop", Key="none", **acl)
        with refused(S3Code.NO_SUCH_BUCKET):
            await desk.ask(verb, Bucket="none", Key="k", **acl)


async def test_put_object_acl__changes_nothing_else(desk: Desk) -> None:
    await desk.ask("PutObject", BytesBody(b"abc"), Bucket="shop", Key="k", Tagging="a=b")
    before = await desk.ask("HeadObject", Bucket="shop", Key="k")
    await desk.ask("PutObjectAcl", Bucket="shop", Key="k", ACL="public-read")
    assert await desk.ask("HeadObject", Bucket="shop", Key="k") == before
