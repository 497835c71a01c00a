"""What the crash rig has to know of a storage, and how the tree is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.config import Durability, TreeConfig
from gateway.storage.tree.storage import TreeStorage


@dataclass(frozen=True, slots=True)
class Driver:
    """One storage under the rig; a root is the directory that holds all of it.

    Attributes:
        open: a storage on a root, to be started.
        leftovers: what of a root nothing refers to.
        settle: wait until what was on its way to be removed was tried.
        open_files: what of a root this process holds open that it should not, between requests.
    """

    open: Callable[[Path], Any]
    leftovers: Callable[[Path], list[str]]
    settle: Callable[[Any], Awaitable[None]]
    open_files: Callable[[Path], list[str]]


def keeps_attributes(directory: Path) -> bool:
    """Whether files there can have user attributes, as the tree needs: tmpfs since Linux 6.6."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            os.setxattr(file.fileno(), "user.probe", b"")
    except OSError:
        return False
    return True


def _open(root: Path) -> TreeStorage:
    root.mkdir(exist_ok=True)
    return TreeStorage(TreeConfig(root=root, durability=Durability.FULL, io_threads=2), "us-east-1")


def _leftovers(root: Path) -> list[str]:
    """Staged files, parts of no upload, sidecars of no file.

    An upload's sidecar remembers how it ended, and is kept for that.
    """
    meta = root / ".s3rdma"
    uploads = {path.parent.name for path in meta.glob("uploads/*/*/upload")}
    named = {
        value
        for path in root.glob("bucket/**/*")
        for value in (os.getxattr(path, name) for name in os.listxattr(path))
    }
    staged = [*meta.glob("staging/*/*"), *meta.glob("staging/*")]
    parts = [path for path in meta.glob("uploads/*/*") if path.name not in uploads]
    sidecars = [
        path
        for path in meta.glob("sidecars/*/*-put")
        if not any(path.name.encode() in value for value in named)
    ]
    return sorted(str(path.relative_to(root)) for path in (*staged, *parts, *sidecars))


async def _settle(_tree: TreeStorage) -> None:
    """A tree removes before it answers."""


def _open_files(root: Path) -> list[str]:
    """Of objects and uploads: the gateway's own directories stay open."""
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
    own = (str(root), f"{root}/.s3rdma", f"{root}/.s3rdma/locks", f"{root}/.s3rdma/staging")
    kept = [link for link in links if link.startswith(str(root)) and link not in own]
    return [link for link in kept if Path(link).parent != root / ".s3rdma" / "staging"]


TREE = Driver(_open, _leftovers, _settle, _open_files)
