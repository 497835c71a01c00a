"""Request heads for tests: captured from real clients, signed by botocore, or made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from gateway.auth.credentials import Credentials, CredentialStore
from gateway.wire.request import RequestHead

ACCESS_KEY = "AKIDEXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
REGION = "us-east-1"
STORE = CredentialStore([Credentials(ACCESS_KEY, SECRET_KEY)])

_VECTORS = Path(__file__).parents[1] / "vectors" / "real_clients.jsonl"
_SIGNER = BotoCredentials(ACCESS_KEY, SECRET_KEY)


@dataclass(frozen=True)
class Captured:
    """One request of a real client, and the moment it was sent (POSIX seconds)."""

    client: str
    head: RequestHead
    sent_s: float


@cache
def captured_store() -> CredentialStore:
    """The keys that the captured requests were signed with."""
    first_line = _VECTORS.read_text().splitlines()[0]
    pairs = json.loads(first_line)["credentials"].items()
    return CredentialStore(Credentials(access_key, secret) for access_key, secret in pairs)


@cache
def captured_requests() -> tuple[Captured, ...]:
    """All captured requests."""
    return tuple(_captured(json.loads(line)) for line in _VECTORS.read_text().splitlines()[1:])


def posix_s(timestamp: str) -> float:
    """YYYYMMDDTHHMMSSZ as POSIX seconds."""
    return datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def head(method: str = "GET", target: str = "/", **headers: str) -> RequestHead:
    """A head from a request target and headers; "_" in a header's name stands for "-"."""
    path, _, query = target.partition("?")
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return RequestHead(method, path, query, fields)


def with_header(head: RequestHead, name: str, value: str | None) -> RequestHead:
    """The head with that header replaced (in its place), added, or with None removed."""
    if value is not None and head.get(name) is None:
        return replace(head, headers=(*head.headers, (name, value)))
    changed = ((key, value if key == name else text) for key, text in head.headers)
    return replace(head, headers=tuple((key, text) for key, text in changed if text is not None))


def signed_by_botocore(
    method: str, url: str, headers: Mapping[str, str], *, wire: str | None = None
) -> tuple[RequestHead, float]:
    """A request with botocore's Authorization header, and its time.

    `wire` is the URL that is sent, where it differs in spelling from the one that was signed.
    """
    request = AWSRequest(method=method, url=url, headers=dict(headers))
    S3SigV4Auth(_SIGNER, "s3", REGION).add_auth(request)
    signed = _head_of(request, wire or url)
    return signed, posix_s(signed.get("x-amz-date") or "")


def presigned_by_botocore(
    method: str, url: str, headers: Mapping[str, str], expires_s: int = 3600
) -> tuple[RequestHead, float]:
    """A presigned request and its time."""
    request = AWSRequest(method=method, url=url, headers=dict(headers))
    S3SigV4QueryAuth(_SIGNER, "s3", REGION, expires=expires_s).add_auth(request)
    signed = _head_of(request, request.url)
    date = signed.raw_query.partition("X-Amz-Date=")[2].partition("&")[0]
    return signed, posix_s(date)


def _head_of(request: AWSRequest, url: str) -> RequestHead:
    parts = urlsplit(url)
    # On the wire a header's text is UTF-8; a head shows its bytes as latin-1, without outer blanks.
    fields = [
        (name.lower(), _on_wire(value)) for name, value in request.headers.items() if name != "Host"
    ]
    fields.append(("host", parts.netloc))
    raw = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    path, _, query = raw.partition("?")
    return RequestHead(request.method, path, query, tuple(fields))


def _on_wire(value: str | bytes) -> str:
    raw = value if isinstance(value, bytes) else value.encode()
    return raw.decode("latin-1").strip(" \t")


def _captured(row: Mapping[str, object]) -> Captured:
    path, _, query = str(row["raw_path"]).partition("?")
    lists: Mapping[str, list[str]] = row["headers"]  # type: ignore[assignment]
    fields = tuple((name, value) for name, values in lists.items() for value in values)
    made = RequestHead(str(row["method"]), path, query, fields)
    return Captured(str(row["client"]), made, posix_s(lists["x-amz-date"][0]))
