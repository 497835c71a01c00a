from __future__ import annotations

import pytest
from loopback_gateway import LoopbackGateway
from storing import new_bucket


@pytest.fixture
async def gateway():
    """A gateway that must hold nothing when the test is over."""
    made = LoopbackGateway()
    await made.storage.create_bucket(new_bucket("bucket"))
    yield made
    made.clock.now_s += 1000
    made.service.expire()
    await made.settled()
    await made.service.stop(1)
