"""Directories by descriptor: made, opened, synced and removed without a path that could change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gateway.storage.faults import on_disk
from gateway.storage.tree.beneath import open_beneath

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_OWN_MODE = 0o700
_READ_BYTES = 64 * 1024


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close it at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def make_directory(parent: int, name: bytes, made: Callable[[int], None] = lambda _: None) -> int:
    """Open a directory of the gateway's own, making it where it is missing. Raises OSError.

    `made` is called with the parent of one that was missing, to sync it.
    """
    with suppress(FileExistsError):
        os.mkdir(name, _OWN_MODE, dir_fd=parent)
        made(parent)
    return open_beneath(parent, name, DIRECTORY)


def find_directory(parent: int, name: bytes) -> int | None:
    """Open a directory; None where there is none. Raises OSError."""
    try:
        return open_beneath(parent, name, DIRECTORY)
    except FileNotFoundError:
        return None


def names_in(directory: int) -> list[bytes]:
    """All names, in no order. Raises OSError."""
    return [os.fsencode(name) for name in os.listdir(directory)]


def read_small_file(directory: int, name: bytes, path: Path) -> bytes | None:
    """A whole file of the gateway's own; None where it is not there.

    `path` is the directory's, for error texts. Raises InternalError.
    """
    with on_disk("reading a file in", path):
        try:
            fd = open_beneath(directory, name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with closing(fd):
            return b"".join(iter(lambda: os.read(fd, _READ_BYTES), b""))


def remove_file(directory: int, name: bytes) -> None:
    """Unlink it if it is there. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def remove_tree(parent: int, name: bytes) -> None:
    """Remove a directory of the gateway's own with all in it, if it is there. Raises OSError."""
    try:
        fd = open_beneath(parent, name, DIRECTORY)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        remove_file(parent, name)
        return
    with closing(fd):
        for each in names_in(fd):
            remove_tree(fd, each)
    with suppress(FileNotFoundError):  # another gateway sweeps, too
        os.rmdir(name, dir_fd=parent)
