"""What a start removes: files that a crash, or a removal cut short, left without an owner.

The sweep goes on while the store is in use already: a start must not take longer because there are
many objects. It judges the past only: by the catalog as it was when this process had the store
alone, and by names that were given before. Whatever is made or dropped since is not its business.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage import lookup
from gateway.storage.faults import in_database
from gateway.storage.files import DataFiles
from gateway.storage.schema import connect

_LOOKUP_BATCH = 500
"""Names per question to the catalog; SQLite binds at least 999 (SQLITE_MAX_VARIABLE_NUMBER)."""

_log = logging.getLogger(__name__)


class Sweep:
    """A sweep under way in a thread of its own.

    Args:
        path: of the catalog.
        before_ns: files with names of this time or later belong to processes that are alive.

    Raises:
        InternalError: the catalog can't be read.
    """

    def __init__(self, path: Path, files: DataFiles, before_ns: int) -> None:
        self._path = path
        self._files = files
        self._before = f"{before_ns:016x}"
        self._stopped = Event()
        with in_database(path):
            self._past = connect(path, Durability.FULL, read_only=True)
            self._past.execute("BEGIN")
            self._past.execute("SELECT 1 FROM pieces LIMIT 1").fetchone()  # of now, from here on
        self._thread = Thread(target=self._run, name="store-sweep", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until all is swept. Blocks."""
        self._thread.join()

    def stop(self) -> None:
        """Leave the rest to the next start. Blocks until the thread has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        removed = 0
        try:
            with closing(self._past), in_database(self._path):
                for names in orphans(self._past, self._files):
                    if self._stopped.is_set():
                        break
                    leftovers = [name for name in names if name < self._before]
                    self._files.remove(leftovers)
                    removed += len(leftovers)
        except InternalError as error:
            _log.warning("the sweep ended early: %s", error.cause)
        if removed:
            _log.info("removed %d files that no object needs", removed)


def orphans(connection: sqlite3.Connection, files: DataFiles) -> Iterator[set[str]]:
    """The published files that no piece refers to: those among the next few, again and again.

    Memory is bounded by the largest of the 256 directories.
    """
    for names in files.by_directory():
        for first in range(0, len(names), _LOOKUP_BATCH):
            batch = names[first : first + _LOOKUP_BATCH]
            yield set(batch) - lookup.known_files(connection, batch)
