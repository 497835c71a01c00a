"""What of a commit is done while its file still comes, so that a long one's end is not waited for.

Else all of it is in memory when the last byte has come, and only then are gigabytes read again to
be summed, and written to the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

STRETCH_BYTES = 8 * 1024 * 1024
"""Done at once: long enough for a disk to write in one go, and a small part of a long object."""

Work = Callable[[int, int, int], bytes]
"""(descriptor, offset, length) of a stretch that is written. Blocks; raises OSError."""


class Ahead:
    """Stretch after stretch of one file that is written from its beginning on.

    Args:
        fd: of the file; open until `end` was called.
        executor: where the work is done.
    """

    __slots__ = ("_begun_bytes", "_done", "_executor", "_fd", "_running", "_work")

    def __init__(self, fd: int, executor: Executor, work: Work) -> None:
        self._fd = fd
        self._executor = executor
        self._work = work
        self._begun_bytes = 0
        self._done: list[bytes] = []
        self._running: Future[bytes] | None = None

    def reach(self, end_bytes: int) -> None:
        """The file is written up to here: do what is worth a call, if no other one runs."""
        length_bytes = end_bytes - self._begun_bytes
        length_bytes -= length_bytes % STRETCH_BYTES
        if not length_bytes or not self._harvested():
            return
        self._running = self._executor.submit(self._work, self._fd, self._begun_bytes, length_bytes)
        self._begun_bytes += length_bytes

    def end(self) -> bytes:
        """What the work gave, joined: of the beginning of the file, however much that is.

        Blocks while a call runs, and no other one will. Any thread, an executor's among them.
        """
        if self._running is not None and not self._running.cancel():
            self._running.exception()
            self._harvested()
        return b"".join(self._done)

    def _harvested(self) -> bool:
        """Whether none runs and none has failed: the commit itself will meet what is wrong."""
        if self._running is None:
            return True
        if not self._running.done() or self._running.exception() is not None:
            return False
        self._done.append(self._running.result())
        self._running = None
        return True
