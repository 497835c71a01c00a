"""What fsck may change in a store that it has alone. Each change is a transaction of its own."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from gateway.storage import blocks
from gateway.storage.faults import on_disk
from gateway.storage.files import DataFiles, sync_directory
from gateway.storage.pieces import Pieces
from gateway.storage.rows import Piece
from gateway.storage.staged import write_all

_PIECE = "content = ? AND number = ?"


class Repair:
    """Repairs; none of them removes bytes that a row names.

    Args:
        db: a connection that may write, with no transaction open.
    """

    def __init__(self, db: sqlite3.Connection, files: DataFiles, root: Path) -> None:
        self._db = db
        self._files = files
        self._lost = root / "lost+found"

    def reindex(self) -> None:
        """Make all indexes anew from their tables."""
        self._db.execute("REINDEX")

    def quarantine(self, content: str, number: int, detail: str) -> None:
        """Let every read of the content say what is wrong."""
        self._db.execute(f"UPDATE pieces SET damage = ? WHERE {_PIECE}", (detail, content, number))  # noqa: S608 - a condition of this file

    def release(self, content: str, number: int) -> None:
        """Back into service."""
        self._db.execute(f"UPDATE pieces SET damage = NULL WHERE {_PIECE}", (content, number))  # noqa: S608 - as above

    def add_sums(self, content: str, piece: Piece) -> None:
        """Put sums behind bytes that were found sound. A crash leaves them behind, unused."""
        size_bytes = piece.part.size_bytes
        path = self._files.path(str(piece.file))
        with on_disk("summing", path):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.ftruncate(fd, size_bytes)
                write_all(fd, memoryview(blocks.file_sums(fd, size_bytes)), size_bytes)
                os.fdatasync(fd)
            finally:
                os.close(fd)
        self._db.execute(
            f"UPDATE pieces SET summed = 1 WHERE {_PIECE}",  # noqa: S608 - as above
            (content, piece.part.number),
        )

    def end_upload(self, bucket: str, key: bytes, upload_id: str) -> None:
        """Forget an upload; its parts are set aside."""
        self._db.execute(
            "DELETE FROM uploads WHERE bucket = ? AND key = ? AND upload_id = ?",
            (bucket, key, upload_id),
        )
        self.set_aside(upload_id)

    def set_aside(self, content: str) -> None:
        """Forget pieces that belong to nothing; their files go to lost+found."""
        pieces = Pieces(self._db)
        pieces.drop(content)
        for dropped in pieces.dropped:
            for file in dropped.files:
                self.to_lost_and_found(file)

    def to_lost_and_found(self, name: str) -> None:
        """Move a file that no row names. Raises InternalError."""
        with on_disk("moving to lost+found", self._files.path(name)):
            self._lost.mkdir(mode=0o700, exist_ok=True)
            if self._files.path(name).exists():
                self._files.path(name).rename(self._lost / name)
                sync_directory(self._lost)
