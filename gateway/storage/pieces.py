"""The rows that name data files: one for each piece of a content."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from gateway.storage.port import PartInfo
from gateway.storage.rows import encode_checksums, put_row

_LAST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Dropped:
    """A content, or some of its pieces, that no row refers to any more."""

    content: str
    files: tuple[str, ...]


class Pieces:
    """The writer's view of the pieces; what it drops is noted in `dropped`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.dropped: list[Dropped] = []

    def insert(self, content: str, file: str, part: PartInfo) -> None:
        """Make a data file a piece of a content."""
        row = (
            content,
            part.number,
            file,
            part.size_bytes,
            part.etag,
            part.modified_ns,
            encode_checksums(part.checksums),
        )
        put_row(self._db, "pieces", row)

    def drop(self, content: str, number: int | None = None) -> None:
        """Forget the piece of that number, or all pieces of a content."""
        least, most = (0, _LAST_NUMBER) if number is None else (number, number)
        files = self._db.execute(
            "DELETE FROM pieces WHERE content = ? AND number BETWEEN ? AND ? RETURNING file",
            (content, least, most),
        ).fetchall()
        if files:
            self.dropped.append(Dropped(content, tuple(file for (file,) in files)))
