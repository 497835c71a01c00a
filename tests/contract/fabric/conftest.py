"""Two fabrics and what joins them: each test runs on every wire that this host can have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from fabric_peer import PeerFabric, PeerProcess, peer_process
from fabric_wires import AT_HAND, LANES, Wire

from gateway.config import LaneClass
from gateway.dataplane.engine import EngineFabric, open_fabric


@pytest.fixture(params=AT_HAND, ids=str)
def wire(request: pytest.FixtureRequest) -> Wire:
    """Each that is at hand; test_fabric_lanes.py says which are not, and why."""
    found: Wire = request.param
    return found


@pytest.fixture
def lanes() -> tuple[LaneClass, ...]:
    """The gateway's arena; a module with other needs has a fixture of this name."""
    return LANES


@pytest.fixture
async def server(wire: Wire, lanes: tuple[LaneClass, ...]) -> AsyncIterator[EngineFabric]:
    fabric = wire.open_server(lanes)
    yield fabric
    await fabric.close()


@pytest.fixture(scope="session")
def other_process() -> Iterator[PeerProcess]:
    """One for all tests: it takes longer to start than they do."""
    with peer_process() as process:
        yield process


@pytest.fixture
async def client(
    wire: Wire, request: pytest.FixtureRequest
) -> AsyncIterator[EngineFabric | PeerFabric]:
    if not wire.apart:
        fabric = open_fabric(wire.client_config, arena=False)
        yield fabric
        await fabric.close()
        return
    process: PeerProcess = request.getfixturevalue("other_process")
    with process.listening():
        remote = process.open(wire.client_config)
        yield remote
        await remote.close()
