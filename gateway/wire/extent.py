"""Extents: where a run of bytes lies in a file or in an object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileExtent:
    """A run of bytes in an open file; the file stays open as long as its owner says.

    Attributes:
        fd: an open, readable file descriptor.
        offset_bytes: >= 0.
        length_bytes: > 0.
    """

    fd: int
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Extent:
    """A run of bytes in an object: [offset_bytes, offset_bytes + length_bytes)."""

    offset_bytes: int
    length_bytes: int

    @property
    def end_bytes(self) -> int:
        """One past the last byte."""
        return self.offset_bytes + self.length_bytes
