"""The client's buffers against a real gateway: arrays, many at once, and memory that goes away."""

from __future__ import annotations

import asyncio
import gc
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from awscrt import checksums
from botocore.credentials import Credentials
from fake_tensor import cuda_tensor
from gateway_process import GatewayProcess, gateway_process

from gateway.client import Client, TransferPath, gpu
from gateway.client import client as client_module
from gateway.config import MIB
from gateway.config.client import ClientLimits
from gateway.dataplane.domain import EngineDomain

BUCKET = "buffers"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--rdma-connections", "64")
    with gateway_process(tmp_path_factory.mktemp("buffers"), *flags) as process:
        yield process


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[Client]:
    async with Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma="require",
        device="soft",
        limits=ClientLimits(part_bytes=5 * MIB),
    ) as running:
        if BUCKET not in {bucket.name for bucket in await running.list_buckets()}:
            await running.create_bucket(BUCKET)
        yield running


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every registration that is made, as it is made."""
    made: list[Any] = []
    register = EngineDomain.register

    async def counted(self: EngineDomain, buffer: Any, *, remote_write: bool) -> Any:
        made.append(await register(self, buffer, remote_write=remote_write))
        return made[-1]

    monkeypatch.setattr(EngineDomain, "register", counted)
    return made


async def test_array__in_a_loop_and_in_parts__is_registered_once_for_each_way(
    client: Client, registered: list[Any]
) -> None:
    source = np.frombuffer(secrets.token_bytes(12 * MIB), np.float32).reshape(-1, 1024).copy()
    target = np.empty_like(source)
    for _ in range(3):
        put = await client.put_from(BUCKET, "array", source)
        got = await client.get_into(BUCKET, "array", target)
        assert put.path is got.path is TransferPath.RDMA
        assert target.tobytes() == source.tobytes()
        target[:] = 0
    assert len(registered) == 2


async def test_array__freed__is_no_longer_registered(client: Client, registered: list[Any]) -> None:
    await client.put_from(BUCKET, "freed", bytes(MIB))
    for _ in range(20):
        array = np.ones(MIB, np.uint8)
        await client.get_into(BUCKET, "freed", array)
        assert not array.any()
        del array
        gc.collect()
        assert all(one.ended for one in registered)
    assert len(registered) == 21


async def test_many__at_once_on_one_connection__are_all_whole(client: Client) -> None:
    data = {str(number): secrets.token_bytes(1 + 997 * number) for number in range(200)}
    put = await client.put_many(data.items(), bucket=BUCKET)
    buffers = [np.zeros(len(text), np.uint8) for text in data.values()]
    got = await client.get_many(zip(data, buffers, strict=True), bucket=BUCKET, concurrency=64)
    assert {one.unwrap().path for one in (*put, *got)} == {TransferPath.RDMA}
    assert [buffer.tobytes() for buffer in buffers] == list(data.values())


async def test_transfer__cancelled_at_any_moment__leaves_a_client_that_works(
    client: Client, registered: list[Any]
) -> None:
    data = secrets.token_bytes(8 * MIB)
    await client.put_from(BUCKET, "cut", data)
    for step in range(10):
        task = asyncio.create_task(client.get_into(BUCKET, "cut", bytearray(len(data))))
        await asyncio.wait({task}, timeout=0.002 * step)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert all(one.ended for one in registered)
    await client.get_into(BUCKET, "cut", buffer := bytearray(len(data)))
    assert buffer == data


async def test_gpus_memory__in_parts__is_summed_by_the_gateway_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On the soft fabric, which can't reach a real GPU's, with memory that is none."""
    (tmp_path / "module/nvidia_peermem").mkdir(parents=True)
    monkeypatch.setattr(gpu, "SYSFS", tmp_path)
    monkeypatch.setattr(client_module, "check_touch", lambda _info, *, on_host: None)
    data = secrets.token_bytes(12 * MIB)
    await client.put_from(BUCKET, "gpu", cuda_tensor(np.frombuffer(data, np.uint8)))
    assert (await client.head(BUCKET, "gpu")).crc64nvme == checksums.crc64nvme(data)
    target = np.zeros(12 * MIB, np.uint8)
    await client.get_into(BUCKET, "gpu", cuda_tensor(target))
    assert target.tobytes() == data
