"""The Range header of one range (RFC 9110 section 14.1.2), as S3 reads it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.wire.extent import Extent


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """``first-last``, ``first-`` (last is None) or ``-suffix`` (first is None).

    Attributes:
        first / last: inclusive byte positions.
        text: the header's value as sent, for RangeRequested.
    """

    first: int | None
    last: int | None
    text: str

    def resolve(self, size_bytes: int) -> Extent | None:
        """The extent inside an object of that size, or None where not satisfiable."""
        raise NotImplementedError
