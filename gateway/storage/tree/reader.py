"""An open object of the tree: one file, held open."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from pathlib import Path

from gateway.errors import InternalError
from gateway.storage import rules
from gateway.storage.faults import on_disk
from gateway.storage.port import ObjectInfo
from gateway.storage.threads import settle
from gateway.wire.extent import FileExtent

READ_AHEAD_BYTES = 64 * 1024
"""An object up to this long is read while it is opened: a second trip to a thread costs more."""


class TreeObject:
    """The tree's `ObjectReader`. A file that another program shortens meanwhile fails its reads.

    Args:
        fd: readable; owned from here on.
        path: for error texts.
        executor: where reads block.
    """

    def __init__(self, info: ObjectInfo, fd: int, path: Path, executor: Executor) -> None:
        self._info = info
        self._fd: int | None = fd
        self._path = path
        self._executor = executor
        self._ahead: bytes | None = None

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def read_ahead(self) -> None:
        """Read a small object whole; blocks. Raises InternalError."""
        if self._info.size_bytes <= READ_AHEAD_BYTES:
            self._ahead = self._read(self._open_fd(), 0, self._info.size_bytes)

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        if not length_bytes:
            return ()
        return (FileExtent(self._open_fd(), offset_bytes, length_bytes),)

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        """Nothing to hold it against: other programs may change the file, and keep no sums."""

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        if self._ahead is not None:
            return self._ahead[offset_bytes : offset_bytes + length_bytes]
        fd = self._open_fd()
        return await settle(self._executor, lambda: self._read(fd, offset_bytes, length_bytes))

    async def close(self) -> None:
        if self._ahead is not None:
            self.release()
        else:  # the last descriptor of a large deleted file frees its blocks, which takes a while
            await settle(self._executor, self.release)

    def release(self) -> None:
        """Close; blocks. Idempotent."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise InternalError("an object was read after it was closed")
        return self._fd

    def _read(self, fd: int, offset_bytes: int, length_bytes: int) -> bytes:
        with on_disk("reading", self._path):
            data = b""  # a directory that is an object has none, and must not be asked
            while len(data) < length_bytes:
                more = os.pread(fd, length_bytes - len(data), offset_bytes + len(data))
                if not more:
                    raise InternalError(f"{self._path} was shortened by another program")
                data += more
        return data
