"""The whole gateway and our own client, over a real RDMA device."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import AsyncIterator, Iterator

import pytest
import raw_hipobj as raw
from botocore.credentials import Credentials
from gateway_process import GatewayProcess, gateway_process
from raw_rdma import raw_peer

from gateway.client import Client, TransferPath
from gateway.config import MIB
from gateway.config.client import ClientLimits
from gateway.dataplane.port import QpAddress

pytestmark = [pytest.mark.rdma, pytest.mark.timeout(300)]

BUCKET = "bucket"
DEVICES = (os.environ.get("RDMA_VM_DEVICES") or "rxe0 rxe1").split()
STAGING_BYTES = (302 + 64) * MIB  # of the lanes below, and of connections
LANES = "14x1MiB,12x8MiB,3x64MiB"


def content(length_bytes: int, seed: int = 0) -> bytes:
    return random.Random(length_bytes + seed).randbytes(length_bytes)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    flags = ("--rdma-device", DEVICES[0], "--rdma-lanes", LANES, "--rdma-fabric", "verbs")
    patience = ("--rdma-prepare-timeout-s", "60", "--rdma-transfer-timeout-s", "60")  # slow guests
    with gateway_process(directory, *flags, *patience) as running:
        yield running


@pytest.fixture(params=DEVICES[-1:])
async def client(gateway: GatewayProcess, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    made = open_client(gateway, request.param)
    async with made as opened:
        if not await opened.list_buckets():
            await opened.create_bucket(BUCKET)
        yield opened


def open_client(gateway: GatewayProcess, device: str) -> Client:
    return Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma="require",
        device=device,
        limits=ClientLimits(part_bytes=64 * MIB, transfer_timeout_s=120.0),
    )


@pytest.mark.parametrize("size", [1, 4095, 4096, MIB + 1, 64 * MIB])
async def test_put_and_get__any_size__bytes_are_identical(gateway, client, size):
    data = content(size)
    stored = await client.put_from(BUCKET, f"size-{size}", data)
    received = bytearray(size)
    fetched = await client.get_into(BUCKET, f"size-{size}", received)
    assert received == data
    assert (stored.path, fetched.path) == (TransferPath.RDMA, TransferPath.RDMA)
    assert stored.etag.strip('"') == hashlib.md5(data).hexdigest()
    lines = gateway.log_lines(rf"rdma (PUT|GET) {BUCKET}/size-{size} {size} bytes .* GB/s")
    assert len(lines) >= 2


async def test_get__range__is_exactly_that(client):
    data = content(3 * MIB)
    await client.put_from(BUCKET, "ranged", data)
    received = bytearray(MIB + 7)
    await client.get_into(BUCKET, "ranged", received, 1234, MIB + 7)
    assert received == data[1234 : 1234 + MIB + 7]


async def test_put__parts_by_rdma__one_object(gateway, client):
    data = content(12 * MIB + 5)
    limits = ClientLimits(part_bytes=5 * MIB, transfer_timeout_s=120.0)
    async with Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma="require",
        device=DEVICES[-1],
        limits=limits,
    ) as parted:
        await parted.put_from(BUCKET, "parts", data)
        received = bytearray(len(data))
        await parted.get_into(BUCKET, "parts", received)
    assert received == data
    parts = [data[start : start + 5 * MIB] for start in range(0, len(data), 5 * MIB)]
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    etag = (await client.head(BUCKET, "parts")).etag
    assert etag.strip('"') == f"{hashlib.md5(digests).hexdigest()}-{len(parts)}"


async def test_put_and_get__same_device_as_the_gateway__works_and_spoils_no_lane(gateway, client):
    """The next test uses the same lanes for peers at another address: nothing may stick to them."""
    data = content(100_000)
    async with open_client(gateway, DEVICES[0]) as neighbour:
        await neighbour.put_from(BUCKET, "near", data)
        received = bytearray(len(data))
        await neighbour.get_into(BUCKET, "near", received)
    assert received == data


async def test_put_and_get__two_hundred_with_sixteen_at_once__all_identical(client):
    gate = asyncio.Semaphore(16)

    async def round_trip(number: int) -> bool:
        data = content(20_000 + number, seed=number)
        async with gate:
            await client.put_from(BUCKET, f"many-{number}", data)
            received = bytearray(len(data))
            await client.get_into(BUCKET, f"many-{number}", received)
            return received == data

    assert all(await asyncio.gather(*(round_trip(number) for number in range(100))))


async def test_get__receive_posted_after_ready__carried_by_rnr_retries(gateway, client):
    data = content(50_000)
    await client.put_from(BUCKET, "late", data)
    async with raw_peer(gateway, DEVICES[-1]) as peer, peer.side(len(data)) as side:
        answer = await peer.prepare(side, "GET", f"/{BUCKET}/late")
        offer = raw.Offer.read(answer.headers)
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        side.lane.connect(QpAddress(offer.qpn, offer.psn, offer.gid, offer.lid))
        await asyncio.sleep(0.3)  # READY is on its way or already waiting for us
        side.lane.post_receive()
        assert (await ready).status == 200
        assert await side.lane.received(0xC0FFEE, None, 10) >= 0
        assert side.buffer == data


def test_memory__after_all_of_it__within_staging_and_150_mib(gateway):
    assert gateway.peak_rss_bytes() <= STAGING_BYTES + 150 * MIB
