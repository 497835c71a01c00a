"""The longest object that one PUT may bring, through 64 MiB of staging and back."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from periodic import PERIOD_BYTES, periodic, same
from raw_rc import EngineClient, rc_peer
from rc_client import Desk

from gateway.config import GIB, MIB, RdmaConfig

SIZE_BYTES = 5 * GIB
PIECE_BYTES = GIB
STAGING_BYTES = 64 * MIB
PEAK_BYTES = STAGING_BYTES + 150 * MIB
LIMIT_S = 140.0  # for each request, on a busy machine
FLAGS = (
    *("--rdma-fabric", "soft", "--rdma-soft-carrier", "local", "--store-durability", "none"),
    *("--rdma-connection-staging-bytes", "64MiB", "--rdma-lanes", "1x1MiB"),
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone at once: pytest would keep its own."""
    free_bytes = shutil.disk_usage(tempfile.gettempdir()).free
    if free_bytes < SIZE_BYTES + GIB:
        pytest.skip(f"{free_bytes >> 30} GiB of disk are free, and 6 are needed")
    with tempfile.TemporaryDirectory(prefix="five-gib-") as directory:
        yield Path(directory)


async def put(peer: EngineClient, source: memoryview) -> None:
    stored = await peer.put("/large/object", source)
    assert stored.status == 200, stored.body
    assert stored.headers["x-amz-rdma-reply"] == "200"
    assert stored.headers["x-amz-rdma-bytes-transferred"] == str(SIZE_BYTES)


async def get_at_once(peer: EngineClient, period: bytes) -> None:
    """Into memory that is written over and over: what is there at the end is right all the same."""
    with periodic(bytes(PERIOD_BYTES), SIZE_BYTES) as target:
        fetched = await peer.get("/large/object", target)
        assert fetched.status == 200, fetched.body
        assert fetched.headers["x-amz-rdma-reply"] == "200"
        assert fetched.headers["x-amz-rdma-bytes-transferred"] == str(SIZE_BYTES)
        assert target[:PERIOD_BYTES].tobytes() == period


async def get_in_pieces(peer: EngineClient, source: memoryview) -> None:
    """Every byte of it, compared."""
    piece = bytearray(PIECE_BYTES)
    for at in range(0, SIZE_BYTES, PIECE_BYTES):
        wanted = {"range": f"bytes={at}-{at + PIECE_BYTES - 1}"}
        fetched = await peer.get("/large/object", piece, wanted)
        assert (fetched.status, fetched.headers["x-amz-rdma-reply"]) == (206, "206")
        assert same(memoryview(piece), source[at : at + PIECE_BYTES])


async def there_and_back(gateway: GatewayProcess) -> None:
    period = random.randbytes(PERIOD_BYTES)
    config = RdmaConfig(fabric="soft", soft_carrier="local")
    with periodic(period, SIZE_BYTES) as source:
        async with rc_peer(Desk.of(gateway, limit_s=LIMIT_S), config) as peer:
            for step in (put(peer, source), get_at_once(peer, period), get_in_pieces(peer, source)):
                begun_s = time.monotonic()
                await step
                print(f"{step.__name__}: {time.monotonic() - begun_s:.1f} s")
            assert peer.link.carrier == "local"


@pytest.mark.timeout(600)
async def test_object_of_5_gib__there_and_back__is_identical_and_the_gateways_memory_flat() -> None:
    with scratch() as directory, gateway_process(directory, *FLAGS) as gateway:
        with closing(boto3_client(gateway)) as s3:
            s3.create_bucket(Bucket="large")
            before_bytes = gateway.peak_rss_bytes()
            await there_and_back(gateway)
            peak_bytes = gateway.peak_rss_bytes()
            s3.delete_object(Bucket="large", Key="object")
        print(f"peak RSS {before_bytes / MIB:.0f} -> {peak_bytes / MIB:.0f} MiB")
        assert peak_bytes <= PEAK_BYTES
