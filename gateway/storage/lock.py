"""Who has a store open: several gateways, or one alone; the kernel gives the lock back.

A gateway that finds itself alone at its start may bring the catalog up to date and sweep; then it
shares the store. Those that start beside it do neither.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from gateway.errors import InternalError
from gateway.storage.faults import on_disk

_LOOK_AGAIN_S = 0.05


class StoreLock:
    """flock(2) on a file that says who had the store alone last, and since when.

    Attributes:
        since_ns: that time; processes that share the store are all younger.
        alone: nobody else has it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self.since_ns = 0
        self.alone = False

    def acquire(self, now_ns: int, wait_s: float) -> bool:
        """Take it alone where nobody has it (True), else share it. Blocks.

        Args:
            now_ns: POSIX time.
            wait_s: for one that has it alone.

        Raises:
            InternalError: that one still has it; names its process.
        """
        if self.acquire_alone(now_ns):
            return True
        fd, deadline_s = self._open(), time.monotonic() + wait_s
        while not try_lock(fd, fcntl.LOCK_SH):
            if time.monotonic() >= deadline_s:
                raise self._refused(fd)
            time.sleep(_LOOK_AGAIN_S)
        self._fd = fd
        self._read_since()
        return False

    def acquire_alone(self, now_ns: int) -> bool:
        """Whether nobody else had it. Raises InternalError; then `release` is still due."""
        fd = self._open()
        if not try_lock(fd, fcntl.LOCK_EX):
            os.close(fd)
            return False
        self._fd = fd
        self.alone = True
        self.since_ns = now_ns
        with on_disk("writing", self._path):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {now_ns}\n".encode(), 0)
        return True

    def share(self) -> None:
        """Let others in. Another one may be alone before this returns, hence the new `since_ns`."""
        if self._fd is not None:
            self.alone = False
            fcntl.flock(self._fd, fcntl.LOCK_SH)
            self._read_since()

    def release(self) -> None:
        """Idempotent. The file stays: unlinking it would let two processes hold one each."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read_since(self) -> None:
        since = self._words()[1:]
        self.since_ns = int(since[0]) if since and since[0].isdigit() else 0

    def _words(self) -> list[str]:
        """The process that had it alone last, and since when, as far as the file says so."""
        with on_disk("reading", self._path):
            return self._path.read_text(errors="replace").split()

    def _open(self) -> int:
        with on_disk("opening", self._path):
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _refused(self, fd: int) -> InternalError:
        os.close(fd)
        holder = next(iter(self._words()), "unknown")
        return InternalError(
            f"the store {self._path.parent} is in use by process {holder} alone: "
            "stop that one, or choose another store.root"
        )


def try_lock(fd: int, how: int) -> bool:
    """Take flock(2) as LOCK_SH or LOCK_EX, if nobody is in the way."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
