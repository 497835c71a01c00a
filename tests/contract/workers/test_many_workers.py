"""Two workers and 64 clients on each fabric at hand: sessions met by the wrong worker, and deaths.

One worker is killed every 2 s for CHAOS_S seconds (S3RDMA_CHAOS_S=60 for the long run).
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from boto3_client import boto3_client
from botocore.credentials import Credentials
from gateway_process import GatewayProcess, gateway_process
from rc_fabrics import AT_HAND, EMULATED, RcFabric

from gateway.client import Client
from gateway.client.errors import S3RdmaError
from gateway.client.models import RdmaProtocol, TransferPath
from gateway.config.client import ClientLimits

CLIENTS = 64
ROUNDS = 1 if EMULATED else 3
AT_ONCE = 4  # transfers of one client: each on an HTTP connection of its own
# In an emulated machine a worker takes half a minute to start.
CHAOS_S = float(os.environ.get("S3RDMA_CHAOS_S", "60" if EMULATED else "10"))
KILL_INTERVAL_S = 25.0 if EMULATED else 2.0
PATIENT = ClientLimits(
    connect_timeout_s=120, request_timeout_s=240, transfer_timeout_s=240, cancel_timeout_s=30
)
GRACE_S = 60 if EMULATED else 20
BUCKET = "shared"
FLAGS = (
    *("--workers", "2", "--rdma-lanes", "160x64KiB", "--rdma-connections", "160"),
    *("--rdma-connections-per-key", "160", "--rdma-quarantine-s", "0.05"),
    *("--rdma-max-sessions-per-key", "256", "--store-durability", "none"),
    *("--rdma-prepare-timeout-s", "120", "--rdma-transfer-timeout-s", "200"),
)

pytestmark = pytest.mark.timeout(300 if EMULATED else 60 + 2 * CHAOS_S)


@pytest.fixture(scope="module", params=AT_HAND, ids=str)
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    fabric: RcFabric = request.param
    directory = tmp_path_factory.mktemp("workers")
    with gateway_process(directory, *fabric.flags, *FLAGS) as process:
        with closing(boto3_client(process)) as s3:
            s3.create_bucket(Bucket=BUCKET)
        yield process


@pytest.fixture(params=AT_HAND[-1:], ids=str)
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Of a gateway that the test itself ends; one fabric will do."""
    return (*request.param.flags, *FLAGS)


def client_of(gateway: GatewayProcess, number: int, rdma: str) -> Client:
    """Every second one by sessions, the others by connections."""
    return Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma=rdma,
        protocol=RdmaProtocol.HIPOBJ if number % 2 else RdmaProtocol.RC,
        limits=PATIENT,
    )


def workers_of(gateway: GatewayProcess) -> list[int]:
    children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


def handovers(gateway: GatewayProcess) -> dict[str, int]:
    """Of all workers together, by direction."""
    found = {"given": 0, "taken": 0}
    for line in gateway.log_lines(" metrics, health and status are at "):
        with urlopen(f"{line.rpartition(' ')[2]}/metrics") as reply:
            text = reply.read().decode()
        for direction in found:
            counted = re.search(rf's3rdma_handovers_total{{direction="{direction}"}} (\S+)', text)
            assert counted is not None
            found[direction] += int(float(counted[1]))
    return found


def content(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 60_000))


async def round_trip(client: Client, key: str, rng: random.Random) -> set[TransferPath]:
    """One object in, and out several times at once; the paths it took."""
    data = content(rng)
    paths = {(await client.put_from(BUCKET, key, data)).path}
    buffers = [bytearray(len(data)) for _ in range(AT_ONCE)]
    gets = [client.get_into(BUCKET, key, into, 0, len(into)) for into in buffers]
    for transfer in await asyncio.gather(*gets):
        paths.add(transfer.path)
    assert all(into == data for into in buffers), "wrong bytes"
    return paths


async def test_workers__64_clients_with_sessions_and_connections__each_finds_its_own(gateway):
    async def one(number: int) -> set[TransferPath]:
        rng = random.Random(number)
        async with client_of(gateway, number, "require") as client:
            return set().union(
                *[await round_trip(client, f"c{number}", rng) for _ in range(ROUNDS)]
            )

    assert len(workers_of(gateway)) == 2
    paths = await asyncio.gather(*(one(number) for number in range(CLIENTS)))
    assert set().union(*paths) == {TransferPath.RDMA}
    moved = handovers(gateway)
    assert moved["given"] == moved["taken"] > 0


async def test_workers__one_killed_every_two_seconds__only_clean_errors_and_no_wrong_byte(gateway):
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + CHAOS_S
    clean, finished, killed = 0, 0, 0

    async def one(number: int) -> None:
        nonlocal clean, finished
        rng = random.Random(number)
        async with client_of(gateway, number, "auto") as client:
            while loop.time() < ends_s:
                try:
                    await round_trip(client, f"k{number}", rng)
                    finished += 1
                except S3RdmaError:
                    clean += 1  # anything else, or wrong bytes, ends the test

    async def killer() -> None:
        nonlocal killed
        rng = random.Random(7)
        while loop.time() + KILL_INTERVAL_S < ends_s:
            await asyncio.sleep(KILL_INTERVAL_S)
            with suppress(ProcessLookupError):
                os.kill(rng.choice(workers_of(gateway)), signal.SIGKILL)
                killed += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(killer())
        for number in range(CLIENTS):
            group.create_task(one(number))
    print(f"{killed} workers killed, {finished} round trips finished, {clean} ended by an error")
    assert killed >= 1
    assert finished >= 1
    async with client_of(gateway, 0, "auto") as links, client_of(gateway, 1, "auto") as sessions:
        for client in (links, sessions):
            assert await round_trip_at_last(client) == {TransferPath.RDMA}


async def round_trip_at_last(client: Client) -> set[TransferPath]:
    """One that goes well, once the workers are up again."""
    async with asyncio.timeout(100 if EMULATED else 20):
        while True:
            with suppress(S3RdmaError):
                return await round_trip(client, "after", random.Random(0))
            await asyncio.sleep(0.2)


@pytest.mark.skipif(EMULATED, reason="its host runs it")
async def test_workers__sighup_under_load__no_request_fails(gateway):
    async def one(number: int) -> None:
        rng = random.Random(number)
        async with client_of(gateway, number, "require") as client:
            for _ in range(ROUNDS):
                await round_trip(client, f"h{number}", rng)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(number)) for number in range(CLIENTS // 4)]
        while not all(task.done() for task in running):
            os.kill(gateway.pid, signal.SIGHUP)
            await asyncio.sleep(0.2)
    assert gateway.log_lines("read again: keys")


async def test_workers__sigterm_under_load__all_that_was_acknowledged_is_there(tmp_path, flags):
    acknowledged: dict[str, bytes] = {}
    enough = asyncio.Event()

    async def one(gateway: GatewayProcess, number: int) -> None:
        rng = random.Random(number)
        async with client_of(gateway, number, "auto") as client:
            for turn in range(10_000):
                key, data = f"s{number}/{turn}", content(rng)
                try:
                    await client.put_from(BUCKET, key, data)
                except S3RdmaError:
                    return
                acknowledged[key] = data
                if len(acknowledged) == 20:
                    enough.set()

    durable = [*flags, "--store-durability", "full", "--http-limits-shutdown-grace-s", "20"]
    with gateway_process(tmp_path, *durable) as gateway:
        with closing(boto3_client(gateway)) as s3:
            s3.create_bucket(Bucket=BUCKET)
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(one(gateway, number))
            await enough.wait()
            told_s = time.monotonic()
            os.kill(gateway.pid, signal.SIGTERM)
    assert time.monotonic() - told_s < GRACE_S
    with gateway_process(tmp_path, *durable) as gateway, closing(boto3_client(gateway)) as s3:
        for key, data in acknowledged.items():
            assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == data
