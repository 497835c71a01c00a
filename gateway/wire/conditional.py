"""Preconditions: the four conditional headers as one value (RFC 9110 section 13)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conditions:
    """What must hold of the current object. ETags are unquoted; ("*",) means any.

    Attributes:
        if_match / if_none_match: unquoted ETags, or None where the header was absent.
        if_modified_since / if_unmodified_since: POSIX seconds, or None where absent or not a date.
    """

    if_match: tuple[str, ...] | None = None
    if_none_match: tuple[str, ...] | None = None
    if_modified_since: int | None = None
    if_unmodified_since: int | None = None


NO_CONDITIONS = Conditions()
