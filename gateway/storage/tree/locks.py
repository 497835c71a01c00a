"""Locks by name that all gateways on one file system keep, on whichever host they run.

One byte of a common file stands for a name: fcntl(2) locks of byte ranges are what NFS, Lustre
(mounted with `flock`), CephFS and GPFS keep between hosts, and the kernel gives them back however
their holder ends. They are "open file description" locks, which threads of one process would share;
so among threads a mutex comes first, which also keeps a hot key's waiters from asking the server.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

from gateway.errors import BusyError

_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.05

# struct flock with 64-bit offsets: l_type, l_whence, l_start, l_len, l_pid (0 for these locks).
_FLOCK = struct.Struct("hhqqi4x")


class _Waiters:
    """Those of one name in this process."""

    __slots__ = ("count", "mutex")

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.count = 0


class Locks:
    """Any thread; a name that a thread holds it must not ask for again.

    Args:
        fd: the common file, open for reading and writing; owned from here on.
        timeout_s: how long a lock is waited for.
    """

    def __init__(self, fd: int, timeout_s: float) -> None:
        self._fd = fd
        self._timeout_s = timeout_s
        self._waiters: dict[int, _Waiters] = {}
        self._table = threading.Lock()

    @contextmanager
    def hold(self, *name: str, wait: bool = True) -> Iterator[None]:
        """Exclude all others of that name while the block runs.

        With `wait` False, the lock is had at once or not at all.

        Raises:
            BusyError: the others took longer than the timeout.
            OSError: the file system keeps no locks.
        """
        timeout_s = self._timeout_s if wait else 0.0
        place, deadline_s = _place(name), time.monotonic() + timeout_s
        waiters = self._join(place)
        try:
            if not waiters.mutex.acquire(timeout=timeout_s):
                raise _busy()
            try:
                self._lock(place, deadline_s)
                try:
                    yield
                finally:
                    self._set(fcntl.F_UNLCK, place)
            finally:
                waiters.mutex.release()
        finally:
            self._leave(place)

    def try_keep(self, *name: str) -> bool:
        """Take a lock for as long as this object lives, unless another process has it."""
        try:
            self._set(fcntl.F_WRLCK, _place(name))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def give_back(self, *name: str) -> None:
        """What `try_keep` took."""
        self._set(fcntl.F_UNLCK, _place(name))

    def close(self) -> None:
        """Give all locks back."""
        os.close(self._fd)

    def _join(self, place: int) -> _Waiters:
        with self._table:
            waiters = self._waiters.setdefault(place, _Waiters())
            waiters.count += 1
        return waiters

    def _leave(self, place: int) -> None:
        with self._table:
            waiters = self._waiters[place]
            waiters.count -= 1
            if not waiters.count:
                del self._waiters[place]

    def _lock(self, place: int, deadline_s: float) -> None:
        """Ask until it is free: a call that waits in the kernel would have no deadline."""
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return self._set(fcntl.F_WRLCK, place)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if time.monotonic() >= deadline_s:
                raise _busy()
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _set(self, kind: int, place: int) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))


def _place(name: tuple[str, ...]) -> int:
    """The byte that stands for a name: 62 bits of its hash, an offset that every server takes."""
    text = "\0".join(name).encode(
        "utf-8", "surrogateescape"
    )  # other programs name directories, too
    digest = blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest) >> 2


def _busy() -> BusyError:
    return BusyError("other writers of this key take longer than tree.lock_timeout_s")
