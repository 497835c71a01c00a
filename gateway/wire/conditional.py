"""Preconditions: the four conditional headers as one value (RFC 9110 section 13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Protocol

from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

# An entity tag: quoted (a comma may be inside) or bare, with or without the weak mark.
_ETAG = re.compile(r'[ \t]*(?:W/)?(?:"([^"]*)"|([^",]*?))[ \t]*(?:,|$)')

_NS_PER_S = 1_000_000_000

_MODIFIED_AT = "x-amz-if-match-last-modified-time"
_SIZE = "x-amz-if-match-size"

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "|".join(_MONTHS)
_TIME = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
_DATE_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"[A-Z][a-z]{{2}}, (?P<d>\d\d) (?P<b>{_MONTH}) (?P<Y>\d{{4}}) {_TIME} GMT",
        rf"[A-Z][a-z]{{5,8}}, (?P<d>\d\d)-(?P<b>{_MONTH})-(?P<Y>\d\d) {_TIME} GMT",
        rf"[A-Z][a-z]{{2}} (?P<b>{_MONTH}) (?P<d>[ \d]\d) {_TIME} (?P<Y>\d{{4}})",
    )
)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What must hold of the current object. ETags are unquoted; ("*",) means any.

    Attributes:
        if_match / if_none_match: unquoted ETags, or None where the header was absent.
        if_modified_since / if_unmodified_since: POSIX seconds, or None where absent or not a date.
        if_modified_at / if_size_bytes: of a delete only: the object's very time (POSIX seconds)
            and size; None where they don't matter.
    """

    if_match: tuple[str, ...] | None = None
    if_none_match: tuple[str, ...] | None = None
    if_modified_since: int | None = None
    if_unmodified_since: int | None = None
    if_modified_at: int | None = None
    if_size_bytes: int | None = None


NO_CONDITIONS = Conditions()


class Outcome(Enum):
    """What the preconditions say. A copy turns NOT_MODIFIED into 412 as well."""

    PROCEED = auto()
    NOT_MODIFIED = auto()
    PRECONDITION_FAILED = auto()


def parse_conditions(head: RequestHead, prefix: str = "") -> Conditions:
    """Read the four headers; `prefix` is ``x-amz-copy-source-`` for a copy's source.

    A date that isn't one is ignored (RFC 9110 sections 13.1.3 and 13.1.4).
    """
    return Conditions(
        if_match=_parse_etags(head, f"{prefix}if-match"),
        if_none_match=_parse_etags(head, f"{prefix}if-none-match"),
        if_modified_since=_parse_date_header(head, f"{prefix}if-modified-since"),
        if_unmodified_since=_parse_date_header(head, f"{prefix}if-unmodified-since"),
    )


def parse_delete_conditions(head: RequestHead) -> Conditions:
    """If-Match and S3's two conditions of a delete. Raises InvalidArgument.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObject.html
    """
    time, size = head.get(_MODIFIED_AT), head.get(_SIZE)
    return delete_conditions(_parse_etags(head, "if-match"), time, size)


def delete_conditions(
    if_match: tuple[str, ...] | None, time: str | None, size: str | None
) -> Conditions:
    """A delete's conditions from their texts, None where they are absent.

    Args:
        if_match: unquoted ETags.
        time: the object's Last-Modified, an HTTP-date.
        size: the object's bytes, in decimal digits.

    Raises:
        ClientError: InvalidArgument: a condition that can't be understood must not be passed over.
    """
    modified_s = None if time is None else parse_http_date(time.strip())
    if time is not None and modified_s is None:
        raise _invalid(_MODIFIED_AT, time)
    if size is not None and not (size.isascii() and size.isdigit() and len(size) < 20):
        raise _invalid(_SIZE, size)
    return Conditions(
        if_match=if_match,
        if_modified_at=modified_s,
        if_size_bytes=None if size is None else int(size),
    )


def _invalid(name: str, value: str) -> ClientError:
    details = {"ArgumentName": name, "ArgumentValue": value}
    return ClientError(
        S3Code.INVALID_ARGUMENT, f"The value of {name} is not valid.", details=details
    )


def evaluate(conditions: Conditions, etag: str, modified_s: int) -> Outcome:
    """Judge a read's preconditions in the order of RFC 9110 section 13.2.2.

    An ETag condition makes the date condition of its pair void: a true If-Match proceeds over a
    false If-Unmodified-Since, and a true If-None-Match over a false If-Modified-Since, as in S3.

    Args:
        conditions: as the client sent them.
        etag: of the current object, unquoted.
        modified_s: POSIX seconds, cut down to whole ones like the Last-Modified header.
    """
    if conditions.if_match is not None:
        if not _matches(conditions.if_match, etag):
            return Outcome.PRECONDITION_FAILED
    elif conditions.if_unmodified_since is not None and modified_s > conditions.if_unmodified_since:
        return Outcome.PRECONDITION_FAILED
    if conditions.if_none_match is not None:
        if _matches(conditions.if_none_match, etag):
            return Outcome.NOT_MODIFIED
    elif conditions.if_modified_since is not None and modified_s <= conditions.if_modified_since:
        return Outcome.NOT_MODIFIED
    return Outcome.PROCEED


class Current(Protocol):
    """What a write's conditions are held against."""

    @property
    def etag(self) -> str: ...

    @property
    def modified_ns(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...


def check_write(conditions: Conditions, current: Current | None) -> None:
    """Judge the conditions of a write in the step that publishes.

    Args:
        conditions: as the client sent them; dates don't matter to a write.
        current: the object that is there; None where there is none.

    Raises:
        ClientError: PreconditionFailed with the Condition that failed; NoSuchKey for an If-Match
            on a key without an object (S3, conditional writes).
    """
    if current is not None:
        _require(conditions, current)
    elif conditions.if_match is not None:
        raise ClientError(S3Code.NO_SUCH_KEY)


def check_delete(conditions: Conditions, current: Current | None) -> None:
    """Judge the conditions of a delete in the step that removes.

    Args:
        conditions: as the client sent them.
        current: what would be removed or hidden. None where there is nothing: a delete says what
            shall not be there, so it is as good as done.

    Raises:
        ClientError: PreconditionFailed with the Condition that failed.
    """
    if current is not None:
        _require(conditions, current)


def _require(conditions: Conditions, current: Current) -> None:
    if_match, if_none_match = conditions.if_match, conditions.if_none_match
    modified_s = current.modified_ns // _NS_PER_S
    held = {
        "If-Match": if_match is None or _matches(if_match, current.etag),
        "If-None-Match": if_none_match is None or not _matches(if_none_match, current.etag),
        _MODIFIED_AT: conditions.if_modified_at in (None, modified_s),
        _SIZE: conditions.if_size_bytes in (None, current.size_bytes),
    }
    for condition, holds in held.items():
        if not holds:
            raise ClientError(S3Code.PRECONDITION_FAILED, details={"Condition": condition})


def unquote_etag(text: str) -> str:
    """An ETag without its quotes and weak mark: what is stored and compared."""
    return text.strip(" \t").removeprefix("W/").strip('"')


def parse_http_date(text: str) -> int | None:
    """POSIX seconds of an HTTP-date in any of its three forms, or None (RFC 9110 section 5.6.7).

    The two-digit years of RFC 850 are read as POSIX strptime does: 69 to 99 are 19xx.
    """
    match = next((found for form in _DATE_FORMS if (found := form.fullmatch(text))), None)
    if match is None:
        return None
    year = int(match["Y"])
    if len(match["Y"]) == 2:
        year += 1900 if year >= 69 else 2000
    try:
        moment = datetime(
            year,
            _MONTHS.index(match["b"]) + 1,
            int(match["d"]),
            int(match["H"]),
            int(match["M"]),
            min(int(match["S"]), 59),  # a leap second counts as the one before it
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return int(moment.timestamp())


def _parse_etags(head: RequestHead, name: str) -> tuple[str, ...] | None:
    values = tuple(head.values(name))
    if not values:
        return None
    found = (quoted or bare for quoted, bare in _ETAG.findall(",".join(values)))
    return tuple(etag for etag in found if etag)


def _parse_date_header(head: RequestHead, name: str) -> int | None:
    value = head.get(name)
    return None if value is None else parse_http_date(value)


def _matches(wanted: tuple[str, ...], etag: str) -> bool:
    return "*" in wanted or etag in wanted
