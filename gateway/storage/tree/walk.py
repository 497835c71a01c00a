"""Directories read in the order of keys, as far as a page needs them.

A directory sorts as its name with "/" behind it, for so begin the keys below it: `obj+` comes
before `obj/x`, and that before `obj1`. Of a directory the next BATCH entries are taken by one pass
over all of them, so that memory is bounded by BATCH names for each directory on the way down,
however many there are; the pass itself is what a page of a very large directory costs.
"""

from __future__ import annotations

import heapq
import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from stat import S_ISDIR, S_ISREG

from gateway.errors import ClientError
from gateway.storage.faults import on_disk
from gateway.storage.listing import Position, successor
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import DIRECTORY, closing
from gateway.storage.tree.paths import find_path
from gateway.storage.tree.record import OBJECT_XATTR, read_xattr
from gateway.wire.names import MAX_KEY_BYTES

BATCH = 1024
"""A little more than the largest page."""


@dataclass(slots=True)
class _Batch:
    """Entries of one directory: all from `start` to the last one, in order.

    Attributes:
        whole: none comes after them.
        marked: the directory is an object itself.
    """

    start: bytes
    names: list[bytes]
    whole: bool
    marked: bool

    def covers(self, start: bytes) -> bool:
        """Whether it has what comes next from there on."""
        return self.start <= start and (self.whole or start <= self.names[-1])

    def from_(self, start: bytes) -> list[bytes]:
        """The entries that are, or may hold, something at or behind `start`."""
        place = bisect_left(self.names, start)
        if place and self.names[place - 1] == _around(start):
            place -= 1
        return self.names[place:]


class Walker:
    """One page's walk over a bucket; what was read of directories serves the whole page.

    Args:
        prefix: of the listing; only the directory that it lies in is read.
        shallow: directories are rows themselves, without what is in them: for the delimiter "/".
    """

    def __init__(self, bucket: Bucket, prefix: bytes, *, shallow: bool) -> None:
        self._bucket = bucket
        self._base = prefix[: prefix.rfind(b"/") + 1]
        self._shallow = shallow
        self._batches: dict[bytes, _Batch] = {}

    def seek(self, start: Position) -> Iterator[tuple[Position, bytes]]:
        """Keys at or after a position, for `listing.page`; where shallow, common prefixes, too."""
        if self._base and find_path(self._base.decode(), self._bucket.meta_name) is None:
            return
        for known in [one for one in self._batches if not start[0].startswith(one)]:
            del self._batches[known]  # the walk only goes forward
        for key in self._keys(self._base, start[0], shallow=self._shallow):
            yield (key, ""), key

    def _keys(self, directory: bytes, start: bytes, *, shallow: bool) -> Iterator[bytes]:
        """What is at or below a directory (b"" or ending in "/"), in order, from `start` on."""
        if start > directory and not start.startswith(directory):
            return  # all below it comes before
        batch = self._read(directory, _below(start, directory))
        if batch.marked and directory >= start:
            yield directory
        while True:
            for name in batch.from_(_below(start, directory)):
                key = directory + name
                if not name.endswith(b"/"):
                    yield key
                elif shallow and start <= key:
                    if holds_object(self._bucket, key):
                        yield key
                else:  # where shallow, the marker is in this directory: does a key come behind it?
                    below = self._keys(key, max(start, key), shallow=False)
                    yield from islice(below, 1) if shallow else below
                    self._batches.pop(key, None)
            if batch.whole:
                return
            start = directory + _behind(batch.names[-1])
            batch = self._read(directory, _below(start, directory))

    def _read(self, directory: bytes, start: bytes) -> _Batch:
        """The entries of a directory from `start` on; of one that is gone, none."""
        known = self._batches.get(directory)
        if known is not None and known.covers(start):
            return known
        batch = self._scan(directory, start)
        self._batches[directory] = batch
        return batch

    def _scan(self, directory: bytes, start: bytes) -> _Batch:
        fd = _open(self._bucket, directory)
        if fd is None:
            return _Batch(start, [], whole=True, marked=False)
        around = _around(start)
        with closing(fd), on_disk("listing", self._bucket.path / os.fsdecode(directory)):
            marked = bool(directory) and read_xattr(fd, OBJECT_XATTR) is not None
            names = heapq.nsmallest(
                BATCH,
                (
                    name
                    for name in entries(self._bucket, directory, fd)
                    if name >= start or name == around
                ),
            )
        return _Batch(start, names, whole=len(names) < BATCH, marked=marked)


def entries(bucket: Bucket, directory: bytes, fd: int) -> Iterator[bytes]:
    """What of a directory can be objects or hold them: files, and directories with a "/" behind.

    In no order. Links are left out, or are what they lead to where they are followed; names that
    are no keys are left out, and the gateway's own directory. Raises OSError.
    """
    room = MAX_KEY_BYTES - len(directory)
    with os.scandir(fd) as found:
        for each in found:
            name = os.fsencode(each.name)
            if (
                len(name) > room
                or not _is_text(name)
                or (not directory and name == bucket.meta_name)
            ):
                continue
            if each.is_file(follow_symlinks=False):
                yield name
            elif each.is_dir(follow_symlinks=False):
                yield name + b"/"
            elif bucket.follow and each.is_symlink():
                yield from _led_to(bucket, directory, name)


def _led_to(bucket: Bucket, directory: bytes, name: bytes) -> Iterator[bytes]:
    """A link's name as that of what it leads to, if this is in the bucket and not above it."""
    found = _stat(bucket, directory + name)
    if found is None:
        return
    if S_ISREG(found.st_mode):
        yield name
    elif S_ISDIR(found.st_mode):
        ends = (place for place, byte in enumerate(directory) if byte == ord("/"))
        above = (_stat(bucket, path) for path in (b".", *(directory[:end] for end in ends)))
        if not any(one is not None and os.path.samestat(one, found) for one in above):
            yield name + b"/"


def _stat(bucket: Bucket, path: bytes) -> os.stat_result | None:
    try:
        fd = bucket.open(path, os.O_PATH)
    except ClientError:
        return None
    if fd is None:
        return None
    with closing(fd):
        return os.fstat(fd)


def holds_object(bucket: Bucket, directory: bytes) -> bool:
    """Whether an object is at or below a directory; the first one found ends the search.

    Raises InternalError.
    """
    fd = _open(bucket, directory)
    if fd is None:
        return False
    with closing(fd), on_disk("listing", bucket.path / os.fsdecode(directory)):
        if directory and read_xattr(fd, OBJECT_XATTR) is not None:
            return True
        return any(
            not name.endswith(b"/") or holds_object(bucket, directory + name)
            for name in entries(bucket, directory, fd)
        )


def _open(bucket: Bucket, directory: bytes) -> int | None:
    """None also where the gateway's user may not look in: it lists what it can serve."""
    try:
        return bucket.open(directory.rstrip(b"/") or b".", DIRECTORY)
    except ClientError:
        return None


def _below(start: bytes, directory: bytes) -> bytes:
    """A starting key as a name in a directory; b"" where the whole directory is behind it."""
    return start[len(directory) :] if start.startswith(directory) else b""


def _around(start: bytes) -> bytes:
    """The entry in which a starting name lies, b"" where it is an entry's own."""
    return start[: start.find(b"/") + 1]


def _behind(name: bytes) -> bytes:
    """The first name behind an entry and all below it."""
    return successor(name) if name.endswith(b"/") else name + b"\0"


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
