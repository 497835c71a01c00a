"""Buckets as they were last committed, so that asking for one costs no trip to a thread.

Every request asks for its bucket, and a bucket seldom changes. What tells of a change, in this
process or in another one on the same store, is a number in a file that all of them map.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.storage.faults import on_disk
from gateway.storage.port import BucketInfo

MAX_BUCKETS = 4096  # the oldest is forgotten first, and looked up again when it is needed

_NUMBER = struct.Struct("=Q")


class Generation:
    """A number that is another one after each change of a bucket, and odd while one is under way.

    Changes begin inside the catalog's write transaction and end behind it, so that whatever is
    looked up while the number is even and the same is what was committed. It is drawn, not counted:
    two processes that end at once can't make the same of it. One that dies half-way leaves it odd,
    which costs look-ups until the next change, and never shows an old bucket.
    """

    def __init__(self, path: Path) -> None:
        """Raises InternalError."""
        with on_disk("mapping", path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(fd, _NUMBER.size)
                self._shared = mmap.mmap(fd, _NUMBER.size)
            finally:
                os.close(fd)

    def settled(self) -> int | None:
        """The number, None while a change is under way."""
        (number,) = _NUMBER.unpack_from(self._shared)
        return None if number % 2 else number

    def begin(self) -> None:
        """A change is about to be committed. Any thread."""
        _NUMBER.pack_into(self._shared, 0, secrets.randbits(63) * 2 + 1)

    def end(self) -> None:
        """It was, or will not be. Any thread."""
        _NUMBER.pack_into(self._shared, 0, secrets.randbits(63) * 2)

    def close(self) -> None:
        self._shared.close()


class BucketCache:
    """By name; of one generation. Belongs to the event loop.

    Args:
        settled: the present generation, None while a bucket is being changed.
    """

    def __init__(self, settled: Callable[[], int | None], max_buckets: int = MAX_BUCKETS) -> None:
        self._settled = settled
        self._max_buckets = max_buckets
        self._generation: int | None = None
        self._known: dict[str, BucketInfo] = {}

    async def get(self, name: str, look_up: Callable[[], Awaitable[BucketInfo]]) -> BucketInfo:
        """The bucket, from here or else by `look_up`, whose errors pass through."""
        generation = self._settled()
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        known = self._known.get(name)
        if known is not None:
            return known
        found = await look_up()
        # Else what was read may be older than a commit.
        if generation is not None and generation == self._generation == self._settled():
            if len(self._known) >= self._max_buckets:
                del self._known[next(iter(self._known))]
            self._known[name] = found
        return found
