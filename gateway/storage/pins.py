"""Which contents are being read, so that their files outlive their objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from threading import Lock

from gateway.storage.pieces import Dropped


class Pins:
    """Counts readers by content and holds back the removal of what they still need. Any thread.

    A reader of one file keeps it open, which is enough. One of many files opens them as it gets to
    them, so it pins the content first. A pin holds only if the catalog still refers to the content
    *after* pinning: a removal that was decided earlier doesn't see it.

    Args:
        remove: unlinks files; called without the lock.
    """

    def __init__(self, remove: Callable[[Iterable[str]], None]) -> None:
        self._remove = remove
        self._lock = Lock()
        self._readers: Counter[str] = Counter()
        self._waiting: dict[str, list[str]] = {}

    def pin(self, content: str) -> None:
        with self._lock:
            self._readers[content] += 1

    def unpin(self, content: str) -> None:
        """The last one removes what was dropped meanwhile."""
        with self._lock:
            self._readers[content] -= 1
            if self._readers[content]:
                return
            del self._readers[content]
            files = self._waiting.pop(content, ())
        self._remove(files)

    def drop(self, dropped: Iterable[Dropped]) -> None:
        """Remove files that the catalog durably forgot, now or after their last reader."""
        free: list[str] = []
        with self._lock:
            for content in dropped:
                if content.content in self._readers:
                    self._waiting.setdefault(content.content, []).extend(content.files)
                else:
                    free.extend(content.files)
        self._remove(free)
