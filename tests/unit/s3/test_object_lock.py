"""Object lock's rules: documents, headers, what may change, and what may be removed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.errors import ClientError, S3Code
from gateway.s3.object_lock import (
    SETTING,
    admit_object_lock,
    check_retention_change,
    default_retention,
    legal_hold_document,
    lock_headers,
    lock_of_headers,
    locked,
    object_lock_unset,
    read_legal_hold,
    read_object_lock,
    read_retention,
    removal_permit,
    retention_document,
)
from gateway.storage.port import (
    BucketInfo,
    ObjectAttributes,
    ObjectInfo,
    Retention,
    RetentionMode,
    Versioning,
)
from gateway.wire.request import RequestHead
from gateway.wire.xml import parse_xml, render

NOW = datetime(2026, 11, 29, 21, 0, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9
DAY_NS = 86_400 * 10**9
GOVERNANCE, COMPLIANCE = RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE
LATER = Retention(GOVERNANCE, NOW_NS + 2 * DAY_NS)
LOCKING = BucketInfo("shop", 0, "us-east-1", versioning=Versioning.ENABLED, object_lock=True)


def configuration(retention: str = "", enabled: str = "Enabled") -> str:
    rule = f"<Rule><DefaultRetention>{retention}</DefaultRetention></Rule>" if retention else ""
    return (
        f"<ObjectLockConfiguration><ObjectLockEnabled>{enabled}</ObjectLockEnabled>{rule}"
        "</ObjectLockConfiguration>"
    )


def with_default(retention: str) -> BucketInfo:
    return replace(LOCKING, settings={SETTING: configuration(retention)})


def stored(text: str) -> bytes:
    return render(read_object_lock(parse_xml(text.encode(), 1 << 16)))


def code_of(call: object, *arguments: object, **named: object) -> S3Code:
    with pytest.raises(ClientError) as caught:
        call(*arguments, **named)  # type: ignore[operator]
    return caught.value.code


# The bucket's configuration


@pytest.mark.parametrize(
    ("retention", "days"),
    [
        ("<Mode>GOVERNANCE</Mode><Days>1</Days>", 1),
        ("<Days>36500</Days><Mode>GOVERNANCE</Mode>", 36_500),
        ("<Mode>GOVERNANCE</Mode><Years>2</Years>", 730),
    ],
)
def test_default_retention__days_or_years__begins_when_the_object_is_made(
    retention: str, days: int
) -> None:
    bucket = with_default(retention)
    made = locked(ObjectAttributes(), bucket, NOW_NS)
    assert made.retention == Retention(GOVERNANCE, NOW_NS + days * DAY_NS)


def test_default_retention__none__is_none() -> None:
    assert default_retention(LOCKING) is None
    assert default_retention(replace(LOCKING, settings={SETTING: configuration()})) is None
    assert locked(ObjectAttributes(), LOCKING, NOW_NS) == ObjectAttributes()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (configuration(enabled="Disabled"), S3Code.MALFORMED_XML),
        ("<ObjectLockConfiguration/>", S3Code.MALFORMED_XML),
        (configuration("<Mode>GOVERNANCE</Mode>"), S3Code.MALFORMED_XML),
        (configuration("<Days>1</Days>"), S3Code.MALFORMED_XML),
        (configuration("<Mode>abc</Mode><Days>1</Days>"), S3Code.MALFORMED_XML),
        (configuration("<Mode>governance</Mode><Years>1</Years>"), S3Code.MALFORMED_XML),
        (
            configuration("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>"),
            S3Code.MALFORMED_XML,
        ),
        (configuration("<Mode>GOVERNANCE</Mode><Days>x</Days>"), S3Code.MALFORMED_XML),
        (configuration("<Mode>GOVERNANCE</Mode><Days>0</Days>"), S3Code.INVALID_RETENTION_PERIOD),
        (
            configuration("<Mode>GOVERNANCE</Mode><Days>36501</Days>"),
            S3Code.INVALID_RETENTION_PERIOD,
        ),
        (
            configuration("<Mode>GOVERNANCE</Mode><Years>-1</Years>"),
            S3Code.INVALID_RETENTION_PERIOD,
        ),
        (
            configuration("<Mode>GOVERNANCE</Mode><Years>101</Years>"),
            S3Code.INVALID_RETENTION_PERIOD,
        ),
    ],
)
def test_object_lock_document__without_sense__is_refused(text: str, code: S3Code) -> None:
    assert code_of(stored, text) is code


def test_object_lock_document__stored__is_what_was_sent() -> None:
    sent = configuration("<Mode>COMPLIANCE</Mode><Years>1</Years>")
    assert stored(sent).endswith(sent.removeprefix("<ObjectLockConfiguration>").encode())


@pytest.mark.parametrize("versioning", [Versioning.OFF, Versioning.SUSPENDED])
def test_admit_object_lock__without_versions__is_invalid_bucket_state(
    versioning: Versioning,
) -> None:
    bucket = replace(LOCKING, versioning=versioning, object_lock=False)
    assert code_of(admit_object_lock, bucket) is S3Code.INVALID_BUCKET_STATE


def test_admit_object_lock__with_versions__locks_from_now_on() -> None:
    assert admit_object_lock(replace(LOCKING, object_lock=False)).object_lock


def test_object_lock_unset__locking_bucket__says_enabled() -> None:
    assert object_lock_unset(LOCKING).findtext("ObjectLockEnabled") == "Enabled"
    unlocked = replace(LOCKING, object_lock=False)
    assert code_of(object_lock_unset, unlocked) is S3Code.OBJECT_LOCK_CONFIGURATION_NOT_FOUND


# Locks that a write asks for


def head(**headers: str) -> RequestHead:
    fields = tuple(
        (f"x-amz-object-lock-{name.replace('_', '-')}", value) for name, value in headers.items()
    )
    return RequestHead("PUT", "/shop/k", "", fields)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("2030-01-01T00:00:00Z", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T00:00:00.000Z", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T02:00:00+02:00", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T00:00:00", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T00:00:00.123999Z", datetime(2030, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)),
    ],
)
def test_lock_of_headers__iso_8601__is_kept_in_milliseconds(text: str, until: datetime) -> None:
    retention, hold = lock_of_headers(head(mode="GOVERNANCE", retain_until_date=text))
    assert retention is not None
    assert retention.until_ns == int(until.timestamp() * 1000) * 10**6
    assert not hold


@pytest.mark.parametrize("date", ["", "soon", "2030-13-01T00:00:00Z", "2300-01-01", "1960-01-01"])
def test_lock_of_headers__impossible_date__is_invalid_argument(date: str) -> None:
    wanted = head(mode="GOVERNANCE", retain_until_date=date)
    assert code_of(lock_of_headers, wanted) is S3Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "wanted",
    [
        head(mode="GOVERNANCE"),
        head(retain_until_date="2030-01-01T00:00:00Z"),
        head(mode="HARD", retain_until_date="2030-01-01T00:00:00Z"),
        head(legal_hold="YES"),
    ],
)
def test_lock_of_headers__half_or_unknown__is_invalid_argument(wanted: RequestHead) -> None:
    assert code_of(lock_of_headers, wanted) is S3Code.INVALID_ARGUMENT


def test_lock_of_headers__hold_off_or_nothing__locks_nothing() -> None:
    assert lock_of_headers(head(legal_hold="OFF")) == (None, False)
    assert lock_of_headers(head()) == (None, False)
    assert lock_of_headers(head(legal_hold="ON")) == (None, True)


def test_locked__wanted__outweighs_the_default() -> None:
    bucket = with_default("<Mode>COMPLIANCE</Mode><Days>9</Days>")
    assert locked(ObjectAttributes(retention=LATER), bucket, NOW_NS).retention == LATER


def test_locked__hold_alone__gets_the_default_retention_as_well() -> None:
    bucket = with_default("<Mode>COMPLIANCE</Mode><Days>9</Days>")
    made = locked(ObjectAttributes(legal_hold=True), bucket, NOW_NS)
    assert made.legal_hold
    assert made.retention == Retention(COMPLIANCE, NOW_NS + 9 * DAY_NS)


@pytest.mark.parametrize(
    "wanted", [ObjectAttributes(retention=LATER), ObjectAttributes(legal_hold=True)]
)
def test_locked__bucket_without_locks__is_invalid_request(wanted: ObjectAttributes) -> None:
    bucket = replace(LOCKING, object_lock=False)
    assert code_of(locked, wanted, bucket, NOW_NS) is S3Code.INVALID_REQUEST


def test_locked__already_over__is_invalid_argument() -> None:
    over = ObjectAttributes(retention=Retention(GOVERNANCE, NOW_NS))
    assert code_of(locked, over, LOCKING, NOW_NS) is S3Code.INVALID_ARGUMENT


# Documents of versions


@pytest.mark.parametrize(
    "text",
    [
        "<Other/>",
        "<Retention><Mode>GOVERNANCE</Mode></Retention>",
        "<Retention><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate></Retention>",
        "<Retention><Mode>governance</Mode><RetainUntilDate>2030-01-01</RetainUntilDate></Retention>",
        "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>x</RetainUntilDate></Retention>",
        "<Retention><Mode>GOVERNANCE</Mode><Days>1</Days></Retention>",
    ],
)
def test_read_retention__without_sense__is_malformed_xml(text: str) -> None:
    assert code_of(read_retention, parse_xml(text.encode(), 1 << 10)) is S3Code.MALFORMED_XML


def test_retention_document__rendered__is_read_back() -> None:
    exact = Retention(COMPLIANCE, NOW_NS + 123 * 10**6)
    rendered = render(retention_document(exact))
    assert b"<RetainUntilDate>2026-11-29T21:00:00.123Z</RetainUntilDate>" in rendered
    assert read_retention(parse_xml(rendered, 1 << 10)) == exact


def test_read_retention__empty__takes_it_away() -> None:
    assert read_retention(parse_xml(b"<Retention/>", 100)) is None


@pytest.mark.parametrize("hold", [True, False])
def test_legal_hold_document__rendered__is_read_back(hold: bool) -> None:
    assert read_legal_hold(parse_xml(render(legal_hold_document(hold)), 1 << 10)) is hold


@pytest.mark.parametrize(
    "text",
    [
        "<LegalHold/>",
        "<LegalHold><Status>abc</Status></LegalHold>",
        "<LegalHold><Status>on</Status></LegalHold>",
        "<Other><Status>ON</Status></Other>",
    ],
)
def test_read_legal_hold__without_sense__is_malformed_xml(text: str) -> None:
    assert code_of(read_legal_hold, parse_xml(text.encode(), 1 << 10)) is S3Code.MALFORMED_XML


# What may change, and what may go


@pytest.mark.parametrize(
    ("current", "wanted", "bypass", "allowed"),
    [
        (None, LATER, False, True),
        (LATER, replace(LATER, until_ns=LATER.until_ns + 1), False, True),
        (LATER, LATER, False, True),
        (LATER, replace(LATER, until_ns=LATER.until_ns - 1), False, False),
        (LATER, replace(LATER, until_ns=LATER.until_ns - 1), True, True),
        (LATER, None, False, False),
        (LATER, None, True, True),
        (LATER, replace(LATER, mode=COMPLIANCE), False, False),
        (LATER, replace(LATER, mode=COMPLIANCE), True, True),
        (replace(LATER, mode=COMPLIANCE), LATER, True, False),
        (replace(LATER, mode=COMPLIANCE), None, True, False),
        (replace(LATER, mode=COMPLIANCE), replace(LATER, mode=COMPLIANCE), False, True),
        (Retention(COMPLIANCE, NOW_NS), None, False, True),
    ],
)
def test_retention_change__while_it_holds__needs_an_extension_or_a_bypass(
    current: Retention | None, wanted: Retention | None, bypass: bool, allowed: bool
) -> None:
    if allowed:
        check_retention_change(current, wanted, NOW_NS, bypass=bypass)
    else:
        refused = code_of(check_retention_change, current, wanted, NOW_NS, bypass=bypass)
        assert refused is S3Code.ACCESS_DENIED


def test_retention_change__to_the_past__is_invalid_argument() -> None:
    past = Retention(GOVERNANCE, NOW_NS)
    code = code_of(check_retention_change, None, past, NOW_NS, bypass=True)
    assert code is S3Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("attributes", "bypass", "allowed"),
    [
        (ObjectAttributes(), False, True),
        (ObjectAttributes(retention=LATER), False, False),
        (ObjectAttributes(retention=LATER), True, True),
        (ObjectAttributes(retention=replace(LATER, mode=COMPLIANCE)), True, False),
        (ObjectAttributes(retention=Retention(COMPLIANCE, NOW_NS)), False, True),
        (ObjectAttributes(legal_hold=True), True, False),
        (ObjectAttributes(legal_hold=True, retention=LATER), True, False),
    ],
)
def test_removal_permit__what_is_locked__stays(
    attributes: ObjectAttributes, bypass: bool, allowed: bool
) -> None:
    info = ObjectInfo("shop", "k", 0, "", 0, attributes)
    permit = removal_permit(NOW_NS, bypass=bypass)
    if allowed:
        permit(info)
    else:
        assert code_of(permit, info) is S3Code.ACCESS_DENIED


def test_lock_headers__of_an_object__are_those_of_get_and_head() -> None:
    assert dict(lock_headers(ObjectAttributes())) == {}
    assert dict(lock_headers(ObjectAttributes(retention=LATER, legal_hold=True))) == {
        "x-amz-object-lock-mode": "GOVERNANCE",
        "x-amz-object-lock-retain-until-date": "2026-12-01T21:00:00.000Z",
        "x-amz-object-lock-legal-hold": "ON",
    }
