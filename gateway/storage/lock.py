"""One process per store: a lock that the kernel gives back however its holder ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gateway.errors import InternalError
from gateway.storage.faults import on_disk


class StoreLock:
    """flock(2) on a file that also names its holder, for the one who is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raises InternalError, naming the process that holds it."""
        with on_disk("opening", self._path):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise InternalError(
                f"the store {self._path.parent} is in use by process {holder}: "
                "stop that one, or choose another store.root"
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Idempotent. The file stays: unlinking it would let two processes hold one each."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
