"""A store on a directory of its own, to be stopped, broken and started again."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from storing import new_bucket

from gateway.config import Durability, StoreConfig
from gateway.storage.store import Store

NOW_NS = 1_700_000_000_000_000_000


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_ns = NOW_NS

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


MakeStore = Callable[..., Store]


@pytest.fixture
async def make_store(root: Path, clock: Clock) -> AsyncIterator[MakeStore]:
    """Stores on `root`, with a file for each object, stopped at the end; StoreConfig's keywords."""
    made: list[Store] = []
    defaults = {"root": root, "durability": Durability.NONE, "inline_max_bytes": 0}

    def make(**settings: object) -> Store:
        config = StoreConfig(**{**defaults, **settings})
        made.append(Store(config, clock))
        return made[-1]

    yield make
    for store in made:
        await store.stop()


@pytest.fixture
async def store(make_store: MakeStore) -> Store:
    started = make_store()
    await started.start()
    await started.swept()  # it would take what a test leaves behind its back for a leftover
    await started.create_bucket(new_bucket("bucket"))
    return started


@pytest.fixture
def data_files(root: Path) -> Callable[[], list[Path]]:
    """All files that hold or held objects' bytes, published or not."""

    def find() -> list[Path]:
        return sorted((*root.glob("objects/*/*"), *root.glob("staging/*")))

    return find


@pytest.fixture
def open_files(root: Path) -> Callable[[], list[str]]:
    """What this process holds open of objects and staging, named or not."""

    def find() -> list[str]:
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
        places = (f"{root}/objects", f"{root}/staging")
        return [link for link in links if link.startswith(places)]

    return find
