"""Reading the catalog from a small pool of threads, each with its own connection."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gateway.config import Durability
from gateway.storage.faults import in_database
from gateway.storage.schema import connect
from gateway.storage.threads import settle

T = TypeVar("T")


class Readers:
    """Threads that answer questions about the catalog, and read objects.

    WAL lets them read while the writer writes; each statement sees the last commit.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._own = threading.local()
        self._lock = threading.Lock()
        self._all: list[sqlite3.Connection] = []
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="store-read")

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run it in one of the threads."""
        return await settle(self.executor, lambda: self.ask_here(question))

    async def ask_snapshot(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """As `ask`, for several statements that must see the same state."""
        return await settle(self.executor, lambda: self.ask_snapshot_here(question))

    def ask_here(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run it in the calling thread, which may be any that blocks. Raises InternalError."""
        with in_database(self._path):
            return question(self._connection())

    def ask_snapshot_here(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """As `ask_here`, for several statements that must see the same state."""

        def in_transaction(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN")
            try:
                return question(connection)
            finally:
                connection.execute("COMMIT")

        return self.ask_here(in_transaction)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = connect(self._path, Durability.FULL, read_only=True)
            self._own.connection = connection
            with self._lock:
                self._all.append(connection)
        return connection

    def close(self) -> None:
        """End the threads, then close every connection. Blocks."""
        self.executor.shutdown()
        for connection in self._all:
            connection.close()
