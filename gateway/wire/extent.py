"""Extents: where a run of bytes lies in a file or in an object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileExtent:
    """A run of bytes in an open file; the file stays open as long as its owner says.

    Attributes:
        fd: an open, readable file descriptor.
        offset_bytes: >= 0.
        length_bytes: > 0.
        summed_bytes: of the file's bytes, behind which their sums stand (storage/blocks.py); 0
            where none do. Whoever moves the extent holds it against them on the way.
    """

    fd: int
    offset_bytes: int
    length_bytes: int
    summed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Extent:
    """A run of bytes in an object: [offset_bytes, offset_bytes + length_bytes)."""

    offset_bytes: int
    length_bytes: int

    @property
    def end_bytes(self) -> int:
        """One past the last byte."""
        return self.offset_bytes + self.length_bytes

    def split(self, longest_bytes: int) -> Iterator[Extent]:
        """Cut it into contiguous pieces, in order; only the last may be shorter.

        Args:
            longest_bytes: > 0.
        """
        for offset_bytes in range(self.offset_bytes, self.end_bytes, longest_bytes):
            yield Extent(offset_bytes, min(longest_bytes, self.end_bytes - offset_bytes))
