"""The files at the ends of a transfer: opened for reading, or appearing whole."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def outgoing(path: Path) -> Iterator[tuple[int, int]]:
    """Lend (fd, size in bytes) of a regular file.

    Raises:
        OSError: it can't be opened.
        ValueError: it is something else, whose size is not known beforehand.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a regular file")
        yield fd, status.st_size
    finally:
        os.close(fd)


@contextmanager
def incoming(path: Path, size_bytes: int) -> Iterator[int]:
    """Lend the fd of a new file of that size; it gets its name when the context ends well.

    Until then, and after a failure for ever, what stood at `path` stays. The file lies beside it
    meanwhile, so that the last step is one rename on one file system.

    Raises:
        OSError: it can't be written there.
        ValueError: something other than a regular file has that name.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} exists and is not a regular file")
    hidden = target.with_name(f".s3rdma-{secrets.token_hex(8)}.part")
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.truncate(fd, size_bytes)
        yield fd
        hidden.replace(target)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
