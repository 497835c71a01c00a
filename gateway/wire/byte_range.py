"""The Range header of one range (RFC 9110 section 14.1.2), as S3 reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.errors import ClientError, S3Code
from gateway.wire.extent import Extent

# Twenty digits hold every 64-bit position; a longer number is no position in any object.
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,20})-([0-9]{0,20})[ \t]*", re.IGNORECASE)
_COPY_RANGE = re.compile(r"bytes=([0-9]{1,20})-([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """``first-last``, ``first-`` (last is None) or ``-suffix`` (first is None).

    Attributes:
        first / last: inclusive byte positions; where first is None, last is the suffix's length.
        text: the header's value as sent, for RangeRequested.
    """

    first: int | None
    last: int | None
    text: str

    def resolve(self, size_bytes: int) -> Extent | None:
        """The extent inside an object of that size, or None where not satisfiable."""
        if self.first is None:
            length_bytes = min(self.last or 0, size_bytes)
            return Extent(size_bytes - length_bytes, length_bytes) if length_bytes else None
        if self.first >= size_bytes:
            return None
        end_bytes = size_bytes if self.last is None else min(self.last + 1, size_bytes)
        return Extent(self.first, end_bytes - self.first)


def parse_range(value: str | None) -> RangeSpec | None:
    """Read a Range header; None means the whole object.

    RFC 9110 section 14.2 lets a server ignore a Range it can't parse, and S3 does: another unit,
    several ranges and ``last < first`` all answer 200 with everything.
    """
    match = _RANGE.fullmatch(value) if value is not None else None
    if value is None or match is None:
        return None
    first = int(match[1]) if match[1] else None
    last = int(match[2]) if match[2] else None
    if first is None and last is None:
        return None
    if first is not None and last is not None and last < first:
        return None
    return RangeSpec(first, last, value)


def parse_copy_range(value: str) -> RangeSpec:
    """Read x-amz-copy-source-range: ``bytes=first-last`` and nothing else (UploadPartCopy).

    Raises:
        ClientError: InvalidArgument.
    """
    match = _COPY_RANGE.fullmatch(value)
    if match is None or int(match[2]) < int(match[1]):
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            "x-amz-copy-source-range must be bytes=first-last, zero-based, first <= last.",
            details={"ArgumentName": "x-amz-copy-source-range", "ArgumentValue": value},
        )
    return RangeSpec(int(match[1]), int(match[2]), value)


def content_range(extent: Extent, size_bytes: int) -> str:
    """The Content-Range of a 206 (RFC 9110 section 14.4). `extent` is not empty."""
    return f"bytes {extent.offset_bytes}-{extent.end_bytes - 1}/{size_bytes}"


def unsatisfied_range(size_bytes: int) -> str:
    """The Content-Range of a 416."""
    return f"bytes */{size_bytes}"
