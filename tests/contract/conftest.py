"""The storages that keep gateway.storage.port, each fresh and with a clock that ticks per look."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from storing import MAX_STAGED, new_bucket

from gateway.config import Durability, StoreConfig
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import Storage
from gateway.storage.store import Store


@pytest.fixture
def ticks() -> Iterator[int]:
    """POSIX nanoseconds that never repeat."""
    return count(1_700_000_000_000_000_000, 1_000_000)


@pytest.fixture(params=["store", "memory"])
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, ticks: Iterator[int]
) -> AsyncIterator[Storage]:
    made: Storage
    if request.param == "store":
        config = StoreConfig(
            root=tmp_path / "store", durability=Durability.NONE, max_staged=MAX_STAGED
        )
        made = Store(config, clock=lambda: next(ticks))
    else:
        made = MemoryStorage(clock=lambda: next(ticks), max_staged=MAX_STAGED)
    await made.start()
    await made.create_bucket(new_bucket("bucket"))
    yield made
    await made.stop()
