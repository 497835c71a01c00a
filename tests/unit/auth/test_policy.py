"""auth.policy: documents, and verdicts on requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.auth.policy import MAX_POLICY_BYTES, Verdict, parse_policy
from gateway.auth.principal import ANONYMOUS, OWNER_ID, Account, Principal
from gateway.auth.statement import Question
from gateway.errors import ClientError, S3Code

BUCKET = "shop"
EVERYTHING = [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
ALICE = Principal("AKIA", Account("alice", "Alice"))
BOB = Principal("AKIB", Account("acme$bob", "Bob"))
OWNER = Principal("AKIO", Account(OWNER_ID, "owner"))


def statement(**changes: Any) -> dict[str, Any]:
    """One that allows everybody to get every object; a value of None leaves the field out."""
    fields = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/*",
    } | changes
    return {name: value for name, value in fields.items() if value is not None}


def document(*statements: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)} | changes)


def judge(
    *statements: dict[str, Any],
    principal: Principal = ALICE,
    action: str = "s3:GetObject",
    resource: str = f"{BUCKET}/key",
    **facts: str,
) -> Verdict:
    policy = parse_policy(document(*statements), BUCKET)
    named = {name.replace("__", ":").replace("_", "-"): (value,) for name, value in facts.items()}
    return policy.judge(Question(principal, action, resource, named))


def refusal(text: str) -> str:
    with pytest.raises(ClientError) as caught:
        parse_policy(text, BUCKET)
    assert caught.value.code is S3Code.MALFORMED_POLICY
    return caught.value.message


# Verdicts


def test_judge__no_statement_matches__is_silent() -> None:
    assert judge(statement(), action="s3:PutObject") is Verdict.SILENT
    assert judge(statement(), resource=BUCKET) is Verdict.SILENT


def test_judge__a_denial_among_permissions__wins_in_any_order() -> None:
    allow, deny = statement(), statement(Effect="Deny")
    assert judge(allow, deny) is Verdict.DENY
    assert judge(deny, allow) is Verdict.DENY


@pytest.mark.parametrize(
    ("named", "allowed"),
    [
        ("*", {"alice", "bob", "owner", "nobody"}),
        ({"AWS": "*"}, {"alice", "bob", "owner", "nobody"}),
        ({"AWS": ["arn:aws:iam:::user/alice"]}, {"alice"}),
        ({"AWS": "arn:aws:iam::alice:root"}, {"alice"}),
        ({"CanonicalUser": "alice"}, {"alice"}),
        ({"AWS": "arn:aws:iam::acme:user/bob"}, {"bob"}),
        ({"AWS": "arn:aws:iam::acme:root"}, {"bob"}),
        ({"CanonicalUser": "acme$bob"}, {"bob"}),
        ({"CanonicalUser": OWNER_ID}, {"owner"}),
        ({"AWS": "123456789012"}, set()),
        ({"Federated": "alice"}, set()),
        ({"CanonicalUser": "acme"}, set()),
        ({"Service": "logging.s3.amazonaws.com"}, set()),
        ({"Service": "logging.s3.amazonaws.com", "AWS": "arn:aws:iam:::user/alice"}, {"alice"}),
    ],
)
def test_judge__principal__covers_exactly_those(named: Any, allowed: set[str]) -> None:
    who = {"alice": ALICE, "bob": BOB, "owner": OWNER, "nobody": ANONYMOUS}
    verdicts = {
        name: judge(statement(Principal=named), principal=principal)
        for name, principal in who.items()
    }
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.ALLOW} == allowed


def test_judge__twelve_digits__are_that_account() -> None:
    twelve = Principal("AKIC", Account("123456789012", "Carol"))
    assert judge(statement(Principal={"AWS": "123456789012"}), principal=twelve) is Verdict.ALLOW


def test_judge__not_principal__denies_all_others() -> None:
    deny = statement(
        Effect="Deny", Principal=None, NotPrincipal={"AWS": "arn:aws:iam:::user/alice"}
    )
    assert judge(deny, principal=ALICE) is Verdict.SILENT
    assert judge(deny, principal=BOB) is Verdict.DENY
    assert judge(deny, principal=ANONYMOUS) is Verdict.DENY


@pytest.mark.parametrize(
    ("pattern", "action", "expected"),
    [
        ("s3:GetObject", "s3:GetObject", True),
        ("S3:getobject", "s3:GetObject", True),
        ("s3:GetObject", "s3:GetObjectAcl", False),
        ("s3:Get*", "s3:GetObjectAcl", True),
        ("s3:GetObjec?", "s3:GetObject", True),
        ("s3:*", "s3:DeleteObject", True),
        ("*", "s3:DeleteObject", True),
        (["s3:PutObject", "s3:DeleteObject"], "s3:DeleteObject", True),
    ],
)
def test_judge__action__matches_with_wildcards_and_any_case(
    pattern: Any, action: str, expected: bool
) -> None:
    verdict = judge(statement(Action=pattern), action=action)
    assert (verdict is Verdict.ALLOW) is expected


def test_judge__not_action_and_not_resource__cover_the_rest() -> None:
    rest = statement(
        Action=None,
        NotAction="s3:Delete*",
        Resource=None,
        NotResource=f"arn:aws:s3:::{BUCKET}/secret/*",
    )
    assert judge(rest) is Verdict.ALLOW
    assert judge(rest, action="s3:DeleteObject") is Verdict.SILENT
    assert judge(rest, resource=f"{BUCKET}/secret/key") is Verdict.SILENT


@pytest.mark.parametrize(
    ("pattern", "resource", "expected"),
    [
        ("shop/*", "shop/a/b", True),
        ("shop/a", "shop/A", False),
        ("shop/a?c", "shop/abc", True),
        ("shop/*.jpg", "shop/x/y.jpg", True),
        ("shop/*.jpg", "shop/x/y.jpeg", False),
        ("shop*", "shop", True),
        ("shop", "shop/a", False),
        ("*", "shop", True),
        ("shop/${*}", "shop/*", True),
        ("shop/${*}", "shop/x", False),
    ],
)
def test_judge__resource__matches_with_wildcards(
    pattern: str, resource: str, expected: bool
) -> None:
    verdict = judge(statement(Resource=f"arn:aws:s3:::{pattern}"), resource=resource)
    assert (verdict is Verdict.ALLOW) is expected


def test_judge__several_conditions__must_all_hold() -> None:
    both = statement(
        Condition={
            "StringLike": {"aws:Referer": ["http://a/*", "http://b/*"]},
            "Bool": {"aws:SecureTransport": True},
        }
    )
    assert judge(both, aws__referer="http://b/x", aws__securetransport="true") is Verdict.ALLOW
    assert judge(both, aws__referer="http://b/x", aws__securetransport="false") is Verdict.SILENT
    assert judge(both, aws__securetransport="true") is Verdict.SILENT


# Documents


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "first byte must be '{'"),
        ("[]", "first byte must be '{'"),
        ("{", "invalid Json"),
        ('{"Version": "2012-10-17", "Version": "2012-10-17"}', "invalid Json"),
        ('{"Statement":' + "[" * 10_000 + "}", "invalid Json"),
        ("{}", "Statement is empty"),
        (document(), "Statement is empty"),
        (document(Statement="all"), "Statement is empty"),
        (document(statement(), Version="2020-01-01"), "valid version string"),
        (document(statement(), Extra=1), "Unknown field Extra"),
        (document(statement(Foo="x")), "Unknown field Foo"),
        (document(statement(Sid="a"), statement(Sid="a")), "must be unique"),
        (document(statement(Effect=None)), "Missing required field Effect"),
        (document(statement(Effect="allow")), "Invalid effect"),
        (document(statement(Principal=None)), "Missing required field Principal"),
        (document(statement(Principal={})), "Invalid policy syntax"),
        (document(statement(Principal={"AWS": []})), "invalid principal"),
        (document(statement(Principal={"AWS": "alice"})), "Invalid principal"),
        (document(statement(Principal={"AWS": "arn:aws:iam::*:root"})), "Invalid principal"),
        (document(statement(Principal={"Robot": "*"})), "Invalid principal"),
        (document(statement(Principal=None, NotPrincipal="*")), "Allow with NotPrincipal"),
        (document(statement(NotPrincipal="*")), "exclude each other"),
        (document(statement(Action=None)), "Missing required field Action"),
        (document(statement(Action="s3:Fly")), "invalid action"),
        (document(statement(Action="ec2:*")), "invalid action"),
        (document(statement(Action=[])), "invalid action"),
        (document(statement(Resource=None)), "Missing required field Resource"),
        (document(statement(Resource="*")), "invalid resource"),
        (document(statement(Resource="arn:aws:s3:::other/*")), "invalid resource"),
        (document(statement(Resource=[*EVERYTHING, "arn:aws:s3:::shop2"])), "invalid resource"),
        (document(statement(Resource="arn:aws:s3:::shop/${aws:username}")), "variables"),
        (document(statement(Condition={"Bool": {"aws:SourceVpc": "x"}})), "condition key"),
        (document(statement(Condition={"Bool": {"s3:ExistingObjectTag/": "x"}})), "condition key"),
        (document(statement(Condition={"Maybe": {"aws:Referer": "x"}})), "Condition type"),
        (document(statement(Condition={"NullIfExists": {"aws:Referer": "true"}})), "type"),
        (document(statement(Condition={"Bool": {"aws:SecureTransport": "yes"}})), "Boolean"),
        (document(statement(Condition={"IpAddress": {"aws:SourceIp": "10/8"}})), "CIDR"),
        (document(statement(Condition={"NumericLessThan": {"s3:max-keys": "x"}})), "number"),
        (document(statement(Condition={"DateLessThan": {"aws:CurrentTime": "x"}})), "date"),
        (document(statement(Condition={"ArnLike": {"aws:PrincipalArn": "x"}})), "ARN"),
        (document(statement(Condition={"Bool": "x"})), "syntax"),
        (document(statement(Condition="x")), "syntax"),
        (document(statement(Condition={"StringLike": {"aws:Referer": []}})), "syntax"),
        (document(statement(Condition={"StringLike": {"aws:Referer": {}}})), "syntax"),
    ],
)
def test_parse_policy__fault__is_malformed_and_says_which(text: str, said: str) -> None:
    assert said in refusal(text)


def test_parse_policy__wildcards_without_end__are_refused_however_they_are_spelt() -> None:
    for star in ("*", "\\u002a"):
        text = document(statement(Resource="arn:aws:s3:::shop/HERE"))
        assert parse_policy(text.replace("HERE", star * 990), BUCKET)
        assert "wildcards" in refusal(text.replace("HERE", star * 1001))


def test_parse_policy__twenty_kib__is_the_most() -> None:
    text = document(statement())
    assert parse_policy(text + " " * (MAX_POLICY_BYTES - len(text)), BUCKET).statements
    assert "maximum" in refusal(text + " " * (MAX_POLICY_BYTES - len(text) + 1))


@pytest.mark.parametrize("resource", ["arn:aws:s3:::*", "arn:aws:s3:::*/*", "arn:aws:s3:::sh?p/*"])
def test_parse_policy__resource_with_wildcards__may_reach_beyond_the_bucket(resource: str) -> None:
    assert parse_policy(document(statement(Resource=resource)), BUCKET)


def test_parse_policy__one_statement_without_a_list__is_as_good() -> None:
    assert len(parse_policy(document(Statement=statement()), BUCKET).statements) == 1


# Is it public?


@pytest.mark.parametrize(
    ("changes", "public"),
    [
        ({}, True),
        ({"Principal": {"AWS": "*"}}, True),
        ({"Effect": "Deny"}, False),
        ({"Principal": {"AWS": "arn:aws:iam::acme:root"}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/32"}}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "2001:db8::/32"]}}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "0.0.0.0/0"]}}}, True),
        ({"Condition": {"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}, True),
        ({"Condition": {"IpAddressIfExists": {"aws:SourceIp": "10.0.0.0/8"}}}, True),
        ({"Condition": {"StringLike": {"aws:Referer": "http://a/*"}}}, True),
        ({"Condition": {"StringEquals": {"aws:userid": "alice"}}}, False),
        ({"Condition": {"StringLike": {"aws:userid": "a*"}}}, True),
        ({"Condition": {"ForAllValues:StringEquals": {"aws:userid": "alice"}}}, True),
        ({"Condition": {"ArnLike": {"aws:PrincipalArn": "arn:aws:iam:::user/alice"}}}, False),
    ],
)
def test_public__statement__as_s3_means_the_word(changes: dict[str, Any], public: bool) -> None:
    assert parse_policy(document(statement(**changes)), BUCKET).public is public


def test_reads_tags__existing_object_tag__is_told() -> None:
    tag = {"StringEquals": {"s3:ExistingObjectTag/security": "public"}}
    assert parse_policy(document(statement(Condition=tag)), BUCKET).reads_tags
    assert not parse_policy(document(statement()), BUCKET).reads_tags
