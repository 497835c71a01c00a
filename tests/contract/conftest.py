"""The storages that keep gateway.storage.port, each fresh and with a clock that ticks per look."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from storing import MAX_STAGED, new_bucket

from gateway.config import Durability, StoreConfig, TreeConfig
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import Storage
from gateway.storage.store import Store
from gateway.storage.tree.storage import TreeStorage

UPSTREAMS = ("rgw", "moto")
"""Servers behind the upstream storage; fixtures of these names run them."""


@pytest.fixture
def ticks() -> Iterator[int]:
    """POSIX nanoseconds that never repeat."""
    return count(1_700_000_000_000_000_000, 1_000_000)


@pytest.fixture(params=["store", "memory", "tree", *UPSTREAMS])
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, ticks: Iterator[int]
) -> AsyncIterator[Storage]:
    if request.param in UPSTREAMS:
        # Here: the fabric's contract, which an emulated machine runs, needs no aiobotocore.
        from upstream_contract import limit_of, upstream_storage

        limit = limit_of(request.param, request.node.originalname)
        if limit is not None:
            pytest.skip(f"{request.param}: {limit}")
        async with upstream_storage(request.getfixturevalue(request.param)) as upstream:
            await upstream.create_bucket(new_bucket("bucket"))
            yield upstream
        return
    made = _make(request.param, tmp_path, lambda: next(ticks))
    for needed in request.node.iter_markers("needs"):
        if not getattr(made.capabilities, needed.args[0]):
            pytest.skip(f"{request.param}: no {needed.args[0]}, by design")
    await made.start()
    await made.create_bucket(new_bucket("bucket"))
    yield made
    await made.stop()


def _make(driver: str, directory: Path, clock: Callable[[], int]) -> Storage:
    match driver:
        case "store":
            config = StoreConfig(
                root=directory / "store", durability=Durability.NONE, max_staged=MAX_STAGED
            )
            return Store(config, clock)
        case "memory":
            return MemoryStorage(clock, MAX_STAGED)
        case "tree":
            root = directory / "tree"
            root.mkdir()
            tree = TreeConfig(root=root, durability=Durability.NONE, max_staged=MAX_STAGED)
            return TreeStorage(tree, "us-east-1", clock)
    raise ValueError(driver)
