"""Listing as a walk over an ordered index: seek, take, and jump over what a prefix rolls up.

The walk never reads a key that it does not show, except one to learn whether more follow: at a
common prefix it seeks to the first key behind all keys below it. Everything is in bytes, because
S3 orders keys by their UTF-8 bytes; a delimiter found in valid UTF-8 always ends a character.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from gateway.storage.port import ListQuery, ObjectInfo, VersionPage, VersionQuery

Position = tuple[bytes, str]
"""Where a row stands: its key, then what orders rows of one key: a rank, an upload id, or ""."""

Row = TypeVar("Row")
Seek = Callable[[Position], Iterator[tuple[Position, Row]]]
"""All rows at or after a position, in order. The walk takes only as many as it needs."""


@dataclass(slots=True)
class Walk(Generic[Row]):
    """One page: `rows` and common `prefixes`, in order; `last` is None where nothing follows."""

    rows: list[Row] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    last: Position | None = None

    @property
    def next_key(self) -> str | None:
        """The last entry shown, a key or a common prefix, where more follow."""
        return self.last[0].decode() if self.last else None

    @property
    def next_id(self) -> str | None:
        """What follows the key in the last entry's position; "" of a common prefix."""
        return self.last[1] if self.last else None


def page(seek: Seek[Row], query: ListQuery, after_id: str | None = None) -> Walk[Row]:
    """Walk the page that a query asks for; `after_id` makes `query.after` one row of that key."""
    prefix, delimiter = query.prefix.encode(), query.delimiter.encode()
    start = start_after(prefix, delimiter, query.after.encode(), after_id)
    return walk(seek, prefix, delimiter, start, query.limit)


def version_page(seek: Seek[ObjectInfo], query: VersionQuery, marker_rank: str) -> VersionPage:
    """Walk the page of versions that a query asks for.

    Args:
        seek: all versions, positioned by their ranks; `latest` of the infos is not looked at.
        query: the page.
        marker_rank: of the version that the query's markers name, "" where it is gone: then its key
            begins again, so that an entry may be shown twice but none is lost.
    """

    def seek_marked(start: Position) -> Iterator[tuple[Position, ObjectInfo]]:
        key_before = start[0] if start[1] else None  # the walk begins behind its latest
        for position, info in seek(start):
            yield position, replace(info, latest=position[0] != key_before)
            key_before = position[0]

    walked = page(
        seek_marked,
        ListQuery(query.bucket, query.prefix, query.delimiter, query.after_key, query.limit),
        marker_rank if query.after_version else None,
    )
    more, behind_prefix = walked.last is not None, walked.next_id == ""
    return VersionPage(
        versions=tuple(walked.rows),
        prefixes=tuple(walked.prefixes),
        next_key=walked.next_key,
        next_version="" if behind_prefix else walked.rows[-1].version_id if more else None,
    )


def successor(prefix: bytes) -> bytes:
    """The first byte string behind all that begin with `prefix` (not empty; UTF-8 has no 0xff)."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def start_after(
    prefix: bytes, delimiter: bytes, after: bytes, after_id: str | None = None
) -> Position:
    """The first position that may be shown behind the marker (exclusively).

    A marker that is a common prefix has all keys below it past. One that merely equals `prefix` is
    a key of its own: a directory's marker object.

    Args:
        prefix: of the listing.
        delimiter: of the listing.
        after: the marker; b"" begins at the start.
        after_id: the row of that key which the marker means, "" for the place before them all; None
            means behind them all.
    """
    if not after or after < prefix:
        return prefix, ""
    below = after[len(prefix) :] if after.startswith(prefix) else b""
    if delimiter and below.endswith(delimiter):
        return successor(after), ""
    if after_id is None:
        return after + b"\0", ""
    return after, after_id + "\0" if after_id else ""


def walk(
    seek: Seek[Row], prefix: bytes, delimiter: bytes, start: Position, limit: int
) -> Walk[Row]:
    """Collect at most `limit` entries from `start` on that begin with `prefix`."""
    found: Walk[Row] = Walk()
    last: Position | None = None
    while limit > 0:
        for position, row in seek(start):
            key = position[0]
            if not key.startswith(prefix):
                return found
            if len(found.rows) + len(found.prefixes) == limit:
                found.last = last
                return found
            rolled = _common_prefix(key, prefix, delimiter)
            if rolled:
                found.prefixes.append(rolled.decode())
                last, start = (rolled, ""), (successor(rolled), "")
                break
            found.rows.append(row)
            last = position
        else:
            return found
    return found


def _common_prefix(key: bytes, prefix: bytes, delimiter: bytes) -> bytes:
    """What `key` is rolled up into, or b"" where it is shown itself."""
    if not delimiter:
        return b""
    end = key.find(delimiter, len(prefix))
    return key[: end + len(delimiter)] if end >= 0 else b""
