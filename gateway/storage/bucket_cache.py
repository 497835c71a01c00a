"""Buckets as they were last committed, so that asking for one costs no trip to a thread.

Every request asks for its bucket, and a bucket seldom changes. One process owns a store, so what
its own writer commits is all that can make an entry wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import Lock

from gateway.storage.port import BucketInfo

MAX_BUCKETS = 4096  # the oldest is forgotten first, and looked up again when it is needed


class BucketCache:
    """By name. `get` belongs to the event loop, `forget` to any thread."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max_buckets = max_buckets
        self._known: dict[str, BucketInfo] = {}
        self._changes = 0
        self._lock = Lock()

    async def get(self, name: str, look_up: Callable[[], Awaitable[BucketInfo]]) -> BucketInfo:
        """The bucket, from here or else by `look_up`, whose errors pass through."""
        known = self._known.get(name)
        if known is not None:
            return known
        changes = self._changes
        found = await look_up()
        with self._lock:
            if changes == self._changes:  # else what was read may be older than a commit
                if len(self._known) >= self._max_buckets:
                    del self._known[next(iter(self._known))]
                self._known[name] = found
        return found

    def forget(self, name: str) -> None:
        """Call it when a change of the bucket is committed, before anybody is told."""
        with self._lock:
            self._changes += 1
            self._known.pop(name, None)
