"""Files that have no name until they are whole: O_TMPFILE, and linkat(2) of what it made.

https://man7.org/linux/man-pages/man2/open.2.html
"""

from __future__ import annotations

import os
from contextlib import suppress

from gateway.storage.rules import fresh_id

_WRITABLE = os.O_RDWR | os.O_CLOEXEC


def open_unnamed(directory: int, mode: int) -> int:
    """A new file in a directory, without a name. Raises OSError."""
    return os.open(b".", os.O_TMPFILE | _WRITABLE, mode, dir_fd=directory)


def open_named(directory: int, name: str, mode: int) -> int:
    """The same with a name that is new, for file systems without O_TMPFILE. Raises OSError."""
    return os.open(name, os.O_CREAT | os.O_EXCL | _WRITABLE, mode, dir_fd=directory)


def link_unnamed(fd: int, directory: int, name: str) -> None:
    """Give an unnamed file its name. Raises OSError.

    AT_SYMLINK_FOLLOW with the name that /proc has for the descriptor: AT_EMPTY_PATH wants a
    capability. os.link passes the flag on only when it is given a directory's descriptor.
    """
    os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=directory, follow_symlinks=True)


def can_link_unnamed(directory: int) -> bool:
    """O_TMPFILE needs the file system, linking its file /proc: try both."""
    name = fresh_id(0)
    try:
        fd = open_unnamed(directory, 0o600)
    except OSError:
        return False
    try:
        link_unnamed(fd, directory, name)
    except OSError:
        return False
    finally:
        os.close(fd)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    return True
