"""Written pages on their way to the disk before anybody waits for them."""

from __future__ import annotations

import ctypes

_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h: begin, and don't wait

_sync_file_range = ctypes.CDLL(None).sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def begin_writeback(fd: int, offset_bytes: int, length_bytes: int) -> None:
    """Begin to write a stretch of a file (sync_file_range(2)). Blocks while a disk's queue is full.

    Nothing is durable by this, and no error is taken from who syncs: the kernel reports it there.
    A file system that can't do it has all of it written by the sync, too.
    """
    _sync_file_range(fd, offset_bytes, length_bytes, _SYNC_FILE_RANGE_WRITE)
