"""The head of a request as it stood on the wire, before anything was decoded.

SigV4 needs the raw path and query: what a library normalised can no longer be verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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

    def values(self, name: str) -> Iterator[str]:
        """All values of a header, in order. `name` is lower case."""
        return (value for key, value in self.headers if key == name)

    def get(self, name: str) -> str | None:
        """The first value of a header, or None. `name` is lower case."""
        return next(self.values(name), None)
