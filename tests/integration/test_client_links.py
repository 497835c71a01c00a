"""A client's connections to a real gateway: several under load, none to spare, and given back."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from botocore.credentials import Credentials
from gateway_process import GatewayProcess, gateway_process

from gateway.client import Client, TransferPath
from gateway.client.models import RdmaProtocol
from gateway.config import MIB
from gateway.config.client import ClientLimits

BUCKET = "links"
SIZE = 3 * MIB + 1
EACH = 4  # GETs at once
ROUNDS = 5
SPREAD_LIMIT_S = 60.0
SPREADING = ClientLimits(link_bytes=MIB)
PER_KEY = SPREADING.max_links + 1


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--rdma-connections-per-key", str(PER_KEY))
    with gateway_process(tmp_path_factory.mktemp("links"), *flags) as process:
        yield process


def client_of(gateway: GatewayProcess, **options: Any) -> Client:
    return Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        device="soft",
        **options,
    )


def connections(gateway: GatewayProcess) -> int:
    """How many the gateway says are open."""
    with urlopen(f"{gateway.admin}/metrics") as reply:
        found = re.search(r"^s3rdma_rc_connections (\S+)$", reply.read().decode(), re.MULTILINE)
    assert found
    return int(float(found[1]))


@pytest.fixture
async def data(gateway: GatewayProcess) -> bytes:
    data = secrets.token_bytes(SIZE)
    async with client_of(gateway) as client:
        if BUCKET not in {bucket.name for bucket in await client.list_buckets()}:
            await client.create_bucket(BUCKET)
        await client.put_from(BUCKET, "k", data)
    return data


async def spread_out(client: Client, gateway: GatewayProcess, data: bytes) -> None:
    """GETs at once until the client has all the links that it may have.

    A link is made only where the others are still busy when it is asked for.
    """
    async with asyncio.timeout(SPREAD_LIMIT_S):
        while await asyncio.to_thread(connections, gateway) < SPREADING.max_links:
            buffers = [bytearray(SIZE) for _ in range(EACH)]
            await asyncio.gather(*(client.get_into(BUCKET, "k", buffer) for buffer in buffers))
            assert all(buffer == data for buffer in buffers)


async def test_gets__at_once__spread_over_connections_that_are_given_back(
    gateway: GatewayProcess, data: bytes
) -> None:
    async with client_of(gateway, rdma="require", limits=SPREADING) as client:
        await client.get_into(BUCKET, "k", bytearray(SIZE))
        assert await asyncio.to_thread(connections, gateway) == 1
        await spread_out(client, gateway, data)
        for _ in range(ROUNDS):
            await asyncio.gather(
                *(client.get_into(BUCKET, "k", bytearray(SIZE)) for _ in range(2 * EACH))
            )
        assert await asyncio.to_thread(connections, gateway) == SPREADING.max_links
    assert await asyncio.to_thread(connections, gateway) == 0


async def test_gets__cancelled_at_any_point__the_others_finish_and_no_byte_comes_later(
    gateway: GatewayProcess, data: bytes
) -> None:
    async with client_of(gateway, rdma="require", limits=SPREADING) as client:
        for step in range(4 * ROUNDS):
            buffers = [bytearray(SIZE) for _ in range(EACH)]
            tasks = [asyncio.ensure_future(client.get_into(BUCKET, "k", one)) for one in buffers]
            await asyncio.sleep(step * 0.002)
            tasks[0].cancel()
            await asyncio.wait(tasks[:1])
            there = bytes(buffers[0])
            for task in tasks[1:]:
                assert (await task).path is TransferPath.RDMA
            assert all(buffer == data for buffer in buffers[1:])
            assert buffers[0] == there
    assert await asyncio.to_thread(connections, gateway) == 0, "each one's end was told"


async def test_client__whose_key_has_no_connection_to_spare__goes_by_sessions(
    gateway: GatewayProcess, data: bytes
) -> None:
    async with client_of(gateway, limits=SPREADING) as greedy:
        await spread_out(greedy, gateway, data)
        async with client_of(gateway) as last, client_of(gateway) as late:
            assert (await last.get_into(BUCKET, "k", bytearray(SIZE))).protocol is RdmaProtocol.RC
            assert await asyncio.to_thread(connections, gateway) == PER_KEY
            for _ in range(ROUNDS):
                got = await late.get_into(BUCKET, "k", buffer := bytearray(SIZE))
                assert (got.path, got.protocol) == (TransferPath.RDMA, RdmaProtocol.HIPOBJ)
                assert buffer == data
