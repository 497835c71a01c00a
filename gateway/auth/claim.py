"""What a request says of itself: who signed it, when, and what for. Nothing is believed yet.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from gateway.auth.credentials import TERMINATOR, Scope
from gateway.errors import ClientError, S3Code
from gateway.wire.conditional import parse_http_date
from gateway.wire.request import RequestHead, decode_query

ALGORITHM = "AWS4-HMAC-SHA256"
SIGNATURE_PARAMETER = "X-Amz-Signature"
MAX_EXPIRES_S = 604_800  # a presigned URL lives at most a week
MAX_CACHED_PARTS = 256  # of each kind; a part is at most a header line long

_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_SIGNED_HEADERS = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+(?:;[a-z0-9!#$%&'*+.^_`|~-]+)*")
_TIMESTAMP = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z")
_EXPIRES = re.compile(r"-?[0-9]{1,18}")
_AUTHORIZATION_PARTS = frozenset({"Credential", "SignedHeaders", "Signature"})
_QUERY_PARTS = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-Date",
    "X-Amz-SignedHeaders",
    "X-Amz-Expires",
)
_SIGV2_PARAMETER = "AWSAccessKeyId"

Fault = Callable[[str], ClientError]
"""Makes the error of a part that is malformed, from the reason."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A SigV4 signature with everything it speaks of.

    Attributes:
        signed_headers: lower-case names, in the client's order; "host" is among them.
        signature: 64 hex digits.
        timestamp: ``YYYYMMDDTHHMMSSZ``, as it stands in the string to sign.
        time_s: the same in POSIX seconds.
        expires_s: how long a presigned URL lives, 0..604800; None for a signed header.
        content_sha256: the text that stands for the payload's hash, None where absent.
    """

    access_key: str
    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str = field(repr=False)
    timestamp: str
    time_s: int
    expires_s: int | None
    content_sha256: str | None

    @property
    def presigned(self) -> bool:
        return self.expires_s is not None


def parse_claim(head: RequestHead) -> Claim | None:
    """Read the signature of a request; None where it carries none.

    Raises:
        ClientError: AuthorizationHeaderMalformed or AuthorizationQueryParametersError;
            InvalidArgument: two mechanisms at once, or an unknown one; InvalidRequest: version 2
            of the signature; AccessDenied: an empty Authorization or no usable date.
    """
    authorization = tuple(head.values("authorization"))
    query = _presigned_query(head)
    if authorization and query is not None:
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            "Only one auth mechanism allowed; send either the X-Amz-* query parameters or the "
            "Authorization header.",
            details={"ArgumentName": "Authorization"},
        )
    if query is not None:
        return _parse_query_claim(query)
    if not authorization:
        return None
    if len(authorization) > 1:
        raise _header_fault("it must be sent once")
    return _parse_header_claim(head, authorization[0])


def _parse_header_claim(head: RequestHead, authorization: str) -> Claim:
    parts = _authorization_parts(authorization)
    signature = checked_signature(parts["Signature"], _header_fault)
    timestamp, time_s = _header_time(head)
    access_key, scope = parse_credential(parts["Credential"], _header_fault)
    if scope.date != timestamp[:8]:
        raise _header_fault("the credential's date is not that of x-amz-date")
    return Claim(
        access_key=access_key,
        scope=scope,
        signed_headers=_parse_signed_headers(parts["SignedHeaders"], _header_fault),
        signature=signature,
        timestamp=timestamp,
        time_s=time_s,
        expires_s=None,
        content_sha256=head.get("x-amz-content-sha256"),
    )


def _parse_query_claim(query: Mapping[str, str]) -> Claim:
    if any(name not in query for name in _QUERY_PARTS):
        raise _query_fault(
            f"Query-string authentication version 4 requires {', '.join(_QUERY_PARTS)}"
        )
    if query["X-Amz-Algorithm"] != ALGORITHM:
        raise _query_fault(f"X-Amz-Algorithm only supports {ALGORITHM}")
    signature = checked_signature(query[SIGNATURE_PARAMETER], _query_fault)
    timestamp = query["X-Amz-Date"]
    time_s = parse_timestamp(timestamp)
    if time_s is None:
        raise _query_fault("X-Amz-Date must be in the ISO8601 form yyyyMMdd'T'HHmmss'Z'")
    access_key, scope = parse_credential(query["X-Amz-Credential"], _query_fault)
    if scope.date != timestamp[:8]:
        raise _query_fault("the credential's date is not that of X-Amz-Date")
    return Claim(
        access_key=access_key,
        scope=scope,
        signed_headers=_parse_signed_headers(query["X-Amz-SignedHeaders"], _query_fault),
        signature=signature,
        timestamp=timestamp,
        time_s=time_s,
        expires_s=_parse_expires(query["X-Amz-Expires"]),
        content_sha256=query.get("X-Amz-Content-Sha256"),
    )


def _presigned_query(head: RequestHead) -> Mapping[str, str] | None:
    """The decoded query of a presigned URL, or None where there is no sign of one."""
    if "X-Amz-" not in head.raw_query and _SIGV2_PARAMETER not in head.raw_query:
        return None
    query: dict[str, str] = {}
    repeated = ""
    for name, value in decode_query(head.raw_query):
        if name.startswith("X-Amz-") and name in query:
            repeated = name
        query[name] = value
    if _SIGV2_PARAMETER in query:
        raise _sigv2()
    if not any(
        name in query for name in ("X-Amz-Algorithm", "X-Amz-Credential", SIGNATURE_PARAMETER)
    ):
        return None
    if repeated:
        raise _query_fault(f"{repeated} must be given once")
    return query


def _authorization_parts(authorization: str) -> Mapping[str, str]:
    """The three parts of an Authorization header; with or without blanks behind the commas."""
    scheme, _, rest = authorization.partition(" ")
    if scheme != ALGORITHM:
        raise _unknown_scheme(scheme)
    pieces = [piece.strip(" \t").partition("=") for piece in rest.split(",")]
    parts = {name: value for name, _, value in pieces}
    if len(pieces) != len(_AUTHORIZATION_PARTS) or parts.keys() != _AUTHORIZATION_PARTS:
        raise _header_fault("it must have Credential, SignedHeaders and Signature, each once")
    return parts


def checked_signature(text: str, fault: Fault) -> str:
    """A signature that looks like one."""
    if not _SIGNATURE.fullmatch(text):
        raise fault("the signature must be 64 lower-case hex digits")
    return text


# A client says the same of itself in every request of a day, so the parts are read once.
@lru_cache(MAX_CACHED_PARTS)
def parse_credential(text: str, fault: Fault) -> tuple[str, Scope]:
    """The access key and the scope of ``<access key>/<YYYYMMDD>/<region>/s3/aws4_request``."""
    # From the right: an access key may hold a slash.
    pieces = text.rsplit("/", 4)
    if len(pieces) != 5 or not pieces[0]:
        raise fault("the credential must be <access key>/<YYYYMMDD>/<region>/s3/aws4_request")
    access_key, date, region, service, terminator = pieces
    if terminator != TERMINATOR:
        raise fault(f'the credential must end in "{TERMINATOR}"')
    return access_key, Scope(date, region, service)


@lru_cache(MAX_CACHED_PARTS)
def _parse_signed_headers(text: str, fault: Fault) -> tuple[str, ...]:
    if not _SIGNED_HEADERS.fullmatch(text):
        raise fault("SignedHeaders must be lower-case header names, separated by semicolons")
    names = tuple(text.split(";"))
    if "host" not in names:
        raise fault("SignedHeaders must include host")
    return names


def _header_time(head: RequestHead) -> tuple[str, int]:
    """The timestamp and its POSIX seconds, from x-amz-date, else from Date."""
    value = head.get("x-amz-date")
    if value is None:
        value = head.get("date") or ""
        http_date_s = parse_http_date(value)
        if http_date_s is not None:
            return _format_timestamp(http_date_s), http_date_s
    time_s = parse_timestamp(value)
    if time_s is None:
        raise ClientError(
            S3Code.ACCESS_DENIED, "AWS authentication requires a valid Date or x-amz-date header"
        )
    return value, time_s


@lru_cache(MAX_CACHED_PARTS)
def parse_timestamp(text: str) -> int | None:
    """``YYYYMMDDTHHMMSSZ`` as POSIX seconds, or None."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _format_timestamp(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%dT%H%M%SZ")


def _parse_expires(text: str) -> int:
    if not _EXPIRES.fullmatch(text):
        raise _query_fault("X-Amz-Expires should be a number")
    expires_s = int(text)
    if expires_s < 0:
        raise _query_fault("X-Amz-Expires must be non-negative")
    if expires_s > MAX_EXPIRES_S:
        raise _query_fault(
            f"X-Amz-Expires must be less than a week (in seconds) that is {MAX_EXPIRES_S}"
        )
    return expires_s


def _header_fault(reason: str) -> ClientError:
    return ClientError(
        S3Code.AUTHORIZATION_HEADER_MALFORMED, f"The authorization header is malformed; {reason}."
    )


def _query_fault(reason: str) -> ClientError:
    return ClientError(S3Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR, reason)


def _unknown_scheme(scheme: str) -> ClientError:
    if not scheme:
        return ClientError(S3Code.ACCESS_DENIED)
    if scheme == "AWS":
        return _sigv2()
    return ClientError(
        S3Code.INVALID_ARGUMENT,
        f"Unsupported Authorization Type; please use {ALGORITHM}.",
        details={"ArgumentName": "Authorization"},
    )


def _sigv2() -> ClientError:
    return ClientError(
        S3Code.INVALID_REQUEST,
        f"The authorization mechanism you have provided is not supported. Please use {ALGORITHM}.",
    )
