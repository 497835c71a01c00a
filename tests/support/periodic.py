"""Gigabytes of random bytes in a few pages: one run of them, mapped again and again.

The period is no multiple of anything that a gateway cuts objects into, so bytes that land at
another place, or twice, differ from what belongs there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

MIB = 1024 * 1024
PERIOD_BYTES = 61 * MIB + 4096
_NONE, _FIXED = 0, 0x10  # PROT_NONE and MAP_FIXED (mmap(2))

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


@contextmanager
def periodic(period: bytes, length_bytes: int) -> Iterator[memoryview]:
    """Memory of that length, in which each period is the same pages.

    Args:
        period: PERIOD_BYTES.
        length_bytes: a multiple of the page size.
    """
    fd = os.memfd_create("period")
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = _libc.mmap(None, length_bytes, _NONE, anonymous, -1, 0)
    try:
        os.write(fd, period)
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        for at in range(0, length_bytes, PERIOD_BYTES):
            length = min(PERIOD_BYTES, length_bytes - at)
            placed = _libc.mmap(start + at, length, rights, mmap.MAP_SHARED | _FIXED, fd, 0)
            assert placed == start + at, os.strerror(ctypes.get_errno())
        yield memoryview((ctypes.c_uint8 * length_bytes).from_address(start)).cast("B")
    finally:
        _libc.munmap(start, length_bytes)
        os.close(fd)


def same(one: memoryview, other: memoryview) -> bool:
    """Whether they are equal: memoryviews themselves compare byte by byte, and slowly."""
    return len(one) == len(other) and _libc.memcmp(_address(one), _address(other), len(one)) == 0


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_uint8.from_buffer(view))
