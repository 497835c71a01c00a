"""A gateway on the soft fabric costs nothing while nobody uses it, and says what carries."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from raw_rdma import raw_peer

from gateway.config import MIB

BUCKET = "soft"
IDLE_S = 2.0  # of real time: what is measured is that nothing happens in it
IDLE_CPU_S = 0.02  # two ticks of the kernel's clock
RSS_LIMIT_BYTES = 150 * MIB  # its staging alone is 512 MiB, once used
SIZE_BYTES = 3 * MIB + 1


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("soft"), "--rdma-fabric", "soft") as process:
        yield process


@pytest.fixture(scope="module")
def bucket(gateway: GatewayProcess) -> str:
    with closing(boto3_client(gateway)) as s3:
        s3.create_bucket(Bucket=BUCKET)
    return BUCKET


def test_start__on_the_soft_fabric__touches_and_locks_no_staging(gateway: GatewayProcess) -> None:
    assert gateway.rdma.startswith("soft fabric (RoCE v2 over UDP), GID 127.")
    assert gateway.rdma.endswith(", because rdma.fabric asks for it")
    assert gateway.peak_rss_bytes() < RSS_LIMIT_BYTES
    assert gateway.locked_bytes() == 0


def test_idle__nobody_there__uses_no_cpu(gateway: GatewayProcess) -> None:
    before_s = gateway.cpu_s()
    time.sleep(IDLE_S)
    assert gateway.cpu_s() - before_s <= IDLE_CPU_S


async def test_idle__an_open_lane__uses_no_cpu_on_either_side(
    gateway: GatewayProcess, bucket: str
) -> None:
    async with raw_peer(gateway, "soft") as peer, peer.side(SIZE_BYTES) as side:
        offer = await peer.offered(side, "PUT", f"/{bucket}/never")
        before_s, ours_s = gateway.cpu_s(), time.process_time()
        await asyncio.sleep(IDLE_S)
        assert gateway.cpu_s() - before_s <= IDLE_CPU_S
        assert time.process_time() - ours_s <= IDLE_CPU_S
        assert (await peer.cancel(offer.session)).status == 204


def test_put_get__by_the_soft_fabric__both_sides_name_the_carrier(
    gateway: GatewayProcess, bucket: str, tmp_path: Path
) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(os.urandom(SIZE_BYTES))
    url = f"s3://{bucket}/key"
    for words in (("put", str(source), url), ("get", url, str(back))):
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *words, "--rdma", "--device", "soft", "--json"],
            env=os.environ | gateway.client_environment,
            check=True,
            capture_output=True,
            timeout=60,
        )
        told = json.loads(done.stdout.splitlines()[0])
        assert (told["path"], told["device"]) == ("RDMA", "soft")
        assert told["carrier"] in {"udp", "local"}
        logged = gateway.log_lines(rf"rdma {words[0].upper()} {bucket}/key {SIZE_BYTES} bytes")
        assert f"carrier={told['carrier']} " in logged[0]
    assert back.read_bytes() == source.read_bytes()
