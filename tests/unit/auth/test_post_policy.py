"""auth.post_policy: forms that botocore signed, and every way in which one may not keep to it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from post_forms import botocore_form
from request_heads import ACCESS_KEY, REGION, SECRET_KEY, STORE
from s3_desk import refused

from gateway.auth.post_policy import FieldCondition, SizeRange, parse_post_policy, prove_form
from gateway.errors import S3Code

BUCKET = "shop"
NOW_S = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
Fields = dict[str, str]


def encoded(document: object) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def policy(*conditions: Any, expiration: str = "2026-01-01T13:00:00Z") -> str:
    return encoded({"expiration": expiration, "conditions": list(conditions)})


def by_botocore(
    fields: Fields | None = None, conditions: list[Any] | None = None, version: str = "s3v4"
) -> Fields:
    """The fields of a form that botocore signs now, lower-case, with the bucket."""
    made = botocore_form(version, "key", fields, conditions)
    return {name.lower(): value for name, value in made.items()} | {"bucket": BUCKET}


def version_2(*conditions: Any, secret: str = SECRET_KEY, **fields: str) -> Fields:
    """As the documents of version 2 say: HMAC-SHA1 of the policy."""
    text = policy({"bucket": BUCKET}, ["starts-with", "$key", ""], *conditions)
    digest = hmac.digest(secret.encode(), text.encode(), hashlib.sha1)
    return {
        "key": "key",
        "awsaccesskeyid": ACCESS_KEY,
        "policy": text,
        "signature": base64.b64encode(digest).decode(),
        "bucket": BUCKET,
    } | {name.replace("_", "-"): value for name, value in fields.items()}


def prove(fields: Fields, now_s: float | None = None) -> Any:
    moment = datetime.now(UTC).timestamp() if "x-amz-date" in fields else NOW_S
    return prove_form(fields, STORE, moment if now_s is None else now_s, REGION)


def test_prove__botocores_form__is_that_keys() -> None:
    conditions = [{"acl": "private"}, ["content-length-range", 1, 10]]
    proof = prove(by_botocore({"acl": "private"}, conditions))
    assert proof.principal.access_key == ACCESS_KEY
    assert proof.size == SizeRange(1, 10)
    assert proof.signature_version == "AWS4-HMAC-SHA256"


def test_prove__version_2__is_that_keys() -> None:
    assert prove(by_botocore(version="s3")).principal.access_key == ACCESS_KEY
    proof = prove(version_2())
    assert proof.principal.access_key == ACCESS_KEY
    assert proof.signature_version == "AWS"


def test_prove__no_policy_and_no_signature__is_anonymous() -> None:
    assert prove({"key": "k", "bucket": BUCKET}).principal.anonymous


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"x-amz-signature": "0" * 64}, S3Code.SIGNATURE_DOES_NOT_MATCH),
        ({"x-amz-signature": "short"}, S3Code.INVALID_ARGUMENT),
        ({"x-amz-signature": ""}, S3Code.INVALID_ARGUMENT),
        ({"policy": policy({"bucket": BUCKET})}, S3Code.SIGNATURE_DOES_NOT_MATCH),
        ({"policy": ""}, S3Code.INVALID_ARGUMENT),
        ({"x-amz-algorithm": "AWS4-HMAC-SHA1"}, S3Code.INVALID_ARGUMENT),
        ({"x-amz-credential": "nonsense"}, S3Code.INVALID_ARGUMENT),
        ({"x-amz-date": "20260101T000000Z"}, S3Code.INVALID_ARGUMENT),
        ({"x-amz-date": "now"}, S3Code.INVALID_ARGUMENT),
        ({"key": "other"}, S3Code.ACCESS_DENIED),
        ({"bucket": "other"}, S3Code.ACCESS_DENIED),
        ({"acl": "public-read"}, S3Code.ACCESS_DENIED),
        ({"x-ignore-me": "x"}, None),
        ({"x-amz-checksum-crc32": "x"}, None),
    ],
)
def test_prove__botocores_form_changed__is_refused_unless_it_may_be(
    changes: Fields, code: S3Code | None
) -> None:
    fields = by_botocore() | changes
    if code is None:
        assert prove(fields).principal.access_key == ACCESS_KEY
        return
    with refused(code):
        prove(fields)


def test_prove__key_or_scope_of_nobody__is_refused() -> None:
    fields = by_botocore()
    credential = fields["x-amz-credential"]
    with refused(S3Code.INVALID_ACCESS_KEY_ID):
        prove(fields | {"x-amz-credential": credential.replace(ACCESS_KEY, "AKIDOTHER")})
    with refused(S3Code.INVALID_ARGUMENT):
        prove(fields | {"x-amz-credential": credential.replace(REGION, "mars-1")})


@pytest.mark.parametrize("late_s", [-1000, 3601, 8 * 86_400])
def test_prove__too_early_or_too_late__is_access_denied(late_s: float) -> None:
    fields = by_botocore()
    with refused(S3Code.ACCESS_DENIED):
        prove(fields, datetime.now(UTC).timestamp() + late_s)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"signature": "AAAA"}, S3Code.SIGNATURE_DOES_NOT_MATCH),
        ({"signature": "ü"}, S3Code.SIGNATURE_DOES_NOT_MATCH),
        ({"awsaccesskeyid": "other"}, S3Code.INVALID_ACCESS_KEY_ID),
        ({"signature": ""}, S3Code.INVALID_ARGUMENT),
        ({"awsaccesskeyid": ""}, S3Code.INVALID_ARGUMENT),
        ({"policy": ""}, S3Code.INVALID_ARGUMENT),
    ],
)
def test_prove__version_2_changed__is_refused(changes: Fields, code: S3Code) -> None:
    with refused(code) as caught:
        prove(version_2() | changes)
    assert SECRET_KEY not in str(vars(caught.value))


def test_prove__policy_without_a_signature__is_refused() -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        prove({"policy": policy({"bucket": BUCKET}), "bucket": BUCKET})


@pytest.mark.parametrize(
    ("condition", "fields", "kept"),
    [
        ({"acl": "private"}, {"acl": "private"}, True),
        ({"acl": "private"}, {"acl": "public-read"}, False),
        ({"acl": "private"}, {}, False),
        ({"AcL": "private"}, {"acl": "private"}, True),
        (["eq", "$acl", "private"], {"acl": "private"}, True),
        (["EQ", "$aCl", "private"], {"acl": "privat"}, False),
        (["starts-with", "$acl", "pri"], {"acl": "private"}, True),
        (["StArTs-WiTh", "$acl", "x"], {"acl": "private"}, False),
        (["starts-with", "$acl", ""], {}, True),
        (["starts-with", "$content-type", "image/"], {"content_type": "image/a, image/b"}, True),
        (["starts-with", "$content-type", "image/"], {"content_type": "image/a,text/b"}, False),
        (["starts-with", "$acl", "a"], {"acl": "a", "x_amz_meta_b": "c"}, False),
    ],
)
def test_prove__condition__is_kept_or_access_is_denied(
    condition: Any, fields: Fields, kept: bool
) -> None:
    form = version_2(condition, **fields)
    if kept:
        assert not prove(form).principal.anonymous
        return
    with refused(S3Code.ACCESS_DENIED) as caught:
        prove(form)
    assert "according to Policy" in caught.value.message


def test_prove__expired__says_so() -> None:
    with refused(S3Code.ACCESS_DENIED) as caught:
        prove(version_2(), NOW_S + 3600)
    assert "expired" in caught.value.message


@pytest.mark.parametrize(
    "document",
    [
        "text",
        [],
        {},
        {"expiration": "2026-01-01T13:00:00Z"},
        {"conditions": []},
        {"EXPIRATION": "2026-01-01T13:00:00Z", "conditions": []},
        {"expiration": "2026-01-01T13:00:00Z", "CONDITIONS": []},
        {"expiration": "2026-01-01T13:00:00Z", "conditions": {}},
        {"expiration": "2026-01-01 13:00:00+00:00", "conditions": []},
        {"expiration": "2026-02-30T13:00:00Z", "conditions": []},
        {"expiration": 5, "conditions": []},
        *(
            {"expiration": "2026-01-01T13:00:00Z", "conditions": [condition]}
            for condition in (
                {},
                {"acl": 5},
                [],
                "acl",
                ["eq", "acl", "x"],
                ["like", "$acl", "x"],
                ["content-length-range", 0],
                ["content-length-range", -1, 0],
                ["content-length-range", 2, 1],
                ["content-length-range", True, True],
                ["content-length-range", "0", "1"],
                ["length", 0, 1],
            )
        ),
    ],
)
def test_parse__malformed__is_invalid_policy_document(document: object) -> None:
    with refused(S3Code.INVALID_POLICY_DOCUMENT):
        parse_post_policy(encoded(document))


@pytest.mark.parametrize("text", ["", "%", "e30", base64.b64encode(b"\xff").decode(), "é"])
def test_parse__not_base64_of_json__is_invalid_policy_document(text: str) -> None:
    with refused(S3Code.INVALID_POLICY_DOCUMENT):
        parse_post_policy(text)


def test_parse__several_ranges__all_hold() -> None:
    text = policy(["content-length-range", 1, 10], ["CONTENT-LENGTH-RANGE", 5, 20])
    assert parse_post_policy(text).size == SizeRange(5, 10)


def test_condition__text__is_as_a_policy_spells_it() -> None:
    assert FieldCondition("acl", "a", prefix=True).text == '["starts-with", "$acl", "a"]'
