"""Trees on a directory of their own, to be shared with other programs and broken."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from storing import new_bucket

from gateway.config import Durability, TreeConfig
from gateway.storage.tree.storage import TreeStorage

MakeTree = Callable[..., TreeStorage]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    return made


@pytest.fixture
async def make_tree(root: Path) -> AsyncIterator[MakeTree]:
    """Gateways' storages on `root`, stopped at the end. Keywords are TreeConfig's."""
    made: list[TreeStorage] = []

    def make(clock: Callable[[], int] | None = None, **settings: object) -> TreeStorage:
        config = TreeConfig(**{"root": root, "durability": Durability.NONE, **settings})  # type: ignore[arg-type]
        extra = () if clock is None else (clock,)
        made.append(TreeStorage(config, "us-east-1", *extra))
        return made[-1]

    yield make
    for tree in made:
        await tree.stop()


@pytest.fixture
async def tree(make_tree: MakeTree) -> TreeStorage:
    """A started one with the bucket "bucket"."""
    started = make_tree()
    await started.start()
    await started.create_bucket(new_bucket("bucket"))
    return started


@pytest.fixture
def bucket(tree: TreeStorage, root: Path) -> Path:
    """The bucket's directory."""
    return root / "bucket"


@pytest.fixture
def meta(root: Path) -> Path:
    """The gateway's own directory."""
    return root / ".s3rdma"


@pytest.fixture
def leftovers(meta: Path) -> Callable[[], list[str]]:
    """What staging and sidecars hold."""

    def find() -> list[str]:
        found = (*meta.glob("staging/*/*"), *meta.glob("sidecars/*/*"))
        return sorted(str(path.relative_to(meta)) for path in found)

    return find


@pytest.fixture
def open_files(root: Path) -> Callable[[], int]:
    """How many descriptors of this process lead into the tree."""

    def count() -> int:
        links = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists())
        return sum(link.startswith(str(root)) for link in links)

    return count
