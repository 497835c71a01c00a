"""Where committed bytes go: into a data file of their own or, if they are few, into the catalog."""

from __future__ import annotations

from collections.abc import Callable

from gateway.errors import InternalError
from gateway.storage import blocks, rules
from gateway.storage.faults import on_disk
from gateway.storage.files import DataFiles
from gateway.storage.pieces import Placed
from gateway.storage.port import ObjectDraft
from gateway.storage.staged import SealedFile, write_all


class InlineStaged:
    """The store's `Staged` of what was announced to be small: bytes in memory.

    A hint that was too small costs memory, nothing else.

    Args:
        released: called once, when it is taken or discarded.
    """

    def __init__(self, released: Callable[[], None]) -> None:
        self._data: bytearray | None = bytearray()
        self._released = released

    def fileno(self) -> None:
        """None: whoever has few bytes gives them to `write`."""
        self._open()

    def written(self, length_bytes: int) -> None:
        raise InternalError(f"{length_bytes} bytes were written through no descriptor")

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self._open().extend(memoryview(data).cast("B"))

    async def discard(self) -> None:
        if self._data is not None:
            self.take()

    def take(self) -> bytes:
        """All that was written, once."""
        data, self._data = bytes(self._open()), None
        self._released()
        return data

    def _open(self) -> bytearray:
        if self._data is None:
            raise InternalError("a staged place was used after its commit or discard")
        return self._data


class SealedBytes:
    """Bytes in memory that a commit has taken over.

    Args:
        now_ns: for the name.
        inline: whether they go into the catalog; else into a file, and placing blocks.
    """

    def __init__(self, files: DataFiles, data: bytes, now_ns: int, *, inline: bool) -> None:
        self._files = files
        self._data = data
        self._now_ns = now_ns
        self.inline = inline
        self.name = rules.fresh_id(now_ns)

    def place(self, draft: ObjectDraft) -> Placed:
        """Put them where they belong. On failure (InternalError) nothing is left."""
        rules.require_length(len(self._data), draft)
        if self.inline:
            return Placed(self.name, blocks.with_tail(self._data))
        fd, self.name = self._files.create(self._now_ns)
        sealed = SealedFile(self._files, fd, self.name, len(self._data), self.release)
        try:
            with on_disk("writing", self._files.path(self.name)):
                write_all(fd, memoryview(self._data), 0)
        except InternalError:
            sealed.abandon()
            raise
        return place(self._files, sealed, draft)

    def release(self) -> None:
        """Its place among the staged went back when it was sealed."""


Sealed = SealedFile | SealedBytes


def place(files: DataFiles, sealed: Sealed, draft: ObjectDraft) -> Placed:
    """Put what a commit has taken over where it belongs. Blocks, unless it is inline.

    Raises InternalError: then nothing is left.
    """
    if isinstance(sealed, SealedBytes):
        return sealed.place(draft)
    try:
        sealed.make_whole(draft)
        files.publish(sealed.fileno(), sealed.name, sealed.early())
    except InternalError:
        files.remove((sealed.name,))
        raise
    finally:
        sealed.close()
    return Placed(sealed.name)
