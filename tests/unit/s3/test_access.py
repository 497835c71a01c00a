"""s3.access: owner, policy, lists and public access blocks, in S3's order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from request_heads import head
from s3_desk import refused

from gateway.auth.payload import parse_payload
from gateway.auth.principal import ANONYMOUS, Account, Principal
from gateway.auth.sigv4 import Verified
from gateway.errors import ClientError, S3Code
from gateway.s3.access import actions_of, authorise
from gateway.s3.operations import (
    CopyObject,
    CopySource,
    CreateBucket,
    DeleteBucketPolicy,
    DeleteObject,
    DeleteObjects,
    GetBucketPolicyStatus,
    GetObject,
    GetObjectAcl,
    GetObjectTagging,
    HeadObject,
    ListBuckets,
    ListObjects,
    Operation,
    PutBucketAcl,
    PutObject,
    PutObjectAcl,
    PutObjectTagging,
)
from gateway.s3.requester import Requester
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import (
    BucketInfo,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    Retention,
    RetentionMode,
)
from gateway.wire.grants import AclHeaders, CannedAcl, Grant, Group, NamedGrant, Permission

OWNER = Principal("AKIO", Account("owner", "Owner"))
ALICE = Principal("AKIA", Account("alice", "Alice"))
PUBLIC_ACCESS = (
    "<PublicAccessBlockConfiguration><BlockPublicAcls>false</BlockPublicAcls>"
    "<IgnorePublicAcls>{ignore}</IgnorePublicAcls><BlockPublicPolicy>false</BlockPublicPolicy>"
    "<RestrictPublicBuckets>{restrict}</RestrictPublicBuckets></PublicAccessBlockConfiguration>"
)
ENFORCED = (
    "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"
    "</OwnershipControls>"
)
GET, LIST = GetObject("shop", "key"), ListObjects("shop")


@dataclass
class Counting(MemoryStorage):
    """Tells how often the bucket and an object were looked up."""

    looked_up: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def head_bucket(self, bucket: str) -> BucketInfo:
        self.looked_up.append(bucket)
        return await super().head_bucket(bucket)

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        self.looked_up.append(f"{bucket}/{key}")
        return await super().head_object(bucket, key, version_id)


@dataclass
class House:
    """The bucket "shop" with an object "key", and who may do what there."""

    storage: Counting

    async def configure(
        self, *statements: dict[str, Any], grants: tuple[Grant, ...] = (), **settings: str
    ) -> None:
        if statements:
            settings["policy"] = json.dumps({"Statement": list(statements)})
        await self.storage.update_bucket(
            "shop", lambda info: replace(info, grants=grants, settings=settings)
        )

    async def grant(self, *grants: Grant, tags: tuple[tuple[str, str], ...] = ()) -> None:
        await self.storage.update_object(
            "shop", "key", None, lambda _: ObjectAttributes(grants=grants, tags=tags)
        )

    async def may(self, operation: Operation, principal: Principal = ALICE, **facts: Any) -> bool:
        try:
            await authorise(operation, Requester(principal, **facts), self.storage)
        except ClientError as error:
            if error.code is S3Code.ACCESS_DENIED:
                return False
            raise
        return True


@pytest.fixture
async def house() -> House:
    storage = Counting()
    await storage.create_bucket(BucketInfo("shop", 0, "us-east-1", owner="owner"))
    await store(storage, "key", "owner")
    storage.looked_up.clear()
    return House(storage)


async def store(storage: MemoryStorage, key: str, owner: str) -> None:
    staged = await storage.stage("shop")
    draft = ObjectDraft(0, "etag", owner=owner)
    await storage.commit_object(staged, "shop", key, draft)


def statement(action: Any, effect: str = "Allow", **changes: Any) -> dict[str, Any]:
    return {
        "Effect": effect,
        "Principal": "*",
        "Action": action,
        "Resource": ["arn:aws:s3:::shop", "arn:aws:s3:::shop/*"],
    } | changes


# The bucket's owner


@pytest.mark.parametrize("operation", [GET, LIST, PutBucketAcl("shop"), DeleteBucketPolicy("shop")])
async def test_owner__no_policy__one_look_up_and_all_is_allowed(
    house: House, operation: Operation
) -> None:
    assert await house.may(operation, OWNER)
    assert house.storage.looked_up == ["shop"]


async def test_owner__record_without_one__is_the_gateways_own(house: House) -> None:
    await house.storage.create_bucket(BucketInfo("own", 0, "us-east-1"))
    assert await house.may(ListObjects("own"), Principal("AKIG"))
    assert not await house.may(ListObjects("own"), ALICE)


async def test_owner__denied_by_policy__keeps_only_the_policy_itself(house: House) -> None:
    await house.configure(statement("s3:*", "Deny"))
    assert not await house.may(GET, OWNER)
    assert not await house.may(GetBucketPolicyStatus("shop"), OWNER)
    assert await house.may(DeleteBucketPolicy("shop"), OWNER)
    assert not await house.may(DeleteBucketPolicy("shop"), ALICE)


async def test_owner__policy_says_nothing_of_it__is_allowed(house: House) -> None:
    await house.configure(statement("s3:GetObject", "Deny"))
    assert await house.may(LIST, OWNER)


# Everybody else


@pytest.mark.parametrize("principal", [ALICE, ANONYMOUS])
async def test_others__nothing_said__are_denied(house: House, principal: Principal) -> None:
    for operation in (GET, LIST, DeleteObject("shop", "key"), GetObjectTagging("shop", "key")):
        assert not await house.may(operation, principal)


async def test_others__bucket_is_missing__hear_that_first(house: House) -> None:
    for principal in (ANONYMOUS, ALICE, OWNER):
        with refused(S3Code.NO_SUCH_BUCKET):
            await authorise(GetObject("none", "k"), Requester(principal), house.storage)


async def test_service__list_and_create_buckets__need_a_key_and_nothing_else(house: House) -> None:
    for operation in (ListBuckets(), CreateBucket("new")):
        assert await house.may(operation, ALICE)
        assert not await house.may(operation, ANONYMOUS)


async def test_policy__allows_one_action__and_no_other(house: House) -> None:
    await house.configure(statement("s3:GetObject"))
    for principal in (ALICE, ANONYMOUS):
        assert await house.may(GET, principal)
        assert await house.may(HeadObject("shop", "key"), principal)
        assert not await house.may(GetObject("shop", "key", version_id="null"), principal)
        assert not await house.may(LIST, principal)


async def test_policy__denies_what_a_list_grants__wins(house: House) -> None:
    everybody = (Grant(Group.ALL_USERS, Permission.READ),)
    await house.configure(statement("s3:ListBucket", "Deny"), grants=everybody)
    assert not await house.may(LIST)


async def test_policy__condition_on_the_objects_tags__looks_them_up(house: House) -> None:
    tag = {"StringEquals": {"s3:ExistingObjectTag/Security": "public"}}
    await house.configure(statement("s3:GetObject", Condition=tag))
    assert not await house.may(GET)
    await house.grant(tags=(("security", "public"),))
    assert await house.may(GET)


async def test_policy__unreadable__denies_all_but_its_repair(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await house.configure(policy="{}")
    assert not await house.may(GET, OWNER)
    assert await house.may(DeleteBucketPolicy("shop"), OWNER)
    assert "the policy of bucket shop denies all" in caplog.text


@pytest.mark.parametrize(
    ("condition", "facts", "operation"),
    [
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {"remote_ip": "10.1.2.3"}, LIST),
        ({"Bool": {"aws:SecureTransport": "true"}}, {"secure": True}, LIST),
        ({"StringLike": {"aws:UserAgent": "aws-*"}}, {"user_agent": "aws-cli/2"}, LIST),
        ({"StringLike": {"aws:Referer": "http://a/*"}}, {"referer": "http://a/b"}, LIST),
        ({"DateGreaterThan": {"aws:CurrentTime": "2026-01-01"}}, {"now_s": 2e9}, LIST),
        ({"NumericGreaterThan": {"aws:EpochTime": "5"}}, {"now_s": 6.0}, LIST),
        ({"StringEquals": {"s3:authType": "REST-HEADER"}}, {"auth_type": "REST-HEADER"}, LIST),
        (
            {"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}},
            {"auth_type": "REST-HEADER"},
            LIST,
        ),
        ({"StringEquals": {"s3:prefix": "home/"}}, {}, ListObjects("shop", prefix="home/")),
        ({"StringEquals": {"s3:delimiter": "/"}}, {}, ListObjects("shop", delimiter="/")),
        ({"NumericLessThan": {"s3:max-keys": "10"}}, {}, ListObjects("shop", max_keys=9)),
    ],
)
async def test_policy__condition__hangs_on_that_fact(
    house: House, condition: dict[str, Any], facts: dict[str, Any], operation: Operation
) -> None:
    await house.configure(statement("s3:ListBucket", Condition=condition))
    assert await house.may(operation, ALICE, **facts)
    assert not await house.may(LIST, ALICE)


async def test_policy__condition_on_the_principal__hangs_on_it(house: House) -> None:
    arn = {"ArnEquals": {"aws:PrincipalArn": "arn:aws:iam:::user/alice"}}
    await house.configure(statement("s3:ListBucket", Condition=arn))
    assert await house.may(LIST, ALICE)
    assert not await house.may(LIST, ANONYMOUS)


@pytest.mark.parametrize(
    ("condition", "operation"),
    [
        (
            {"StringEquals": {"s3:RequestObjectTag/a": "b"}},
            PutObject("shop", "k", ObjectAttributes(tags=(("a", "b"),))),
        ),
        (
            {"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a"]}}
            | {"Null": {"s3:RequestObjectTagKeys": "false"}},
            PutObject("shop", "k", ObjectAttributes(tags=(("a", "b"),))),
        ),
        (
            {"StringEquals": {"s3:object-lock-legal-hold": "ON"}},
            PutObject("shop", "k", ObjectAttributes(legal_hold=True)),
        ),
        (
            {
                "StringEquals": {"s3:object-lock-mode": "GOVERNANCE"},
                "DateEquals": {"s3:object-lock-retain-until-date": "1970-01-01T00:00:05Z"},
            },
            PutObject(
                "shop",
                "k",
                ObjectAttributes(retention=Retention(RetentionMode.GOVERNANCE, 5_000_000_000)),
            ),
        ),
        (
            {"StringLike": {"s3:x-amz-copy-source": "from/public/*"}},
            CopyObject("shop", "k", CopySource("from", "public/a"), ObjectAttributes()),
        ),
    ],
)
async def test_policy__condition_on_what_is_written__hangs_on_it(
    house: House, condition: dict[str, Any], operation: Operation
) -> None:
    await house.configure(statement("s3:Put*", Condition=condition))
    assert await house.may(operation)
    assert not await house.may(PutObject("shop", "k", ObjectAttributes()))


async def test_policy__condition_on_a_version__hangs_on_it(house: House) -> None:
    version = {"StringEquals": {"s3:VersionId": "null"}}
    await house.configure(statement(["s3:GetObject*", "s3:ListBucket"], Condition=version))
    assert await house.may(GetObject("shop", "key", version_id="null"))
    assert not await house.may(GET)


async def test_policy__write_with_more_than_bytes__needs_an_action_for_each(house: House) -> None:
    tagged = PutObject("shop", "k", ObjectAttributes(tags=(("a", "b"),)))
    plain = PutObject("shop", "k", ObjectAttributes())
    public = replace(plain, acl=AclHeaders(CannedAcl.PUBLIC_READ))
    await house.configure(statement("s3:PutObject"))
    assert await house.may(plain)
    assert not await house.may(tagged)
    assert not await house.may(public)
    await house.configure(statement(["s3:PutObject", "s3:PutObjectTagging", "s3:PutObjectAcl"]))
    assert await house.may(tagged)
    assert await house.may(public)


async def test_policy__write_that_shares_with_the_bucket_owner_only__needs_no_more(
    house: House,
) -> None:
    """As the bucket policies have it that AWS's own services are given."""
    plain = PutObject("shop", "k", ObjectAttributes())
    await house.configure(statement("s3:PutObject"))
    for word in (CannedAcl.BUCKET_OWNER_FULL_CONTROL, CannedAcl.PRIVATE):
        assert await house.may(replace(plain, acl=AclHeaders(word)))
    for grantee, may in (("owner", True), ("alice", True), ("bob", False)):
        grant = NamedGrant("id", grantee, Permission.FULL_CONTROL)
        assert await house.may(replace(plain, acl=AclHeaders(grants=(grant,)))) is may


async def test_object_list__of_anothers_object__is_not_the_bucket_owners(house: House) -> None:
    await store(house.storage, "hers", "alice")
    assert not await house.may(GetObjectAcl("shop", "hers"), OWNER)
    assert await house.may(GetObjectAcl("shop", "hers"), ALICE)
    assert await house.may(GetObjectAcl("shop", "key"), OWNER)
    assert await house.may(DeleteObject("shop", "hers"), OWNER)


# Access control lists


@pytest.mark.parametrize(
    ("permission", "allowed"),
    [
        (Permission.READ, [LIST]),
        (Permission.WRITE, [PutObject("shop", "k", ObjectAttributes()), DeleteObject("shop", "k")]),
        (Permission.WRITE_ACP, [PutBucketAcl("shop")]),
    ],
)
async def test_bucket_list__permission__allows_its_actions(
    house: House, permission: Permission, allowed: list[Operation]
) -> None:
    await house.configure(grants=(Grant("alice", permission),))
    for operation in allowed:
        assert await house.may(operation)
        assert not await house.may(operation, ANONYMOUS)
    assert not await house.may(GET)


async def test_bucket_list__write__covers_tags_and_acl_of_the_new_object(house: House) -> None:
    await house.configure(grants=(Grant(Group.ALL_USERS, Permission.WRITE),))
    tagged = PutObject("shop", "k", ObjectAttributes(tags=(("a", "b"),)))
    assert await house.may(tagged, ANONYMOUS, stated={"x-amz-acl": "public-read"})


@pytest.mark.parametrize(
    ("permission", "operation"),
    [
        (Permission.READ, GET),
        (Permission.READ_ACP, GetObjectAcl("shop", "key")),
        (Permission.WRITE_ACP, PutObjectAcl("shop", "key")),
    ],
)
async def test_object_list__permission__allows_its_actions(
    house: House, permission: Permission, operation: Operation
) -> None:
    await house.grant(Grant("alice", permission))
    allowed = {
        type(one)
        for one in (GET, GetObjectAcl("shop", "key"), PutObjectAcl("shop", "key"), LIST)
        if await house.may(one)
    }
    assert allowed == {type(operation)}


async def test_object_list__objects_owner__may_read_it_in_anothers_bucket(house: House) -> None:
    await store(house.storage, "alices", "alice")
    assert await house.may(GetObject("shop", "alices"))
    assert not await house.may(DeleteObject("shop", "alices"))
    assert not await house.may(GetObject("shop", "alices"), ANONYMOUS)


async def test_lists__bucket_owner_enforced__do_not_count(house: House) -> None:
    everybody = (Grant(Group.ALL_USERS, Permission.FULL_CONTROL),)
    await house.grant(*everybody)
    await house.configure(grants=everybody, ownershipControls=ENFORCED)
    assert not await house.may(GET)
    assert not await house.may(LIST)


async def test_lists__public_acls_ignored__leave_those_by_name(house: House) -> None:
    block = PUBLIC_ACCESS.format(ignore="true", restrict="false")
    everybody = Grant(Group.ALL_USERS, Permission.READ)
    await house.configure(grants=(everybody,), publicAccessBlock=block)
    assert not await house.may(LIST)
    await house.configure(
        grants=(everybody, Grant("alice", Permission.READ)), publicAccessBlock=block
    )
    assert await house.may(LIST)


async def test_policy__public_bucket_restricted__lets_in_the_owner_only(house: House) -> None:
    block = PUBLIC_ACCESS.format(ignore="false", restrict="true")
    await house.configure(statement("s3:GetObject"), publicAccessBlock=block)
    assert await house.may(GET, OWNER)
    assert not await house.may(GET, ALICE)
    named = statement("s3:GetObject", Principal={"AWS": "arn:aws:iam:::user/alice"})
    await house.configure(named, publicAccessBlock=block)  # not public, so not restricted
    assert await house.may(GET, ALICE)


# What is not there


async def test_missing_key__with_and_without_list_permission__is_404_or_403(house: House) -> None:
    missing = GetObject("shop", "missing")
    await house.configure(statement("s3:GetObject"))
    assert not await house.may(missing)
    await house.configure(statement(["s3:GetObject", "s3:ListBucket"]))
    assert await house.may(missing)  # the verb will say NoSuchKey
    await house.configure(grants=(Grant(Group.ALL_USERS, Permission.READ),))
    assert await house.may(missing, ANONYMOUS)
    await house.configure()
    assert not await house.may(missing)


async def test_missing_key__list_allowed_for_a_prefix__tells_only_of_that(house: House) -> None:
    prefix = {"StringLike": {"s3:prefix": "public/*"}}
    await house.configure(statement("s3:ListBucket", Condition=prefix))
    assert await house.may(HeadObject("shop", "public/none"))
    assert not await house.may(HeadObject("shop", "private/none"))


async def test_delete_objects__as_a_whole__is_refused_to_strangers_only(house: House) -> None:
    whole = DeleteObjects("shop")
    assert await house.may(whole, ALICE)  # each key will be asked for
    assert not await house.may(whole, ANONYMOUS)
    await house.configure(statement("s3:DeleteObject"))
    assert await house.may(whole, ANONYMOUS)


# Names


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (GET, ["s3:GetObject"]),
        (GetObject("b", "k", version_id="v"), ["s3:GetObjectVersion"]),
        (DeleteObject("b", "k", version_id="v"), ["s3:DeleteObjectVersion"]),
        (GetObjectAcl("b", "k", version_id="v"), ["s3:GetObjectVersionAcl"]),
        (GetObjectTagging("b", "k", version_id="v"), ["s3:GetObjectVersionTagging"]),
        (
            PutObject(
                "b",
                "k",
                ObjectAttributes(
                    tags=(("a", "b"),),
                    retention=Retention(RetentionMode.COMPLIANCE, 1),
                    legal_hold=True,
                ),
            ),
            [
                "s3:PutObject",
                "s3:PutObjectTagging",
                "s3:PutObjectRetention",
                "s3:PutObjectLegalHold",
            ],
        ),
    ],
)
def test_actions_of__operation__are_all_that_it_needs(
    operation: Operation, expected: list[str]
) -> None:
    assert list(actions_of(operation, Requester(ALICE), "owner")) == expected


def test_requester__head__is_what_policies_may_ask() -> None:
    made = replace(
        head("PUT", "/b/k", user_agent="u", referer="r", x_amz_acl="private", cookie="c"),
        remote_ip="10.0.0.1",
        secure=True,
    )
    made = replace(
        made,
        headers=(
            *made.headers,
            ("x-amz-acl", "public-read"),
            ("x-amz-grant-read", "id=a"),
            ("x-amz-grant-read", "id=b"),
        ),
    )
    verified = Verified(ALICE, parse_payload("UNSIGNED-PAYLOAD"), presigned=True)
    found = Requester.of(made, verified, 5.0)
    assert (found.remote_ip, found.secure) == ("10.0.0.1", True)
    assert (found.user_agent, found.referer, found.now_s) == ("u", "r", 5.0)
    assert found.auth_type == "REST-QUERY-STRING"
    assert found.stated == {"x-amz-acl": "private", "x-amz-grant-read": "id=a,id=b"}


async def test_authorise__condition_on_a_document__waits_until_it_is_read(house: House) -> None:
    condition = {"StringEquals": {"s3:RequestObjectTag/level": "low"}}
    await house.configure(statement("s3:PutObjectTagging", Condition=condition))
    unread = PutObjectTagging("shop", "key")
    assert await house.may(unread)
    for level, allowed in (("low", True), ("high", False)):
        tagged = replace(unread, attributes=ObjectAttributes(tags=(("level", level),)))
        assert await house.may(tagged) is allowed
    await house.configure(statement("s3:GetObject"))
    assert not await house.may(unread)
