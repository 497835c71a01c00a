"""The head of a request as it stood on the wire, before anything was decoded.

SigV4 needs the raw path and query: what a library normalised can no longer be verified. Decoding
is a second step, done once, by the functions below; it refuses what has no single meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from gateway.errors import ClientError, S3Code

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """One request's start line and header fields.

    Attributes:
        method: upper case, as sent.
        raw_path: percent-encoded path, begins with "/", never normalised ("//b/x" stays so).
        raw_query: what followed the first "?", without it; "" where there was none.
        headers: (lower-case name, value as received without surrounding white space), in order,
            repeated names kept apart. Values are latin-1 decoded text (RFC 9110 section 5.5);
            user metadata keeps its runs of inner spaces.
        remote_ip: peer address as text, for policy and logs; "" when unknown.
        secure: whether the request came over TLS.
    """

    method: str
    raw_path: str
    raw_query: str
    headers: tuple[tuple[str, str], ...]
    remote_ip: str = ""
    secure: bool = False
    _first: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """One request asks for some twenty headers, most of which it does not have."""
        object.__setattr__(self, "_first", dict(reversed(self.headers)))

    def values(self, name: str) -> Iterator[str]:
        """All values of a header, in order. `name` is lower case."""
        return (value for key, value in self.headers if key == name)

    def get(self, name: str) -> str | None:
        """The first value of a header, or None. `name` is lower case."""
        return self._first.get(name)


def parse_query(raw_query: str) -> tuple[tuple[str, str], ...]:
    """Cut a query into (name, value) pairs, in order, still encoded.

    A parameter without "=" has the value "" (``?versioning``, which S3 signs as ``versioning=``);
    empty pieces (``a&&b``) are dropped.
    """
    pieces = (piece.partition("=") for piece in raw_query.split("&") if piece)
    return tuple((name, value) for name, _, value in pieces)


def decode_bytes(raw: str) -> bytes:
    """Percent-decode once (RFC 3986 section 2.1).

    Characters above ASCII stand for the UTF-8 bytes that came unescaped.

    Raises:
        ClientError: InvalidURI where a "%" is not followed by two hex digits.
    """
    if _BROKEN_ESCAPE.search(raw):
        raise ClientError(
            S3Code.INVALID_URI,
            'A "%" in the URI must be followed by two hex digits; send it as "%25".',
        )
    try:
        return unquote_to_bytes(raw.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise ClientError(S3Code.INVALID_URI, "The URI is not valid UTF-8.") from error


def decode_path(raw: str) -> str:
    """Percent-decode a path, or a part of one, to text; "+" stays "+".

    Raises:
        ClientError: InvalidURI where an escape is broken or the bytes are not UTF-8.
    """
    try:
        return decode_bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClientError(
            S3Code.INVALID_URI,
            "The URI does not decode to valid UTF-8; percent-encode UTF-8 bytes.",
        ) from error


def decode_query(raw_query: str) -> tuple[tuple[str, str], ...]:
    """All (name, value) pairs of a query, decoded, in order; here "+" is a space, as for S3.

    Raises:
        ClientError: InvalidURI, as `decode_path`.
    """
    return tuple(
        (decode_path(name.replace("+", " ")), decode_path(value.replace("+", " ")))
        for name, value in parse_query(raw_query)
    )
