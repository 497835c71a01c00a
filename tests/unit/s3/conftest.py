"""A gateway without HTTP: botocore writes the requests and reads the replies, memory stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from s3_desk import Desk

from gateway.storage.memory import MemoryStorage


@pytest.fixture
async def storage() -> AsyncIterator[MemoryStorage]:
    storage = MemoryStorage()
    await storage.start()
    yield storage
    await storage.stop()


@pytest.fixture
async def desk(storage: MemoryStorage) -> Desk:
    """A desk whose bucket "shop" exists."""
    desk = Desk(storage)
    await desk.ask("CreateBucket", Bucket="shop")
    return desk
