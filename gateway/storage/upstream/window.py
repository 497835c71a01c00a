"""Bytes on their way through: a file in memory, filled at its end and emptied behind.

Offsets in the file are offsets in the object, so that whoever has the descriptor writes where the
bytes belong. What was passed on is punched out (madvise(2), MADV_REMOVE): the file is as long as
the object, and holds only what is under way.
"""

from __future__ import annotations

import hashlib
import mmap
import os

from gateway.storage.upstream.outgoing import PIECE_BYTES
from gateway.wire.extent import Extent

_PAGE_BYTES = mmap.PAGESIZE


class Window:
    """One memfd. `close` may be called twice."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("upstream", os.MFD_CLOEXEC)
        self._freed_bytes = 0
        self._open = True

    def put(self, data: memoryview, offset_bytes: int) -> None:
        """Write all of `data` at an offset."""
        while data:
            written = os.pwrite(self.fd, data, offset_bytes)
            data, offset_bytes = data[written:], offset_bytes + written

    def free_up_to(self, end_bytes: int) -> None:
        """Give back the memory of everything before `end_bytes`, to the last whole page."""
        end_bytes -= end_bytes % _PAGE_BYTES
        if self._open and end_bytes > self._freed_bytes:
            self.free(Extent(self._freed_bytes, end_bytes - self._freed_bytes))
            self._freed_bytes = end_bytes

    def free(self, extent: Extent) -> None:
        """Give back the memory of an extent that begins on a page."""
        if not self._open or not extent.length_bytes:
            return
        with mmap.mmap(self.fd, extent.length_bytes, offset=extent.offset_bytes) as pages:
            pages.madvise(mmap.MADV_REMOVE)

    def md5(self, extent: Extent) -> bytes:
        """16 bytes; takes time, call it in a thread."""
        running = hashlib.md5(usedforsecurity=False)
        for piece in extent.split(PIECE_BYTES):
            running.update(os.pread(self.fd, piece.length_bytes, piece.offset_bytes))
        return running.digest()

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self.fd)
