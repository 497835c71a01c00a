"""From keys to places in a directory and back. A key is anybody's word: it may say ``../``."""

from __future__ import annotations

import os
from pathlib import Path

from gateway.cli.options import S3Url


class UnsafeNameError(ValueError):
    """No file below the directory can have that name."""


def as_directory(prefix: str) -> str:
    """A key as the prefix of what is below it: ``a`` is ``a/``; the bucket itself stays ``""``."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def joined(url: S3Url, name: str) -> S3Url:
    """The object of that name below a URL, which is taken for a directory."""
    return S3Url(url.bucket, as_directory(url.key) + name)


def last_name(key: str) -> str:
    """What is behind the last slash; "" where the key ends with one."""
    return key.rpartition("/")[2]


def below(root: Path, name: str) -> Path:
    """Where the object of that name, relative to the prefix asked for, goes below `root`.

    Raises:
        UnsafeNameError: it would be outside, by ``..``, by a slash at its beginning, or by a
            symbolic link that is there; or no file can be called so.
    """
    if any(part in {"", ".", ".."} or "\0" in part for part in name.split("/")):
        raise UnsafeNameError(
            f"no file of {root} can be called {name!r}: get it by itself, under another name"
        )
    path = root.joinpath(*name.split("/"))
    top = os.path.realpath(root)
    if os.path.commonpath([top, os.path.realpath(path)]) != top:
        raise UnsafeNameError(f"{path} is outside of {root}, by a symbolic link")
    return path


class Nesting:
    """Keys of a listing that are files where others need directories: ``a`` and ``a/b``.

    Keys come in byte order, so whatever begins with ``a`` follows it before anything else does.
    """

    def __init__(self) -> None:
        self._prefixes: list[str] = []

    def file_above(self, name: str) -> str | None:
        """The object among those before whose file would have to be a directory for this one."""
        while self._prefixes and not name.startswith(self._prefixes[-1]):
            self._prefixes.pop()
        above = next((one for one in self._prefixes if name.startswith(f"{one}/")), None)
        self._prefixes.append(name)
        return above
