from __future__ import annotations

import pytest

from gateway.errors import ClientError, S3Code
from gateway.wire.grants import (
    GRANT_HEADERS,
    MAX_GRANTS,
    NO_ACL_HEADERS,
    NO_GRANTS,
    AclHeaders,
    CannedAcl,
    Grant,
    Group,
    NamedGrant,
    Permission,
    effective_grants,
    is_public,
    parse_acl_headers,
    stored_grants,
)
from gateway.wire.request import RequestHead

OWNERS = (Grant("me", Permission.FULL_CONTROL),)
READ_BY_ALL = Grant(Group.ALL_USERS, Permission.READ)


def head(**headers: str) -> RequestHead:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return RequestHead("PUT", "/shop/k", "", fields)


def test_stored_grants__owner_alone__is_the_empty_default() -> None:
    assert stored_grants(OWNERS, "me") == ()
    assert effective_grants((), "me") == OWNERS


def test_stored_grants__nobody__is_not_the_default() -> None:
    assert stored_grants((), "me") == NO_GRANTS
    assert effective_grants(NO_GRANTS, "me") == ()


def test_stored_grants__groups__come_first() -> None:
    stored = stored_grants((*OWNERS, READ_BY_ALL), "me")
    assert stored == (READ_BY_ALL, *OWNERS)
    assert effective_grants(stored, "me") == stored


@pytest.mark.parametrize(
    ("grantee", "public"),
    [
        (Group.ALL_USERS, True),
        (Group.AUTHENTICATED_USERS, True),
        (Group.LOG_DELIVERY, False),
        ("somebody", False),
    ],
)
def test_is_public__grantee__decides(grantee: str | Group, public: bool) -> None:
    assert is_public((*OWNERS, Grant(grantee, Permission.READ))) is public


def test_grant_headers__names__are_s3s() -> None:
    assert set(GRANT_HEADERS) == {
        "x-amz-grant-full-control",
        "x-amz-grant-read",
        "x-amz-grant-read-acp",
        "x-amz-grant-write",
        "x-amz-grant-write-acp",
    }


def test_parse_acl_headers__none__say_nothing() -> None:
    assert parse_acl_headers(head(host="x")) == NO_ACL_HEADERS
    assert not NO_ACL_HEADERS.given


def test_parse_acl_headers__canned_word__is_taken() -> None:
    parsed = parse_acl_headers(head(x_amz_acl="public-read"))
    assert parsed == AclHeaders(CannedAcl.PUBLIC_READ)
    assert parsed.given


def test_parse_acl_headers__grantees_of_every_kind__keep_their_order() -> None:
    parsed = parse_acl_headers(
        head(
            x_amz_grant_write='id="a b", emailAddress=c@d.e',
            x_amz_grant_read_acp=' URI = "http://x/y" ',
        )
    )
    assert parsed.grants == (
        NamedGrant("id", "a b", Permission.WRITE),
        NamedGrant("emailaddress", "c@d.e", Permission.WRITE),
        NamedGrant("uri", "http://x/y", Permission.READ_ACP),
    )


@pytest.mark.parametrize(
    "text",
    ["", "a", "id", "id=", "id=a,", "name=a", 'id="a', "id=a b", ",".join(["id=a"] * 101)],
)
def test_parse_acl_headers__not_a_list_of_grantees__is_invalid_argument(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_acl_headers(head(x_amz_grant_read=text))
    assert caught.value.code is S3Code.INVALID_ARGUMENT
    assert caught.value.details["ArgumentName"] == "x-amz-grant-read"


def test_parse_acl_headers__a_hundred_grantees__are_taken() -> None:
    parsed = parse_acl_headers(head(x_amz_grant_read=",".join(["id=a"] * MAX_GRANTS)))
    assert len(parsed.grants) == MAX_GRANTS


def test_parse_acl_headers__word_and_grants__exclude_each_other() -> None:
    with pytest.raises(ClientError) as caught:
        parse_acl_headers(head(x_amz_acl="private", x_amz_grant_read="id=a"))
    assert caught.value.code is S3Code.INVALID_REQUEST


@pytest.mark.parametrize("word", ["", "Private", "aws-exec-read", "everybody"])
def test_parse_acl_headers__unknown_word__is_invalid_argument(word: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_acl_headers(head(x_amz_acl=word))
    assert caught.value.code is S3Code.INVALID_ARGUMENT
