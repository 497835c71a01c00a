"""Whether bytes at rest are what was stored: all of them, against every digest that is known."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.storage import blocks
from gateway.storage.blocks import RottenError
from gateway.storage.files import DataFiles
from gateway.storage.port import PartInfo
from gateway.storage.rows import Piece
from gateway.wire.checksums import Algorithm
from gateway.wire.hashes import Data, Hash, encode, new_hash

_MD5 = re.compile(r"[0-9a-f]{32}")
"""An ETag that is the MD5 of the bytes; a multipart object's ends in the number of its parts."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one piece; `missing`: its file is gone."""

    detail: str
    missing: bool = False


class Running:
    """Digests of all pieces of an object together, for checksums of the full object."""

    def __init__(self, expected: Mapping[Algorithm, str]) -> None:
        self._expected = expected
        self._hashes = {algorithm: new_hash(algorithm) for algorithm in expected}

    def update(self, data: Data) -> None:
        for running in self._hashes.values():
            running.update(data)

    def mismatch(self) -> str | None:
        """The first checksum that is not what it was, in words."""
        for algorithm, running in self._hashes.items():
            if encode(running.digest()) != self._expected[algorithm]:
                return f"the bytes do not have their {algorithm.label}"
        return None


def examine(files: DataFiles, piece: Piece, whole: Running) -> Damage | None:
    """Read a piece to its end. Blocks; raises OSError where the disk itself fails."""
    own = _Digests(piece.part)
    try:
        for data in _strides(files, piece):
            own.update(data)
            whole.update(data)
    except FileNotFoundError:
        return Damage("its file is gone", missing=True)
    except (_LengthError, RottenError) as error:
        return Damage(str(error))
    wrong = own.mismatch()
    return Damage(wrong) if wrong else None


class _LengthError(Exception):
    """A file is not as long as its row says."""


class _Digests:
    """The MD5 that is a piece's ETag, and its checksums."""

    def __init__(self, part: PartInfo) -> None:
        self._etag = part.etag
        self._md5: Hash | None = None
        if _MD5.fullmatch(part.etag):
            self._md5 = hashlib.md5(usedforsecurity=False)
        self._checksums = Running(part.checksums)

    def update(self, data: Data) -> None:
        if self._md5 is not None:
            self._md5.update(data)
        self._checksums.update(data)

    def mismatch(self) -> str | None:
        if self._md5 is not None and self._md5.digest().hex() != self._etag:
            return "the bytes do not have their MD5"
        return self._checksums.mismatch()


def _strides(files: DataFiles, piece: Piece) -> Iterator[Data]:
    """The bytes of a piece, a MiB at a time, each held against its sums where there are some."""
    size_bytes = piece.part.size_bytes
    if piece.data is not None:
        yield blocks.without_tail(piece.data, size_bytes)
        return
    fd = files.open(str(piece.file))
    try:
        expected = size_bytes + (blocks.tail_bytes(size_bytes) if piece.summed else 0)
        found = os.fstat(fd).st_size
        if found < expected or (piece.summed and found != expected):
            raise _LengthError(f"its file has {found} bytes, not {expected}")
        for start in range(0, size_bytes, blocks.STRIDE_BYTES):
            data = os.pread(fd, min(blocks.STRIDE_BYTES, size_bytes - start), start)
            if piece.summed:
                tail_at = size_bytes + blocks.tail_bytes(start)
                blocks.verify(data, os.pread(fd, blocks.tail_bytes(len(data)), tail_at), start)
            yield data
    finally:
        os.close(fd)


def total_bytes(pieces: Sequence[Piece]) -> int:
    """What an object of these pieces holds."""
    return sum(piece.part.size_bytes for piece in pieces)
