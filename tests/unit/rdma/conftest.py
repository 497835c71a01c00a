from __future__ import annotations

import pytest
from loopback_gateway import LoopbackGateway


@pytest.fixture
async def gateway():
    """A gateway that must hold nothing when the test is over."""
    made = LoopbackGateway()
    await made.storage.create_bucket("bucket", "us-east-1")
    yield made
    made.clock.now_s += 1000
    made.service.expire()
    await made.settled()
    await made.service.stop(1)
