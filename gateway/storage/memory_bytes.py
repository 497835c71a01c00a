"""The bytes of the storage in memory: where they are staged, and how they are read.

The descriptors that the C core needs are memfds, made when somebody asks for one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from gateway.errors import InternalError
from gateway.storage import rules
from gateway.storage.port import ObjectDraft, ObjectInfo, Staged
from gateway.wire.extent import FileExtent


class MemoryStaged:
    """Bytes in a bytearray, or in a memfd once somebody asked for its descriptor."""

    def __init__(self, released: Callable[[], None]) -> None:
        self._data = bytearray()
        self._fd: int | None = None
        self._length_bytes = 0
        self._open = True
        self._released = released

    def fileno(self) -> int:
        self._require_open()
        if self._fd is None:
            self._fd = _memfd(bytes(self._data))
        return self._fd

    def written(self, length_bytes: int) -> None:
        self._length_bytes += length_bytes

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self._require_open()
        if self._fd is None:
            self._data += data
        else:
            os.pwrite(self._fd, data, self._length_bytes)
        self._length_bytes += memoryview(data).nbytes

    async def discard(self) -> None:
        if self._open:
            self.take()

    def take(self) -> bytes:
        """All that was written, once; then the place is free again."""
        self._require_open()
        self._open = False
        self._released()
        if self._fd is None:
            return bytes(self._data)
        try:
            return os.pread(self._fd, self._length_bytes, 0)
        finally:
            os.close(self._fd)

    def _require_open(self) -> None:
        if not self._open:
            raise InternalError("a staged place was used after its commit or discard")


class MemoryReader:
    """The object as it was when it was opened."""

    def __init__(self, info: ObjectInfo, data: bytes) -> None:
        self._info = info
        self._data = data
        self._fd: int | None = None

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        rules.require_inside(offset_bytes, length_bytes, len(self._data))
        if not length_bytes:
            return ()
        if self._fd is None:
            self._fd = _memfd(self._data)
        return (FileExtent(self._fd, offset_bytes, length_bytes),)

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        """What is in memory is what was stored."""

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        rules.require_inside(offset_bytes, length_bytes, len(self._data))
        return self._data[offset_bytes : offset_bytes + length_bytes]

    async def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def take(staged: Staged, draft: ObjectDraft) -> bytes:
    """What was staged, if it is as long as the draft says."""
    if not isinstance(staged, MemoryStaged):
        raise TypeError(f"{type(staged).__name__} was not staged by this storage")
    data = staged.take()
    rules.require_length(len(data), draft)
    return data


def _memfd(data: bytes) -> int:
    fd = os.memfd_create("object", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return fd
