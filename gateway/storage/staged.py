"""Bytes on their way into a storage of files: one without a name, and one writer."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Protocol

from gateway.errors import InternalError
from gateway.storage import rules
from gateway.storage.ahead import Ahead
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.port import ObjectDraft
from gateway.storage.threads import settle

PREALLOCATE_MIN_BYTES = 256 * 1024
"""Below it a file is written in one or two calls and preallocating costs more than it saves."""
PREALLOCATE_MAX_BYTES = 64 * 1024**2
"""A client's announcement may not take more of the disk than this before its bytes arrive."""


class StagingFiles(Protocol):
    """Where staged files are kept, and what becomes of them. Any thread."""

    def path(self, name: str) -> Path:
        """For error texts."""

    def early(self, fd: int, offset_bytes: int, length_bytes: int) -> bytes:
        """Do what a commit needs of a stretch that has come. Blocks; raises OSError.

        Returns what `SealedFile.early` joins.
        """

    def remove(self, names: Iterable[str]) -> None:
        """Unlink what has a name."""


class StagedFile:
    """A `Staged` that is a file, until it is either sealed for a commit or discarded.

    Args:
        fd: the staged file's; owned from here on.
        name: what the file will be called.
        executor: where writes block.
        released: called once, when its fate is settled.
    """

    def __init__(
        self,
        files: StagingFiles,
        fd: int,
        name: str,
        executor: Executor,
        released: Callable[[], None],
    ) -> None:
        self._files = files
        self._fd: int | None = fd
        self._name = name
        self._executor = executor
        self._released = released
        self._length_bytes = 0
        self._ahead = Ahead(fd, executor, files.early)

    def preallocate(self, hint_bytes: int) -> None:
        """Reserve the blocks of what is announced: writes are faster, and a full disk shows now.

        Raises InternalError on a full disk.
        """
        if hint_bytes < PREALLOCATE_MIN_BYTES:
            return
        try:
            os.posix_fallocate(self.fileno(), 0, min(hint_bytes, PREALLOCATE_MAX_BYTES))
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # then it is only slower
                raise disk_fault("preallocating", self._files.path(self._name), error) from error

    def fileno(self) -> int:
        if self._fd is None:
            raise InternalError("a staged file was used after its commit or discard")
        return self._fd

    def written(self, length_bytes: int) -> None:
        self._length_bytes += length_bytes
        self._ahead.reach(self._length_bytes)

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        fd, offset_bytes = self.fileno(), self._length_bytes
        view = memoryview(data).cast("B")

        def write() -> None:
            with on_disk("writing", self._files.path(self._name)):
                write_all(fd, view, offset_bytes)

        await settle(self._executor, write)
        self.written(len(view))

    async def discard(self) -> None:
        if self._fd is not None:
            sealed = self.seal()
            await settle(self._executor, sealed.abandon)
            sealed.release()

    def seal(self) -> SealedFile:
        """End the writing: whoever takes the sealed file publishes or abandons it."""
        sealed = SealedFile(
            self._files, self.fileno(), self._name, self._length_bytes, self._released, self._ahead
        )
        self._fd = None
        return sealed


class SealedFile:
    """A staged file that a commit has taken over. Its methods block.

    Args:
        ahead: of what was done already; None for nothing.

    Attributes:
        name: what it is called once it is published.
        release: gives its place among the staged back; called once, when its fate is settled.
    """

    def __init__(
        self,
        files: StagingFiles,
        fd: int,
        name: str,
        length_bytes: int,
        release: Callable[[], None],
        ahead: Ahead | None = None,
    ) -> None:
        self._files = files
        self._fd = fd
        self._length_bytes = length_bytes
        self._ahead = ahead
        self.name = name
        self.release = release

    def fileno(self) -> int:
        """Its descriptor, open until `close` or `abandon`."""
        return self._fd

    def early(self) -> bytes:
        """What `StagingFiles.early` gave, of however much of the file's beginning."""
        return self._ahead.end() if self._ahead is not None else b""

    def make_whole(self, draft: ObjectDraft) -> None:
        """Hold the file to the length that the commit says. Raises InternalError."""
        rules.require_length(self._length_bytes, draft)
        self._trim()

    def abandon(self) -> None:
        """Close it, and unlink it where it has this name."""
        self.close()
        self._files.remove((self.name,))

    def close(self) -> None:
        self.early()  # nothing is in the descriptor any more
        os.close(self._fd)

    def _trim(self) -> None:
        """Give back what was preallocated in excess; refuse a file shorter than was said."""
        path = self._files.path(self.name)
        with on_disk("trimming", path):
            found_bytes = os.fstat(self._fd).st_size
            if found_bytes > self._length_bytes:
                os.ftruncate(self._fd, self._length_bytes)
        if found_bytes < self._length_bytes:
            raise InternalError(f"{path} holds {found_bytes} of {self._length_bytes} bytes")


def write_all(fd: int, view: memoryview, offset_bytes: int) -> None:
    """All of it: on a full disk pwrite(2) comes up short once, then fails. Raises OSError."""
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset_bytes + done)
