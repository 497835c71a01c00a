"""The sums that stand behind stored bytes, so that rotten ones are found whichever range is read.

A data file is the bytes, then one CRC-64/NVME (8 bytes, big-endian) for each block of 64 KiB of
them, the last of which may be shorter. Bytes kept in the catalog have the same tail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from gateway.wire.hashes import Data, crc64nvme

BLOCK_BYTES = 64 * 1024
SUM_BYTES = 8
STRIDE_BYTES = 16 * BLOCK_BYTES
"""How much of a long file is in memory at once."""


class RottenError(Exception):
    """A block does not have its sum. `offset_bytes` is where it begins."""

    def __init__(self, offset_bytes: int) -> None:
        super().__init__(f"the block at {offset_bytes} does not have its checksum")
        self.offset_bytes = offset_bytes


def tail_bytes(size_bytes: int) -> int:
    """How long the sums of so many bytes are."""
    return -(-size_bytes // BLOCK_BYTES) * SUM_BYTES


def covering(offset_bytes: int, length_bytes: int, size_bytes: int) -> tuple[int, int]:
    """The whole blocks that a range touches, as (offset, length) inside `size_bytes`."""
    start = offset_bytes - offset_bytes % BLOCK_BYTES
    end = offset_bytes + length_bytes
    return start, min(end + -end % BLOCK_BYTES, size_bytes) - start


def sums(data: Data) -> bytes:
    """Of bytes that begin with a block."""
    return b"".join(crc64nvme(block).to_bytes(SUM_BYTES, "big") for block in _blocks(data))


def verify(data: Data, tail: bytes, offset_bytes: int = 0) -> None:
    """Hold blocks against their sums. Raises RottenError.

    Args:
        data: whole blocks.
        tail: their sums.
        offset_bytes: where the first one begins, for the message.
    """
    found = sums(data)
    if found == tail:
        return
    for place in range(0, max(len(found), len(tail)), SUM_BYTES):
        if found[place : place + SUM_BYTES] != tail[place : place + SUM_BYTES]:
            raise RottenError(offset_bytes + place // SUM_BYTES * BLOCK_BYTES)


def with_tail(data: bytes) -> bytes:
    """The bytes and their sums, as `without_tail` takes them."""
    return data + sums(data)


def without_tail(stored: bytes, size_bytes: int) -> bytes:
    """The bytes, held against the sums behind them. Raises RottenError."""
    data = stored[:size_bytes]
    verify(data, stored[size_bytes:])
    return data


def summed_by(tail: bytes) -> int:
    """How many bytes these sums of whole blocks are of."""
    return len(tail) // SUM_BYTES * BLOCK_BYTES


def file_sums(fd: int, end_bytes: int, start_bytes: int = 0) -> bytes:
    """Of a stretch of a file, which is not shorter, from a block's beginning on.

    Blocks; raises OSError.
    """
    stride = bytearray(min(end_bytes - start_bytes, STRIDE_BYTES))
    found = []
    for start in range(start_bytes, end_bytes, STRIDE_BYTES):
        with memoryview(stride)[: min(STRIDE_BYTES, end_bytes - start)] as view:
            _fill(fd, view, start)
            found.append(sums(view))
    return b"".join(found)


def _blocks(data: Data) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), BLOCK_BYTES):
        yield view[start : start + BLOCK_BYTES]


def _fill(fd: int, view: memoryview, offset_bytes: int) -> None:
    done = 0
    while done < len(view):
        count = os.preadv(fd, (view[done:],), offset_bytes + done)
        if not count:
            raise OSError(f"the file ends at {offset_bytes + done}")
        done += count
