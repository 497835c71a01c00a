"""The rows that name data files, or hold small bytes: one for each piece of a content."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from gateway.storage.port import PartInfo
from gateway.storage.rows import encode_checksums, put_row

_LAST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Placed:
    """Bytes in their place, before any row refers to them.

    Attributes:
        name: of the data file, and of the content that a plain object makes of it.
        data: the bytes with their sums, where they go into the row and there is no file.
    """

    name: str
    data: bytes | None = None

    @property
    def file(self) -> str | None:
        """The data file, where there is one."""
        return self.name if self.data is None else None


@dataclass(frozen=True, slots=True)
class Dropped:
    """The files of a content, or of some of its pieces, that no row refers to any more.

    `files` are in the order of the pieces.
    """

    content: str
    files: tuple[str, ...]


class Pieces:
    """The writer's view of the pieces; what it drops is noted in `dropped`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.dropped: list[Dropped] = []

    def insert(self, content: str, placed: Placed, part: PartInfo) -> None:
        """Make what was placed a piece of a content."""
        row = (
            content,
            part.number,
            placed.file,
            part.size_bytes,
            part.etag,
            part.modified_ns,
            encode_checksums(part.checksums),
            True,
            None,
            placed.data,
        )
        put_row(self._db, "pieces", row)

    def drop(self, content: str, number: int | None = None) -> None:
        """Forget the piece of that number, or all pieces of a content."""
        least, most = (0, _LAST_NUMBER) if number is None else (number, number)
        rows = self._db.execute(
            "DELETE FROM pieces WHERE content = ? AND number BETWEEN ? AND ? "
            "RETURNING number, file",
            (content, least, most),
        ).fetchall()
        files = tuple(file for _, file in sorted(rows) if file is not None)
        if files:
            self.dropped.append(Dropped(content, files))
