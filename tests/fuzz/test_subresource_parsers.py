"""Documents and headers of sub-resources: any bytes give a value or a ClientError.

What was taken is also stored and read again, so it must survive that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from xml.etree.ElementTree import Element

from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.accounts import Accounts
from gateway.auth.principal import OWNER_ID
from gateway.errors import ClientError
from gateway.s3.bucket_settings import SETTINGS
from gateway.s3.cors import CorsRule, CrossOrigin, allowance, cors_rules
from gateway.s3.grants import acl_document, parse_acl
from gateway.s3.object_lock import (
    default_retention,
    lock_of_headers,
    read_legal_hold,
    read_retention,
    retention_document,
)
from gateway.s3.ownership import object_ownership
from gateway.s3.public_access import public_access
from gateway.s3.tagging import parse_tagging, parse_tagging_header, tagging_document
from gateway.storage.port import BucketInfo
from gateway.wire.grants import parse_acl_headers
from gateway.wire.request import RequestHead
from gateway.wire.xml import element, parse_xml, render

LIMIT = 1 << 16
ACCOUNTS = Accounts()
# Every name of every document, so that random trees get past the first check.
WORDS = """
    AccessControlList AccessControlPolicy AllowedHeader AllowedMethod AllowedOrigin BlockPublicAcls
    CORSConfiguration CORSRule Days DefaultRetention DisplayName EmailAddress ExposeHeader Grant
    Grantee ID Key LegalHold MaxAgeSeconds Mode ObjectLockConfiguration ObjectLockEnabled
    ObjectOwnership Owner OwnershipControls Payer Permission PublicAccessBlockConfiguration
    RequestPaymentConfiguration RestrictPublicBuckets RetainUntilDate Retention Rule Status Tag
    TagSet Tagging URI Value Years
"""
plausible = st.sampled_from(
    [
        "",
        "*",
        "-1",
        "1",
        "2030-01-01T00:00:00Z",
        "99999999999999999999",
        "BucketOwnerEnforced",
        "Enabled",
        "FULL_CONTROL",
        "GET",
        "GOVERNANCE",
        "ON",
        "X-Amz-*",
        "http://acs.amazonaws.com/groups/global/AllUsers",
        "https://*.example",
        "true",
        OWNER_ID,
    ]
)
# What an XML document can carry (XML 1.0 section 2.2).
texts = plausible | st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20
)
names = st.sampled_from(WORDS.split())


def _tree(name: str, text: str, children: list[Element]) -> Element:
    made = element(name, *children, text=None if children else text)
    if not children and name == "Grantee":
        made.set("type", text)
    return made


leaves = st.builds(_tree, names, texts, st.just([]))
trees = st.recursive(
    leaves, lambda inner: st.builds(_tree, names, texts, st.lists(inner, max_size=4)), max_leaves=20
)


def outcome(call: Callable[..., object], *arguments: object) -> object:
    with suppress(ClientError):
        return call(*arguments)
    return None


def as_bucket(name: str, text: str) -> BucketInfo:
    return BucketInfo("shop", 0, "us-east-1", settings={name: text})


READERS = {
    "cors": cors_rules,
    "object-lock": default_retention,
    "ownershipControls": object_ownership,
    "publicAccessBlock": public_access,
}


@given(name=st.sampled_from(sorted(SETTINGS)), tree=trees)
def test_setting__any_document__is_refused_or_read_again(name: str, tree: Element) -> None:
    setting = SETTINGS[name]
    tree.tag = setting.root
    kept = outcome(setting.read, parse_xml(render(tree), LIMIT))
    if not isinstance(kept, Element):
        return
    text = render(kept).decode()
    again = setting.read(parse_xml(text.encode(), LIMIT))
    assert render(again).decode() == text
    READERS.get(name, lambda _bucket: None)(as_bucket(name, text))


@given(tree=trees)
def test_object_documents__any_tree__parse_or_are_refused(tree: Element) -> None:
    data = render(tree)
    root = parse_xml(data, LIMIT)
    outcome(parse_tagging, data, LIMIT)
    outcome(parse_acl, data, LIMIT, OWNER_ID, ACCOUNTS)
    outcome(read_legal_hold, root)
    outcome(read_retention, root)


@given(st.binary(max_size=100))
def test_object_documents__any_bytes__parse_or_are_refused(data: bytes) -> None:
    outcome(parse_tagging, data, LIMIT)
    outcome(parse_acl, data, LIMIT, OWNER_ID, ACCOUNTS)


@given(st.lists(st.tuples(texts, texts), max_size=3))
def test_tagging__any_pairs__are_refused_or_survive(pairs: list[tuple[str, str]]) -> None:
    tags = "".join(
        render(element("Tag", element("Key", text=key), element("Value", text=value)))
        .decode()
        .partition("\n")[2]
        for key, value in pairs
    )
    kept = outcome(parse_tagging, f"<Tagging><TagSet>{tags}</TagSet></Tagging>".encode(), LIMIT)
    if isinstance(kept, tuple):
        assert parse_tagging(render(tagging_document(kept)), LIMIT) == kept


@given(texts, texts)
def test_acl__any_grantee__is_refused_or_survives(grantee: str, permission: str) -> None:
    policy = element(
        "AccessControlPolicy",
        element("Owner", element("ID", text=OWNER_ID)),
        element(
            "AccessControlList",
            element(
                "Grant",
                element("Grantee", element("URI", text=grantee)),
                element("Permission", text=permission),
            ),
        ),
    )
    kept = outcome(parse_acl, render(policy), LIMIT, OWNER_ID, ACCOUNTS)
    if isinstance(kept, tuple):
        rendered = render(acl_document(OWNER_ID, kept, ACCOUNTS))
        assert parse_acl(rendered, LIMIT, OWNER_ID, ACCOUNTS) == kept


@given(texts)
def test_retention__any_date__is_refused_or_survives(date: str) -> None:
    root = element(
        "Retention", element("Mode", text="GOVERNANCE"), element("RetainUntilDate", text=date)
    )
    kept = outcome(read_retention, root)
    if kept is not None:
        assert read_retention(retention_document(kept)) == kept  # type: ignore[arg-type]


HEADERS = (
    "x-amz-acl",
    "x-amz-grant-read",
    "x-amz-grant-write-acp",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
)
values = texts | st.sampled_from(['id="a", uri=b', "emailAddress=a@b", "private", "id="])


@given(st.lists(st.tuples(st.sampled_from(HEADERS), values), max_size=6))
def test_headers__any_values__parse_or_are_refused(fields: list[tuple[str, str]]) -> None:
    head = RequestHead("PUT", "/shop/k", "", tuple(fields))
    outcome(parse_acl_headers, head)
    outcome(lock_of_headers, head)


@given(texts | st.from_regex(r"[a-z%+&=]{0,20}", fullmatch=True))
def test_tagging_header__any_text__parses_or_is_refused(text: str) -> None:
    outcome(parse_tagging_header, text)


@given(texts, texts, texts)
def test_cors__any_origin__is_echoed_only_where_the_pattern_matches(
    pattern: str, origin: str, names: str
) -> None:
    head = RequestHead(
        "GET", "/shop", "", (("origin", origin), ("access-control-request-headers", names))
    )
    asked = CrossOrigin.of(head)
    assert asked is not None
    found = allowance((CorsRule((pattern,), ("GET",), ("*",)),), asked)
    if found is not None:
        before, _, after = pattern.partition("*")
        assert origin.startswith(before)
        assert origin.endswith(after)
