"""The parts of an upload: files by number, and the object that is assembled of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.errors import InternalError
from gateway.storage.faults import on_disk
from gateway.storage.port import PartInfo
from gateway.storage.tree.beneath import open_beneath
from gateway.storage.tree.directories import closing, names_in
from gateway.storage.tree.record import PART_XATTR, parse_part, read_xattr

_COPY_BYTES = 1024**3  # of one call: copy_file_range(2) takes no more than 2 GiB
_NOT_HERE = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)


def part_name(number: int) -> bytes:
    """Names sort as numbers do."""
    return b"%05d" % number


def read_parts(
    directory: int, path: Path, after_number: int = 0, limit: int = 10_000
) -> list[PartInfo]:
    """An upload's parts after a number, in order. Raises InternalError."""
    with on_disk("reading the parts of", path):
        later = sorted(name for name in names_in(directory) if name > part_name(after_number))
        parts: list[PartInfo] = []
        for name in later:
            if len(parts) == limit or not name.isdigit():
                break
            with closing(open_beneath(directory, name, os.O_RDONLY)) as fd:
                data = read_xattr(fd, PART_XATTR)
            if data is None:
                raise InternalError(f"{path}/{name.decode()} has lost its attribute: abort it")
            parts.append(parse_part(data))
    return parts


def assemble(directory: int, parts: Sequence[PartInfo], target: int, path: Path) -> None:
    """Write the parts one after the other into a new file, without a byte passing through here.

    The file system shares the blocks where it can (XFS, Btrfs; NFS and SMB copy on the server),
    else the kernel copies.

    Raises:
        InternalError: also where a part's file is not as long as the part.
    """
    with on_disk("assembling", path):
        for part in parts:
            with closing(open_beneath(directory, part_name(part.number), os.O_RDONLY)) as fd:
                _append(fd, target, part.size_bytes, path)


def _append(source: int, target: int, length_bytes: int, path: Path) -> None:
    """Copy from the source's start to the target's position. Raises OSError, InternalError."""
    copy: Callable[[int, int, int], int] = os.copy_file_range
    left = length_bytes
    while left:
        try:
            copied = copy(source, target, min(left, _COPY_BYTES))
        except OSError as error:
            if copy is _send or error.errno not in _NOT_HERE:
                raise
            copy = _send
            continue
        if not copied:
            raise InternalError(f"{path}: a part was shortened by another program")
        left -= copied


def _send(source: int, target: int, length_bytes: int) -> int:
    """sendfile(2), which any two files will do for; from the source's position."""
    return os.sendfile(target, source, None, length_bytes)
