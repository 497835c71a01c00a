"""Bug reports of other S3 servers, as tests: signatures and URLs. Each names its report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.auth
import pytest
from raw_http import RawClient, RawReply, assert_error

DATA = b"body"
SHA256 = hashlib.sha256(DATA).hexdigest()
MINUTE = timedelta(minutes=1)
ISO_SECONDS = "%Y-%m-%dT%H:%M:%SZ"
ODD_KEYS = (
    pytest.param("b%25az", "b%az", id="percent-sign"),
    pytest.param("what%3F", "what?", id="question-mark"),
    pytest.param("%253F", "%3F", id="escape-in-the-key"),
    pytest.param("a%20b", "a b", id="space"),
    pytest.param("a%2Bb", "a+b", id="plus"),
    pytest.param("a//b", "a//b", id="two-slashes"),
    pytest.param("/a", "/a", id="leading-slash"),
    pytest.param("a/", "a/", id="trailing-slash"),
    pytest.param("a/./b", "a/./b", id="dot"),
    pytest.param("a/../b", "a/../b", id="two-dots"),
    pytest.param("..", "..", id="nothing-but-two-dots"),
)


@pytest.fixture
def sign_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], datetime]:
    """Sets botocore's clock off ours; returns what it then shows."""

    def set_clock(offset: timedelta) -> datetime:
        moment = datetime.now(UTC).replace(microsecond=0) + offset
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
        return moment

    return set_clock


def ask_presigned(raw: RawClient, method: str, target: str, body: bytes = b"") -> RawReply:
    """Send exactly that target, with no header but the length."""
    raw.send(raw.head(method, target, {"Content-Length": str(len(body))}) + body)
    return raw.reply(method)


def listed(s3: Any, bucket: str) -> list[str]:
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


# Canonical path, query and headers


@pytest.mark.parametrize(("on_wire", "key"), ODD_KEYS)
def test_path__key_that_peers_normalise_or_encode_twice__is_one_key_to_header_and_url(
    raw: RawClient, s3: Any, bucket: str, on_wire: str, key: str
) -> None:
    """versitygw#181, minio#4162 #9567 #15684 #13022, minio-dart#115, backlot#115."""
    target = f"/{bucket}/{on_wire}"
    assert raw.ask("PUT", target, DATA).status == 200
    assert ask_presigned(raw, "GET", raw.presigned_target("GET", target)).body == DATA
    assert listed(s3, bucket) == [key]
    assert ask_presigned(raw, "DELETE", raw.presigned_target("DELETE", target)).status == 204
    assert listed(s3, bucket) == []


@pytest.mark.parametrize(
    ("signed", "on_wire", "key"),
    [("a%2Bb", "a+b", "a+b"), ("%C3%A9%3Dx", "%c3%a9=x", "\u00e9=x"), ("%28%2A%29", "(*)", "(*)")],
)
def test_path__wire_escapes_less_than_s3_signs__is_encoded_once_and_accepted(
    raw: RawClient, s3: Any, bucket: str, signed: str, on_wire: str, key: str
) -> None:
    """minio-dart#115, backlot#115: a literal "+" of the path is %2B to the signature."""
    head = raw.signed_head("PUT", f"/{bucket}/{signed}", DATA)
    raw.send(head.replace(signed.encode(), on_wire.encode(), 1) + DATA)
    assert raw.reply().status == 200
    assert listed(s3, bucket) == [key]


@pytest.mark.parametrize("on_wire", ["?versioning", "?versioning="])
def test_query__subresource_without_a_value__signs_as_an_empty_value(
    raw: RawClient, bucket: str, on_wire: str
) -> None:
    """curl#10129."""
    head = raw.signed_head("GET", f"/{bucket}?versioning=")
    raw.send(head.replace(b"?versioning=", on_wire.encode(), 1))
    reply = raw.reply()
    assert reply.status == 200
    assert b"VersioningConfiguration" in reply.body
    presigned = raw.presigned_target("GET", f"/{bucket}?versioning")
    assert ask_presigned(raw, "GET", presigned).body == reply.body


def test_header__runs_of_spaces__are_collapsed_to_sign_and_stored_as_sent(
    raw: RawClient, bucket: str
) -> None:
    """supabase/storage#1396."""
    sent = {"x-amz-meta-note": "one  two   three", "Content-Disposition": 'a;  filename="b  c"'}
    assert raw.ask("PUT", f"/{bucket}/k", DATA, sent).status == 200
    reply = raw.ask("HEAD", f"/{bucket}/k")
    assert reply.status == 200
    assert {name: reply.headers[name.lower()] for name in sent} == sent


# Payload hash


@pytest.mark.parametrize("text", [SHA256, SHA256.upper(), "UNSIGNED-PAYLOAD"])
def test_payload_hash__any_spelling__is_signed_word_for_word(
    raw: RawClient, bucket: str, text: str
) -> None:
    """ozone#8366."""
    headers = {"x-amz-content-sha256": text}
    assert raw.ask("PUT", f"/{bucket}/k", DATA, headers).status == 200
    assert raw.ask("GET", f"/{bucket}/k").body == DATA


@pytest.mark.parametrize("text", [None, "UNSIGNED-PAYLOAD", SHA256, hashlib.sha256().hexdigest()])
def test_payload_hash__of_a_presigned_url__is_unsigned_whatever_the_header_says(
    raw: RawClient, bucket: str, text: str | None
) -> None:
    """ozone#8366."""
    headers = {} if text is None else {"x-amz-content-sha256": text}
    target = raw.presigned_target("PUT", f"/{bucket}/k")
    raw.send(raw.head("PUT", target, headers | {"Content-Length": str(len(DATA))}) + DATA)
    assert raw.reply().status == 200
    assert raw.ask("GET", f"/{bucket}/k").body == DATA


# Time


@pytest.mark.parametrize("expires", ["604801", "-1", "", "soon", "60.5", "60&X-Amz-Expires=60"])
def test_presigned__expires_out_of_range_no_number_or_twice__is_a_query_parameters_error(
    raw: RawClient, bucket: str, expires: str
) -> None:
    """minio#5162, versitygw#2116."""
    target = raw.presigned_target("GET", f"/{bucket}/k")
    changed = target.replace("X-Amz-Expires=60", f"X-Amz-Expires={expires}")
    assert changed != target
    reply = ask_presigned(raw, "GET", changed)
    assert_error(reply, 400, "AuthorizationQueryParametersError")


def test_presigned__expires_in_a_week__is_accepted(raw: RawClient, bucket: str) -> None:
    """minio#5162."""
    target = raw.presigned_target("GET", f"/{bucket}", expires_s=604_800)
    assert ask_presigned(raw, "GET", target).status == 200


def test_presigned__expired__is_access_denied_that_tells_all_three_times(
    raw: RawClient, bucket: str, sign_at: Callable[[timedelta], datetime]
) -> None:
    """versitygw#2116."""
    signed = sign_at(-2 * MINUTE)
    before = datetime.now(UTC).replace(microsecond=0)
    reply = ask_presigned(raw, "GET", raw.presigned_target("GET", f"/{bucket}", expires_s=60))
    assert_error(reply, 403, "AccessDenied")
    assert reply.text("X-Amz-Expires") == "60"
    assert reply.text("Expires") == (signed + MINUTE).strftime(ISO_SECONDS)
    assert reply.text("ServerTime") in spelled(before)


@pytest.mark.parametrize("offset", [-16 * MINUTE, 16 * MINUTE])
def test_skew__over_15_minutes__is_request_time_too_skewed_with_both_times(
    raw: RawClient, bucket: str, sign_at: Callable[[timedelta], datetime], offset: timedelta
) -> None:
    """versitygw#1514."""
    signed = sign_at(offset)
    before = datetime.now(UTC).replace(microsecond=0)
    reply = raw.ask("GET", f"/{bucket}")
    assert_error(reply, 403, "RequestTimeTooSkewed")
    assert reply.text("RequestTime") == signed.strftime("%Y%m%dT%H%M%SZ")
    assert reply.text("ServerTime") in spelled(before)
    assert reply.text("MaxAllowedSkewMilliseconds") == "900000"


@pytest.mark.parametrize("offset", [-14 * MINUTE, 14 * MINUTE])
def test_skew__under_15_minutes__is_accepted(
    raw: RawClient, bucket: str, sign_at: Callable[[timedelta], datetime], offset: timedelta
) -> None:
    """versitygw#1514."""
    sign_at(offset)
    assert raw.ask("GET", f"/{bucket}").status == 200


def spelled(since: datetime) -> set[str]:
    """Every second from then to now, as S3 spells it."""
    seconds = int((datetime.now(UTC) - since).total_seconds())
    return {
        (since + timedelta(seconds=second)).strftime(ISO_SECONDS) for second in range(seconds + 1)
    }
