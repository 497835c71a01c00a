"""Bucket policies, POST policies, forms and keys: any input gives a value or a ClientError."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from post_forms import read_form
from request_heads import REGION, STORE, head

from gateway.auth.condition_keys import KEYS
from gateway.auth.conditions import ConditionError, parse_condition
from gateway.auth.credentials_file import CredentialsFileError, parse_credentials
from gateway.auth.policy import parse_policy
from gateway.auth.post_policy import parse_post_policy, prove_form
from gateway.auth.principal import ANONYMOUS, Account, Principal
from gateway.auth.statement import Question
from gateway.auth.wildcard import PolicyVariableError
from gateway.config import HttpLimits
from gateway.errors import ClientError
from gateway.s3.post_object import form_fields, read_post
from gateway.wire.form_data import FormFields, form_boundary

ALICE = Principal("AKIA", Account("alice", "Alice"))
any_texts = st.text(max_size=60)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | any_texts
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_texts, inner, max_size=4),
    max_leaves=12,
)

# Words that bring a document close to a real one.
operators = st.sampled_from(
    [
        *("StringEquals", "StringNotLike", "NumericLessThan", "DateGreaterThan", "Bool", "Null"),
        *("IpAddress", "NotIpAddress", "ArnLike", "ForAllValues:StringLike", "BoolIfExists"),
    ]
)
keys = st.sampled_from(sorted(KEYS)) | any_texts
values = st.sampled_from(
    ["true", "10.0.0.0/8", "5", "2026-01-01", "arn:aws:iam:::user/alice", "a*", "${*}", "${x}"]
)
conditions = st.dictionaries(
    operators | any_texts,
    st.dictionaries(keys, values | scalars | st.lists(values, max_size=3), max_size=3),
    max_size=3,
)
principals = st.sampled_from(["*", {"AWS": "*"}, {"CanonicalUser": ["alice"]}]) | any_json
actions = st.sampled_from(["s3:*", "s3:GetObject", ["s3:Put*", "s3:ListBucket"]]) | any_json
resources = st.sampled_from(["arn:aws:s3:::b", ["arn:aws:s3:::b/*", "arn:aws:s3:::*"]]) | any_json
statements = st.fixed_dictionaries(
    {"Effect": st.sampled_from(["Allow", "Deny"]), "Principal": principals},
    optional={
        "Action": actions,
        "NotAction": actions,
        "Resource": resources,
        "NotResource": resources,
        "Condition": conditions | any_json,
        "Sid": any_texts,
    },
)
policies = st.fixed_dictionaries({"Statement": st.lists(statements, max_size=3) | statements})
facts = st.dictionaries(keys.map(str.lower), st.lists(any_texts, max_size=2).map(tuple), max_size=5)


@given(st.text() | any_json.map(json.dumps) | policies.map(json.dumps), facts, any_texts)
def test_bucket_policy__any_document__is_a_verdict_or_malformed(
    text: str, given_facts: dict[str, tuple[str, ...]], key: str
) -> None:
    with suppress(ClientError):
        policy = parse_policy(text, "b")
        for principal in (ANONYMOUS, ALICE):
            policy.judge(Question(principal, "s3:GetObject", f"b/{key}", given_facts))


@given(operators | any_texts, values | any_texts, st.lists(any_texts, max_size=3))
def test_condition__any_operator_and_values__is_a_truth_or_refused(
    operator: str, wanted: str, found: list[str]
) -> None:
    with suppress(ConditionError, PolicyVariableError):
        condition = parse_condition(operator, "aws:Referer", (wanted,))
        assert condition.holds({"aws:referer": tuple(found)}) in (True, False)


post_conditions = st.lists(
    st.dictionaries(any_texts, scalars, max_size=2)
    | st.tuples(
        st.sampled_from(["eq", "starts-with", "content-length-range"]) | any_texts,
        st.sampled_from(["$key", "$acl"]) | scalars,
        scalars,
    ).map(list)
    | any_json,
    max_size=4,
)
post_documents = st.fixed_dictionaries(
    {
        "expiration": st.sampled_from(["2030-01-01T00:00:00Z", "2030-13-01T00:00:00Z"]) | scalars,
        "conditions": post_conditions,
    }
)
FIELDS = (
    *("key", "acl", "policy", "signature", "awsaccesskeyid", "tagging", "content-type"),
    *("x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature", "x-amz-meta-a"),
    *("success_action_status", "success_action_redirect", "x-amz-object-lock-mode"),
)
field_values = any_texts | st.sampled_from(
    [
        *("AWS4-HMAC-SHA256", "AKIDEXAMPLE/20260101/us-east-1/s3/aws4_request", "0" * 64),
        *("20260101T000000Z", "AKIDEXAMPLE", "${filename}", "private", "<Tagging/>", "201"),
    ]
)
forms = st.dictionaries(st.sampled_from(FIELDS) | any_texts.map(str.lower), field_values)


def encoded(document: Any) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


@given(st.text() | any_json.map(encoded) | post_documents.map(encoded), forms)
def test_post_policy__any_document__is_kept_or_a_client_error(
    text: str, fields: dict[str, str]
) -> None:
    with suppress(ClientError):
        parse_post_policy(text).check(fields, 0.0)


@given(forms, any_texts)
def test_form_fields__any__are_proved_and_read_or_a_client_error(
    values: dict[str, str], filename: str
) -> None:
    fields = form_fields(FormFields(values, filename), "shop")
    with suppress(ClientError):
        prove_form(fields, STORE, 1767225600.0, REGION)
    with suppress(ClientError):
        read_post(fields, head("POST", "/shop"), "shop", HttpLimits())


form_pieces = st.lists(
    st.sampled_from(
        [
            *(b"--b", b"\r\n", b"--", b"\r\n\r\n", b"\r\n--b\r\n", b"\r\n--b--", b" ", b"-"),
            b'Content-Disposition: form-data; name="key"',
            b'content-disposition:form-data;name=file;filename="a\\"b"',
        ]
    )
    | st.binary(max_size=20),
    max_size=20,
).map(b"".join)


@given(form_pieces, st.integers(1, 30))
def test_form_data__any_bytes_in_any_cut__are_read_or_a_client_error(
    data: bytes, cut_bytes: int
) -> None:
    with suppress(ClientError):
        read_form(data, b"b", cut_bytes, limit_bytes=200)


@given(st.text(max_size=200))
def test_form_boundary__any_content_type__is_one_or_a_client_error(text: str) -> None:
    with suppress(ClientError):
        assert 1 <= len(form_boundary(head("POST", content_type=text))) <= 70


@pytest.mark.parametrize("prefix", [b"", b"[a]\naws_access_key_id = K\naws_secret_access_key = "])
@given(st.binary(max_size=200))
def test_credentials_file__any_bytes__are_keys_or_its_error(prefix: bytes, data: bytes) -> None:
    with suppress(CredentialsFileError):
        assert parse_credentials(prefix + data, "keys")
