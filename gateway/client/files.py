"""The files at the ends of a transfer: opened for reading, or appearing whole."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path

from gateway.client.models import ObjectHead
from gateway.rdma.aio import to_the_end


@contextmanager
def outgoing(path: Path) -> Iterator[tuple[int, int]]:
    """Lend (fd, size in bytes) of a regular file.

    Raises:
        OSError: it can't be opened.
        ValueError: it is something else, whose size is not known beforehand.
    """
    # Without O_NONBLOCK opening a FIFO would wait for its writer; a regular file doesn't care.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a regular file")
        yield fd, status.st_size
    finally:
        os.close(fd)


@asynccontextmanager
async def incoming(path: Path, head: ObjectHead) -> AsyncIterator[int]:
    """Lend the fd of a new file of the object's size; it gets its name when the context ends well.

    Until then, and after a failure for ever, what stood at `path` stays. The file lies beside it
    meanwhile, so that the last step is one rename on one file system.

    Raises:
        OSError: it can't be written there.
        ValueError: something other than a regular file has that name.
    """
    target = regular_target(path)
    hidden = target.with_name(f".s3rdma-{secrets.token_hex(8)}.part")
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.truncate(fd, head.size_bytes)
        yield fd
        await name_it(fd, hidden, target, head)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def regular_target(path: Path) -> Path:
    """Where a file of that name is, behind symbolic links. Raises ValueError."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} exists and is not a regular file")
    return target


async def name_it(fd: int, hidden: Path, target: Path, head: ObjectHead) -> None:
    """Give a whole file its name. It is as old as its object, as aws-cli and rclone have it.

    Its bytes are on the disk before the name points at them, so that after a crash there is the old
    file or the new one, and never one of zeros.
    """
    modified_s = _seconds(head.last_modified)
    if modified_s is not None:
        os.utime(fd, (modified_s, modified_s))
    await to_the_end(asyncio.to_thread(os.fsync, fd))
    os.replace(hidden, target)


def _seconds(http_date: str) -> float | None:
    """``Last-Modified`` as seconds since 1970; None where it is no date."""
    try:
        return parsedate_to_datetime(http_date).timestamp()
    except ValueError:
        return None
