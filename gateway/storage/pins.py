"""Which objects of many files are being read, so that the files outlive them: in every process.

A reader of one file keeps it open, which is enough. One of many files opens them as it gets to
them, so it pins the object: it holds its first file open under a shared flock(2). Whoever removes
the files wants that lock for itself first; where somebody reads, it leaves them to the reader, who
looks at the end whether it should be the one to remove them. A process that ends, however it ends,
lets go of its pins; what it left then is for the sweep.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable

from gateway.storage.files import DataFiles
from gateway.storage.lock import try_lock
from gateway.storage.pieces import Dropped


class Pins:
    """Pins objects by their first files, and removes files that are not pinned. Any thread."""

    def __init__(self, files: DataFiles) -> None:
        self._files = files

    def pin(self, first: str) -> int | None:
        """A descriptor of that file, which is the pin until it is closed; None where it is going.

        A pin holds only if the catalog still refers to the file *after* pinning: a removal that was
        decided earlier doesn't see it. Raises InternalError.
        """
        try:
            fd = self._files.open(first)
        except FileNotFoundError:
            return None
        if try_lock(fd, fcntl.LOCK_SH):
            return fd
        os.close(fd)
        return None

    def drop(self, dropped: Iterable[Dropped]) -> None:
        """Remove files that the catalog durably forgot, unless a reader is still to do so."""
        for content in dropped:
            first, *more = content.files
            if not more:
                self._files.remove((first,))
            else:
                self._remove_unless_pinned(content)

    def _remove_unless_pinned(self, content: Dropped) -> None:
        try:
            fd = self._files.open(content.files[0])
        except FileNotFoundError:  # another one is at it
            self._files.remove(content.files)
            return
        try:
            if try_lock(fd, fcntl.LOCK_EX):
                self._files.remove(content.files)
        finally:
            os.close(fd)
