"""What a start removes: files that a crash, or a removal cut short, left without an owner."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from gateway.storage import lookup
from gateway.storage.files import DataFiles

_LOOKUP_BATCH = 500
"""Names per question to the catalog; SQLite binds at least 999 (SQLITE_MAX_VARIABLE_NUMBER)."""


@dataclass(frozen=True, slots=True)
class Swept:
    """How many files were removed: never published, and no longer referred to."""

    staged: int
    unreferenced: int


def sweep(connection: sqlite3.Connection, files: DataFiles) -> Swept:
    """Remove all data files that no piece refers to. Blocks; nothing else may use the store.

    Memory is bounded by the largest of the 256 directories.
    """
    staged = files.clear_staging()
    unreferenced = 0
    for names in files.by_directory():
        for first in range(0, len(names), _LOOKUP_BATCH):
            batch = names[first : first + _LOOKUP_BATCH]
            orphans = set(batch) - lookup.known_files(connection, batch)
            files.remove(orphans)
            unreferenced += len(orphans)
    return Swept(staged, unreferenced)
