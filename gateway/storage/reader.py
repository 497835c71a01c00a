"""An open object of the store: one file held open, or many that are pinned."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from itertools import accumulate

from gateway.errors import InternalError
from gateway.storage import rules
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.files import DataFiles
from gateway.storage.lookup import Located
from gateway.storage.pins import Pins
from gateway.storage.port import ObjectInfo
from gateway.storage.rows import Piece
from gateway.storage.threads import settle
from gateway.wire.extent import FileExtent

READ_AHEAD_BYTES = 64 * 1024
"""An object up to this long is read while it is opened: a second trip to a thread costs more."""

Locate = Callable[[], Located]


class Opener:
    """Opens what the catalog locates, for as long as the reader wants.

    Args:
        executor: where reads block.
    """

    def __init__(self, files: DataFiles, pins: Pins, executor: Executor) -> None:
        self._files = files
        self._pins = pins
        self._executor = executor

    def open(self, locate: Locate) -> StoredObject:
        """In a thread that may block. Raises what `locate` raises, and InternalError.

        Between finding an object and holding its files it can be replaced: then look again.
        """
        located = locate()
        while True:
            one = len(located.pieces) == 1
            held = self._open_one(located) if one else self._pin_many(located, locate)
            if held is not None:
                return held
            before, located = located, locate()
            if one and located.content == before.content:
                path = self._files.path(before.pieces[0].file)
                raise InternalError(f"{path} is gone, its object is not: restore it from a backup")

    def _open_one(self, located: Located) -> StoredObject | None:
        """None where the file is gone."""
        piece = located.pieces[0]
        try:
            fd = self._files.open(piece.file)
        except FileNotFoundError:
            return None
        held = StoredObject(located.info, located.pieces, self._files, self._executor, fds={0: fd})
        try:
            held.read_ahead()
        except InternalError:
            held.release()
            raise
        return held

    def _pin_many(self, located: Located, locate: Locate) -> StoredObject | None:
        """None where the object was replaced before the pin could hold (see Pins)."""
        content = located.content
        self._pins.pin(content)
        try:
            holds = locate().content == content
        except BaseException:
            self._pins.unpin(content)
            raise
        if not holds:
            self._pins.unpin(content)
            return None
        return StoredObject(
            located.info,
            located.pieces,
            self._files,
            self._executor,
            fds={},
            unpin=lambda: self._pins.unpin(content),
        )


class StoredObject:
    """The store's `ObjectReader`.

    Args:
        pieces: the object's files, in order.
        fds: open descriptors by index into `pieces`; owned from here on.
        unpin: gives up the pin of an object of many files.
    """

    def __init__(
        self,
        info: ObjectInfo,
        pieces: tuple[Piece, ...],
        files: DataFiles,
        executor: Executor,
        *,
        fds: dict[int, int],
        unpin: Callable[[], None] | None = None,
    ) -> None:
        self._info = info
        self._pieces = pieces
        self._ends = tuple(accumulate(piece.part.size_bytes for piece in pieces))
        self._files = files
        self._executor = executor
        self._fds = fds
        self._unpin = unpin
        self._ahead: bytes | None = None

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def read_ahead(self) -> None:
        """Read a small object whole. Raises InternalError."""
        if self._info.size_bytes <= READ_AHEAD_BYTES:
            self._ahead = self._read(0, self._info.size_bytes)

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        return tuple(
            FileExtent(self._lend(index), start, length)
            for index, start, length in self._slices(offset_bytes, length_bytes)
        )

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        if self._ahead is not None:
            rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
            return self._ahead[offset_bytes : offset_bytes + length_bytes]
        return await settle(self._executor, lambda: self._read(offset_bytes, length_bytes))

    async def close(self) -> None:
        if self._ahead is not None:
            self.release()
        else:  # the last descriptor of a large deleted file frees its blocks, which takes a while
            await settle(self._executor, self.release)

    def release(self) -> None:
        """Close and unpin; blocks. Idempotent."""
        while self._fds:
            _, fd = self._fds.popitem()
            os.close(fd)
        unpin, self._unpin = self._unpin, None
        if unpin is not None:
            unpin()

    def _slices(self, offset_bytes: int, length_bytes: int) -> Iterator[tuple[int, int, int]]:
        """The range cut at the pieces' ends: (index, offset in the piece, length > 0)."""
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        position, end = offset_bytes, offset_bytes + length_bytes
        index = bisect_right(self._ends, position)
        while position < end:
            size_bytes = self._pieces[index].part.size_bytes
            start = position - (self._ends[index] - size_bytes)
            length = min(size_bytes - start, end - position)
            if length:
                yield index, start, length
            position += length
            index += 1

    def _read(self, offset_bytes: int, length_bytes: int) -> bytes:
        slices = self._slices(offset_bytes, length_bytes)
        return b"".join(self._read_piece(*place) for place in slices)

    def _read_piece(self, index: int, start: int, length: int) -> bytes:
        """A file of many is opened for the read only: an object may have 10,000."""
        path = self._files.path(self._pieces[index].file)
        lent = self._fds.get(index)
        fd = self._open(index) if lent is None else lent
        try:
            with on_disk("reading", path):
                data = os.pread(fd, length, start)
                while len(data) < length:
                    more = os.pread(fd, length - len(data), start + len(data))
                    if not more:
                        raise InternalError(f"{path} is shorter than its object: restore it")
                    data += more
                return data
        finally:
            if lent is None:
                os.close(fd)

    def _lend(self, index: int) -> int:
        """A descriptor that stays open until close."""
        if index not in self._fds:
            self._fds[index] = self._open(index)
        return self._fds[index]

    def _open(self, index: int) -> int:
        file = self._pieces[index].file
        try:
            return self._files.open(file)
        except FileNotFoundError as error:
            raise disk_fault("opening", self._files.path(file), error) from error
