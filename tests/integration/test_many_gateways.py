"""Two gateways behind HAProxy on one storage; one is killed under load, and nobody loses a byte."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from threading import Semaphore
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.credentials import Credentials
from gateway_process import GatewayProcess, gateway_process
from many_gateways import balanced, busier, kill
from raw_rc import rc_peer
from rc_client import Desk
from s3_servers import S3Server, purge_bucket
from upstream_gateway import gateway_before

from gateway.client import TransferPath
from gateway.client.errors import S3RdmaError
from gateway.client.sync import SyncClient
from gateway.config import KIB, RdmaConfig

BUCKET = "many"
KEYS = ("SHAREDACCESSKEY", "shared-secret")
ROUNDS = 12  # of each client; the kill comes after a few of all together
BEFORE_KILL = 8
SIZES = (100, 70 * KIB, 300 * KIB)
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Pair:
    """Both gateways, and the one address in front."""

    gateways: tuple[GatewayProcess, GatewayProcess]
    endpoint: str

    def boto3(self) -> Any:
        """With the retries that its users have."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEYS[0],
            aws_secret_access_key=KEYS[1],
            region_name="us-east-1",
            config=Config(
                s3={"addressing_style": "path"}, retries={"mode": "standard", "max_attempts": 10}
            ),
        )


@contextmanager
def on_tree(directory: Path, _: pytest.FixtureRequest) -> Iterator[list[GatewayProcess]]:
    """One directory, as two hosts see one shared file system."""
    root = directory / "tree"
    root.mkdir()
    flags = ("--storage-driver", "tree", "--tree-root", str(root), "--rdma-fabric", "soft")
    with ExitStack() as stack:
        yield [
            stack.enter_context(gateway_process(directory / name, *flags, keys=KEYS))
            for name in ("a", "b")
        ]


@contextmanager
def on_upstream(directory: Path, request: pytest.FixtureRequest) -> Iterator[list[GatewayProcess]]:
    """One Ceph behind both."""
    server: S3Server = request.getfixturevalue("rgw")
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                gateway_before(server, directory / name, "--rdma-fabric", "soft", keys=KEYS)
            )
            for name in ("a", "b")
        ]
        with closing(server.client()) as s3:
            purge_bucket(s3, BUCKET)


@pytest.fixture(params=[on_tree, on_upstream])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with (
        request.param(tmp_path, request) as (a, b),
        balanced(a, b, tmp_path / "haproxy.log") as endpoint,
    ):
        made = Pair((a, b), endpoint)
        with closing(made.boto3()) as s3:
            s3.create_bucket(Bucket=BUCKET)
        yield made


def use_boto3(pair: Pair, name: str, done: Semaphore) -> dict[str, str]:
    """Write and read back; (key, MD5) of what was acknowledged."""
    kept = {}
    with closing(pair.boto3()) as s3:
        for number in range(ROUNDS):
            key, data = f"{name}/{number}", os.urandom(SIZES[number % len(SIZES)])
            s3.put_object(Bucket=BUCKET, Key=key, Body=data)
            assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == data
            kept[key] = md5(data).hexdigest()
            done.release()
    return kept


def use_rc(pair: Pair, name: str, done: Semaphore) -> dict[str, str]:
    """The same by RDMA; as a program does that starts over where a transfer failed."""
    kept = {}
    paths = []
    with SyncClient(
        endpoint_url=pair.endpoint,
        region_name="us-east-1",
        credentials=Credentials(*KEYS),
        device="soft",
    ) as client:
        for number in range(ROUNDS):
            key, data = f"{name}/{number}", os.urandom(SIZES[number % len(SIZES)])
            back = bytearray(len(data))
            paths.append(_patiently(client.put_from, BUCKET, key, data).path)
            _patiently(client.get_into, BUCKET, key, back)
            assert back == data
            kept[key] = md5(data).hexdigest()
            done.release()
    assert paths[-1] is TransferPath.RDMA
    return kept


def _patiently(transfer: Callable[..., Any], *given: object) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return transfer(*given)
        except (S3RdmaError, OSError):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


def test_one_of_two__killed_under_load__clients_finish_and_every_byte_is_right(pair: Pair) -> None:
    done = Semaphore(0)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(use_boto3, pair, f"boto3-{n}", done) for n in range(2)]
        running += [pool.submit(use_rc, pair, f"rc-{n}", done) for n in range(2)]
        for _ in range(BEFORE_KILL):
            assert done.acquire(timeout=PATIENCE_S)
        killed = busier(pair.gateways)
        kill(killed)
        kept = {key: digest for one in running for key, digest in one.result().items()}
    (survivor,) = (one for one in pair.gateways if one is not killed)
    assert len(kept) == 4 * ROUNDS
    assert survivor.log_lines(r" PUT /many/")
    with closing(pair.boto3()) as s3:
        for key, digest in kept.items():
            assert md5(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()).hexdigest() == digest
        listed = s3.list_objects_v2(Bucket=BUCKET)
    assert {entry["Key"] for entry in listed["Contents"]} == set(kept)


async def test_connection__at_the_other_gateway__is_not_there(pair: Pair) -> None:
    """What stickiness is for: a connection lives in the gateway that made it, and dies with it."""
    a, b = pair.gateways
    data, back = b"data", bytearray(4)
    with closing(pair.boto3()) as s3:
        s3.put_object(Bucket=BUCKET, Key="key", Body=data)
    async with rc_peer(Desk.of(a), RdmaConfig(fabric="soft")) as peer:
        here = await peer.get(f"/{BUCKET}/key", back)
        assert (here.headers["x-amz-rdma-reply"], back) == ("200", data)
        home, peer.desk = peer.desk, Desk.of(b)
        there = await peer.get(f"/{BUCKET}/key", back)
        assert (there.headers["x-amz-rdma-reply"], there.body) == ("501", data)
        peer.desk = home
