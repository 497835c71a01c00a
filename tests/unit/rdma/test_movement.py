"""The way through Python, for storages that have no files to give to the C core."""

from __future__ import annotations

import asyncio
import random

import pytest
from loopback_gateway import Clock, LoopbackGateway
from storing import new_bucket

from gateway.errors import InternalError, S3Code, TransportError
from gateway.rdma import movement
from gateway.rdma.movement import Deadline, LaneBody
from gateway.s3.integrity import Declared
from gateway.storage.memory import MemoryStorage

DATA = random.Random(3).randbytes(100_000)


class Without:
    """Another object, but for one method that answers None."""

    def __init__(self, inner: object, missing: str) -> None:
        self._inner = inner
        setattr(self, missing, lambda *_: None)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class FilelessStorage(MemoryStorage):
    """As an upstream S3 service is: neither staged bytes nor objects lie in files."""

    async def stage(self, *args):
        return Without(await super().stage(*args), "fileno")

    async def open_object(self, *args):
        return Without(await super().open_object(*args), "extents")

    async def commit_object(self, staged, *args):
        return await super().commit_object(staged._inner, *args)


@pytest.fixture
async def gateway(monkeypatch):
    monkeypatch.setattr(movement, "CHUNK_BYTES", 30_000)
    made = LoopbackGateway(storage=FilelessStorage())
    await made.storage.create_bucket(new_bucket("bucket"))
    yield made
    await made.settled()


@pytest.mark.parametrize(("offset", "size"), [(0, 100_000), (7, 90_000), (99_999, 1)])
async def test_storage_without_files__put_and_get__identical(gateway, offset, size):
    assert (await gateway.put("/bucket/key", DATA)).status == 200
    answer, received = await gateway.get("/bucket/key", size, offset=offset)
    assert answer.status == 200
    assert received == DATA[offset : offset + size]
    assert gateway.fabric.calls["send_extents"] == -(-size // 30_000)


async def test_storage_without_files__send_fails_half_way__500_and_nothing_leaks(gateway):
    await gateway.put("/bucket/key", DATA)
    side = gateway.client(len(DATA))
    offer = await gateway.offered(side, "GET", "/bucket/key")
    addr, rkey = side.memory
    answer = await gateway.ready(side, offer.session, memory=(addr + 1, rkey))
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")  # the last piece is beyond
    assert gateway.fabric.calls["send_extents"] == 4


def test_deadline__passed__is_a_transfer_timeout():
    clock = Clock(5.0)
    deadline = Deadline.after(clock, 2.0)
    clock.now_s = 6.5
    assert deadline.left_s() == 0.5
    clock.now_s = 7.0
    with pytest.raises(TransportError) as caught:
        deadline.left_s()
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT


async def test_lane_body__read_as_a_document__is_a_bug(gateway):
    lane = gateway.client(b"x").lane
    body = LaneBody(
        lane, 1, 1, Declared(), deadline=Deadline.after(Clock(), 1), arrived=lambda: None
    )
    assert body.length_bytes == 1
    with pytest.raises(InternalError):
        await asyncio.wait_for(body.read(100), 1)
