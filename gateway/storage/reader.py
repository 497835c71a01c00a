"""An open object of the store: one file held open, or many that are pinned.

Whatever is read is held against the sums of its blocks first: rotten bytes are an error.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from gateway.errors import InternalError
from gateway.storage import blocks, lookup, rules
from gateway.storage.blocks import RottenError
from gateway.storage.connections import Readers
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.files import DataFiles
from gateway.storage.lookup import Located
from gateway.storage.memory_bytes import MemoryReader
from gateway.storage.pieces import Dropped
from gateway.storage.pins import Pins
from gateway.storage.port import ObjectInfo
from gateway.storage.rows import Piece
from gateway.storage.threads import settle
from gateway.wire.extent import Extent, FileExtent

READ_AHEAD_BYTES = 64 * 1024
"""An object up to this long is read while it is opened: a second trip to a thread costs more."""

Locate = Callable[[], Located]


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens what the catalog locates, for as long as the reader wants.

    Attributes:
        readers: where reads block, and the catalog is asked.
    """

    files: DataFiles
    pins: Pins
    readers: Readers

    def open(self, locate: Locate) -> StoredObject | MemoryReader:
        """In a thread that may block. Raises what `locate` raises, and InternalError.

        Between finding an object and holding its files it can be replaced: then look again.
        """
        located = locate()
        while True:
            _require_whole(located)
            one = len(located.pieces) == 1
            if one and located.pieces[0].data is not None:
                return self._read_row(located, located.pieces[0].data)
            held = self._open_one(located) if one else self._pin_many(located, locate)
            if held is not None:
                return held
            before, located = located, locate()
            if located.content == before.content:
                path = self.files.path(str(before.pieces[0].file))
                raise InternalError(f"{path} is gone, its object is not: restore it from a backup")

    def _read_row(self, located: Located, data: bytes) -> MemoryReader:
        info = located.info
        try:
            return MemoryReader(info, blocks.without_tail(data, info.size_bytes))
        except RottenError as error:
            raise InternalError(
                f"the catalog's bytes of {info.bucket}/{info.key} are damaged ({error}): "
                "restore the object"
            ) from error

    def _open_one(self, located: Located) -> StoredObject | None:
        """None where the file is gone."""
        try:
            fd = self.files.open(str(located.pieces[0].file))
        except FileNotFoundError:
            return None
        held = StoredObject(self, located, fd)
        try:
            held.read_ahead()
        except InternalError:
            held.release()
            raise
        return held

    def _pin_many(self, located: Located, locate: Locate) -> StoredObject | None:
        """None where the object was replaced before the pin could hold (see Pins)."""
        pin = self.pins.pin(str(located.pieces[0].file))
        if pin is None:
            return None
        try:
            holds = locate().content == located.content
        except BaseException:
            os.close(pin)
            raise
        if not holds:
            os.close(pin)
            return None
        return StoredObject(self, located, pin)

    def unpinned(self, content: str, files: tuple[str, ...]) -> None:
        """A pin was let go: remove the files if the object went meanwhile, and nobody else has one.

        A catalog that can't be asked leaves them to the sweep.
        """
        try:
            gone = self.readers.ask_here(lambda db: lookup.content_is_gone(db, content))
        except InternalError:
            return
        if gone:
            self.pins.drop((Dropped(content, files),))


def _require_whole(located: Located) -> None:
    info = located.info
    if not located.pieces:
        raise InternalError(
            f"the catalog knows no bytes of {info.bucket}/{info.key}: see `s3rdma fsck`"
        )
    for piece in located.pieces:
        if piece.damage is not None:
            raise InternalError(
                f"{info.bucket}/{info.key} is out of service since fsck found it damaged "
                f"({piece.damage}): restore it from a backup, or delete it"
            )


class StoredObject:
    """The store's `ObjectReader` of what is in files.

    Args:
        opener: whose files they are.
        located: the object.
        fd: of the first file, and the pin of an object of many; owned from here on.
    """

    def __init__(self, opener: Opener, located: Located, fd: int) -> None:
        self._opener = opener
        self._info = located.info
        self._content = located.content
        self._pieces = located.pieces
        self._ends = tuple(accumulate(piece.part.size_bytes for piece in located.pieces))
        self._fds = {0: fd}
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
            FileExtent(self._lend(index), start, length, self._summed_bytes(index))
            for index, start, length in self._slices(offset_bytes, length_bytes)
        )

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        if self._ahead is None:
            await settle(
                self._opener.readers.executor, lambda: self._verify(offset_bytes, length_bytes)
            )

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        if self._ahead is not None:
            rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
            return self._ahead[offset_bytes : offset_bytes + length_bytes]
        return await settle(
            self._opener.readers.executor, lambda: self._read(offset_bytes, length_bytes)
        )

    async def close(self) -> None:
        if self._ahead is not None:
            self.release()
        else:  # the last descriptor of a large deleted file frees its blocks, which takes a while
            await settle(self._opener.readers.executor, self.release)

    def release(self) -> None:
        """Close and unpin; blocks. Idempotent."""
        held = bool(self._fds)
        while self._fds:
            _, fd = self._fds.popitem()
            os.close(fd)
        if held and len(self._pieces) > 1:
            files = tuple(str(piece.file) for piece in self._pieces)
            self._opener.unpinned(self._content, files)

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

    def _summed_bytes(self, index: int) -> int:
        piece = self._pieces[index]
        return piece.part.size_bytes if piece.summed else 0

    def _verify(self, offset_bytes: int, length_bytes: int) -> None:
        for index, start, length in self._slices(offset_bytes, length_bytes):
            if self._pieces[index].summed:
                for stride in Extent(start, length).split(blocks.STRIDE_BYTES):
                    self._read_piece(index, stride.offset_bytes, stride.length_bytes)

    def _read_piece(self, index: int, start: int, length: int) -> bytes:
        """A file of many is opened for the read only: an object may have 10,000."""
        lent = self._fds.get(index)
        fd = self._open(index) if lent is None else lent
        try:
            return self._read_file(fd, self._pieces[index], start, length)
        finally:
            if lent is None:
                os.close(fd)

    def _read_file(self, fd: int, piece: Piece, start: int, length: int) -> bytes:
        path, size_bytes = self._opener.files.path(str(piece.file)), piece.part.size_bytes
        with on_disk("reading", path):
            if not piece.summed:
                return _pread(fd, start, length)
            first, covered = blocks.covering(start, length, size_bytes)
            tail_at = size_bytes + blocks.tail_bytes(first)
            tail_length = blocks.tail_bytes(covered)
            if covered == size_bytes <= READ_AHEAD_BYTES:  # one call for both
                data = _pread(fd, 0, size_bytes + tail_length)
                data, tail = data[:size_bytes], data[size_bytes:]
            else:
                data, tail = _pread(fd, first, covered), _pread(fd, tail_at, tail_length)
        try:
            blocks.verify(data, tail, first)
        except RottenError as error:
            raise InternalError(f"{path} is damaged ({error}): restore its object") from error
        return data if len(data) == length else data[start - first : start - first + length]

    def _lend(self, index: int) -> int:
        """A descriptor that stays open until close."""
        if index not in self._fds:
            self._fds[index] = self._open(index)
        return self._fds[index]

    def _open(self, index: int) -> int:
        file = str(self._pieces[index].file)
        try:
            return self._opener.files.open(file)
        except FileNotFoundError as error:
            raise disk_fault("opening", self._opener.files.path(file), error) from error


def _pread(fd: int, offset_bytes: int, length_bytes: int) -> bytes:
    """All of it. Raises OSError, also where the file ends earlier."""
    data = os.pread(fd, length_bytes, offset_bytes)
    while len(data) < length_bytes:
        more = os.pread(fd, length_bytes - len(data), offset_bytes + len(data))
        if not more:
            raise OSError("it is shorter than its object: restore it")
        data += more
    return data
