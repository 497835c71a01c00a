"""Object lock: the bucket's default, retention, legal hold, and what they forbid. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, S3Code
from gateway.s3.documents import exact_time, leaf, stored_document
from gateway.s3.query import invalid_argument
from gateway.storage.port import (
    BucketInfo,
    ObjectAttributes,
    ObjectInfo,
    Permit,
    Retention,
    RetentionMode,
    Versioning,
)
from gateway.wire.request import RequestHead
from gateway.wire.xml import Children, document, element, malformed

SETTING = "object-lock"
ROOT = "ObjectLockConfiguration"
MODE_HEADER = "x-amz-object-lock-mode"
UNTIL_HEADER = "x-amz-object-lock-retain-until-date"
HOLD_HEADER = "x-amz-object-lock-legal-hold"

_MAX_DAYS = 36_500
_MAX_YEARS = 100
_DAYS_PER_YEAR = 365
_NS_PER_DAY = 86_400 * 1_000_000_000
_NS_PER_US = 1_000
_NS_PER_MS = 1_000_000
_LATEST_NS = 2**63 - 1  # what a database's integer holds: April 2262
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class DefaultRetention:
    """What a bucket gives to new objects that ask for nothing. One of days and years is > 0."""

    mode: RetentionMode
    days: int = 0
    years: int = 0

    def from_now(self, now_ns: int) -> Retention:
        """The retention of an object that is made now."""
        days = self.days + self.years * _DAYS_PER_YEAR
        return Retention(self.mode, _whole_ms(now_ns) + days * _NS_PER_DAY)


# The bucket's configuration


def default_retention(bucket: BucketInfo) -> DefaultRetention | None:
    """A bucket's default, or None."""
    return _parsed(bucket.settings.get(SETTING, ""))


@lru_cache(maxsize=256)
def _parsed(text: str) -> DefaultRetention | None:
    root = stored_document(text)
    return None if root is None else _read_lock(root)


def _read_lock(root: Element) -> DefaultRetention | None:
    configuration = Children(root, once=("ObjectLockEnabled", "Rule"))
    if configuration.need_text("ObjectLockEnabled") != "Enabled":
        raise malformed("ObjectLockEnabled must be Enabled.")
    rule = configuration.one("Rule")
    if rule is None:
        return None
    retention = Children(rule, once=("DefaultRetention",)).need("DefaultRetention")
    given = Children(retention, once=("Mode", "Days", "Years"))
    mode = _mode(given.need_text("Mode"))
    days, years = given.text("Days"), given.text("Years")
    if (days is None) == (years is None):
        raise malformed("A DefaultRetention needs Days or Years, not both.")
    if days is not None:
        return DefaultRetention(mode, days=_period(days, _MAX_DAYS))
    return DefaultRetention(mode, years=_period(years or "", _MAX_YEARS))


def _period(text: str, most: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise malformed("A retention period must be a number.")
    if not 1 <= int(text) <= most:
        raise ClientError(S3Code.INVALID_RETENTION_PERIOD)
    return int(text)


def read_object_lock(root: Element) -> Element:
    """The document to store for one that was sent. Raises MalformedXML, InvalidRetentionPeriod."""
    return _lock_document(_read_lock(root))


def _lock_document(default: DefaultRetention | None) -> Element:
    root = document(ROOT, leaf("ObjectLockEnabled", "Enabled"))
    if default is not None:
        period = leaf("Days", default.days) if default.days else leaf("Years", default.years)
        retention = element("DefaultRetention", leaf("Mode", default.mode.value), period)
        root.append(element("Rule", retention))
    return root


def admit_object_lock(bucket: BucketInfo) -> BucketInfo:
    """The bucket with its new configuration, and locking from now on.

    Raises InvalidBucketState: locks hold versions, so there have to be some.
    """
    if bucket.versioning is not Versioning.ENABLED:
        raise ClientError(
            S3Code.INVALID_BUCKET_STATE,
            "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
        )
    return replace(bucket, object_lock=True)


def object_lock_unset(bucket: BucketInfo) -> Element:
    """The answer where no document was stored: locking without a default, or none at all."""
    if bucket.object_lock:
        return _lock_document(None)
    raise ClientError(
        S3Code.OBJECT_LOCK_CONFIGURATION_NOT_FOUND, details={"BucketName": bucket.name}
    )


def need_object_lock(bucket: BucketInfo) -> None:
    """Raises InvalidRequest where the bucket locks nothing."""
    if not bucket.object_lock:
        raise ClientError(S3Code.INVALID_REQUEST, "Bucket is missing Object Lock Configuration")


# The locks of objects


def lock_of_headers(head: RequestHead) -> tuple[Retention | None, bool]:
    """Retention and legal hold that a write's headers ask for. Raises InvalidArgument."""
    mode, until, hold = (head.get(name) for name in (MODE_HEADER, UNTIL_HEADER, HOLD_HEADER))
    if (mode is None) != (until is None):
        raise invalid_argument(
            MODE_HEADER, mode or "", f"{MODE_HEADER} and {UNTIL_HEADER} must both be supplied"
        )
    if hold not in (None, "ON", "OFF"):
        raise invalid_argument(HOLD_HEADER, hold, "Legal Hold must be either of 'ON' or 'OFF'")
    if mode is None or until is None:
        return None, hold == "ON"
    try:
        return Retention(_mode(mode), _moment(until)), hold == "ON"
    except ClientError as error:
        raise invalid_argument(MODE_HEADER, mode, error.message) from error


def locked(attributes: ObjectAttributes, bucket: BucketInfo, now_ns: int) -> ObjectAttributes:
    """A new object's attributes with the lock that it is made under.

    Raises:
        ClientError: InvalidRequest for a lock in a bucket without; InvalidArgument for a
            retention that is over already.
    """
    if attributes.retention is not None or attributes.legal_hold:
        need_object_lock(bucket)
        _need_future(attributes.retention, now_ns)
    if attributes.retention is not None or not bucket.object_lock:
        return attributes
    default = default_retention(bucket)
    return (
        attributes if default is None else replace(attributes, retention=default.from_now(now_ns))
    )


def read_retention(root: Element) -> Retention | None:
    """A Retention document; None for an empty one, which takes a retention away.

    Raises MalformedXML.
    """
    if root.tag != "Retention":
        raise malformed("The document must be a Retention.")
    given = Children(root, once=("Mode", "RetainUntilDate"))
    if not len(root):
        return None
    return Retention(_mode(given.need_text("Mode")), _moment(given.need_text("RetainUntilDate")))


def retention_document(retention: Retention) -> Element:
    """The Retention document."""
    until = leaf("RetainUntilDate", exact_time(retention.until_ns))
    return document("Retention", leaf("Mode", retention.mode.value), until)


def read_legal_hold(root: Element) -> bool:
    """A LegalHold document. Raises MalformedXML."""
    status = Children(root, once=("Status",)).need_text("Status")
    if root.tag != "LegalHold" or status not in ("ON", "OFF"):
        raise malformed("The document must be a LegalHold whose Status is ON or OFF.")
    return status == "ON"


def legal_hold_document(hold: bool) -> Element:
    """The LegalHold document."""
    return document("LegalHold", leaf("Status", "ON" if hold else "OFF"))


def check_retention_change(
    current: Retention | None, wanted: Retention | None, now_ns: int, *, bypass: bool
) -> None:
    """Whether a retention may be replaced.

    Args:
        current: the version's.
        wanted: None to take it away.
        now_ns: POSIX nanoseconds.
        bypass: whether the requester may bypass GOVERNANCE, and asked to.

    Raises:
        ClientError: AccessDenied: it would get shorter or of another mode while it holds;
            InvalidArgument: the new one is over already.
    """
    _need_future(wanted, now_ns)
    if current is None or current.until_ns <= now_ns:
        return
    extends = (
        wanted is not None and wanted.mode is current.mode and wanted.until_ns >= current.until_ns
    )
    if not extends and not (bypass and current.mode is RetentionMode.GOVERNANCE):
        raise ClientError(
            S3Code.ACCESS_DENIED,
            f"A retention in {current.mode.value} mode holds: it may be extended only.",
        )


def removal_permit(now_ns: int, *, bypass: bool) -> Permit:
    """What the storage asks before it removes a version; the arguments as above."""

    def permit(info: ObjectInfo) -> None:
        retention = info.attributes.retention
        holds = retention is not None and retention.until_ns > now_ns
        bypassed = bypass and retention is not None and retention.mode is RetentionMode.GOVERNANCE
        if info.attributes.legal_hold or (holds and not bypassed):
            raise ClientError(
                S3Code.ACCESS_DENIED, "Access Denied because object protected by object lock."
            )

    return permit


def lock_headers(attributes: ObjectAttributes) -> Iterator[tuple[str, str]]:
    """What the reply of GET and HEAD says of an object's locks."""
    if attributes.retention is not None:
        yield MODE_HEADER, attributes.retention.mode.value
        yield UNTIL_HEADER, exact_time(attributes.retention.until_ns)
    if attributes.legal_hold:
        yield HOLD_HEADER, "ON"


def _mode(text: str) -> RetentionMode:
    try:
        return RetentionMode(text)
    except ValueError as error:
        raise malformed("A retention mode must be GOVERNANCE or COMPLIANCE.") from error


def _moment(text: str) -> int:
    """An ISO 8601 time stamp as POSIX nanoseconds, in whole milliseconds as S3 shows it.

    Without an offset it is UTC.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise malformed("A retain until date must be an ISO 8601 time stamp.") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    time_ns = _whole_ms((moment - _EPOCH) // timedelta(microseconds=1) * _NS_PER_US)
    if not 0 <= time_ns <= _LATEST_NS:
        raise malformed("A retain until date must be after 1970 and before 2262.")
    return time_ns


def _whole_ms(time_ns: int) -> int:
    return time_ns // _NS_PER_MS * _NS_PER_MS


def _need_future(retention: Retention | None, now_ns: int) -> None:
    if retention is not None and retention.until_ns <= now_ns:
        raise invalid_argument(
            UNTIL_HEADER,
            exact_time(retention.until_ns),
            "The retain until date must be in the future!",
        )
