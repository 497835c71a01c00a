"""Bytes that rotted on the disk are an error on every path, never an answer; fsck names them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from boto3_client import boto3_client
from botocore.exceptions import ClientError as BotocoreError
from botocore.exceptions import IncompleteReadError, ResponseStreamingError
from gateway_process import GatewayProcess, gateway_process
from raw_rc import rc_peer
from raw_rdma import raw_peer
from rc_client import Desk

from gateway.config import KIB, MIB, RdmaConfig

BUCKET = "damaged"
BLOCK_BYTES = 64 * KIB
SIZES_BYTES = {"small": 20 * KIB, "large": 3 * MIB}
ROTTEN_AT = {"small": 7, "large": 2 * MIB + 5}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def gateway(home: Path) -> Iterator[GatewayProcess]:
    """With two objects in it, each of which has one bit flipped."""
    with gateway_process(home, "--rdma-fabric", "soft") as process:
        with closing(boto3_client(process)) as s3:
            s3.create_bucket(Bucket=BUCKET)
            for key, size in SIZES_BYTES.items():
                s3.put_object(Bucket=BUCKET, Key=key, Body=content(key, size))
        for path in home.glob("store/objects/*/*"):
            rot(path)
        yield process


def content(key: str, size: int) -> bytes:
    return hashlib.shake_128(key.encode()).digest(size)


def rot(path: Path) -> None:
    key = "small" if path.stat().st_size < MIB else "large"
    with path.open("r+b") as file:
        file.seek(ROTTEN_AT[key])
        byte = file.read(1)
        file.seek(ROTTEN_AT[key])
        file.write(bytes([byte[0] ^ 1]))


def bad_block(key: str) -> slice:
    """None of it may reach a client's buffer."""
    first = ROTTEN_AT[key] // BLOCK_BYTES * BLOCK_BYTES
    return slice(first, min(first + BLOCK_BYTES, SIZES_BYTES[key]))


def drain(body: Any, into: bytearray) -> None:
    for piece in body.iter_chunks(BLOCK_BYTES):
        into += piece


@pytest.fixture
def s3(gateway: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(gateway)) as client:
        yield client


def test_get__small_and_rotten__500_with_a_status(s3: Any) -> None:
    with pytest.raises(BotocoreError) as caught:
        s3.get_object(Bucket=BUCKET, Key="small")
    assert caught.value.response["Error"]["Code"] == "InternalError"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_get__rotten_far_behind__cut_off_before_the_bad_block(s3: Any) -> None:
    body = s3.get_object(Bucket=BUCKET, Key="large")["Body"]
    got = bytearray()
    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        drain(body, got)
    whole = content("large", SIZES_BYTES["large"])
    assert 0 < len(got) <= ROTTEN_AT["large"]
    assert got == whole[: len(got)]


@pytest.mark.parametrize(
    ("first", "last", "good"),
    [
        (0, 9, True),
        (2 * MIB - 1, 2 * MIB - 1, True),
        (2 * MIB + BLOCK_BYTES, 3 * MIB - 1, True),
        (2 * MIB + BLOCK_BYTES - 1, 2 * MIB + BLOCK_BYTES - 1, False),  # beside it, in its block
        (2 * MIB + 5, 2 * MIB + 5, False),
    ],
)
def test_get__a_range__good_where_its_blocks_are(
    s3: Any, first: int, last: int, good: bool
) -> None:
    wanted = {"Bucket": BUCKET, "Key": "large", "Range": f"bytes={first}-{last}"}
    if good:
        whole = content("large", SIZES_BYTES["large"])
        assert s3.get_object(**wanted)["Body"].read() == whole[first : last + 1]
        return
    with pytest.raises(BotocoreError) as caught:
        s3.get_object(**wanted)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_copy__rotten_source__refused_and_nothing_made(s3: Any) -> None:
    with pytest.raises(BotocoreError) as caught:
        s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/large")
    assert caught.value.response["Error"]["Code"] == "InternalError"
    listed = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert [entry["Key"] for entry in listed] == ["large", "small"]


async def test_get__by_hipobj__error_instead_of_success(gateway: GatewayProcess) -> None:
    async with raw_peer(gateway, "soft") as peer:
        answer, got = await peer.get(f"/{BUCKET}/large", SIZES_BYTES["large"])
        assert (answer.status, answer.code) == (500, "InternalError")
        assert not any(got[bad_block("large")])
        async with peer.side(SIZES_BYTES["small"]) as side:
            answer = await peer.prepare(side, "GET", f"/{BUCKET}/small")
        assert (answer.status, answer.code) == (500, "InternalError")


@pytest.mark.parametrize("key", SIZES_BYTES)
async def test_get__over_a_connection__error_instead_of_success_and_it_goes_on(
    gateway: GatewayProcess, s3: Any, key: str
) -> None:
    whole = content("whole", 3 * MIB)
    s3.put_object(Bucket=BUCKET, Key="whole", Body=whole)
    async with rc_peer(Desk.of(gateway), RdmaConfig(fabric="soft")) as client:
        target = bytearray(SIZES_BYTES[key])
        answer = await client.get(f"/{BUCKET}/{key}", target)
        assert (answer.status, answer.code) == (500, "InternalError")
        assert not any(target[bad_block(key)])
        target = bytearray(len(whole))
        answer = await client.get(f"/{BUCKET}/whole", target)
        assert (answer.status, target) == (200, whole)
    s3.delete_object(Bucket=BUCKET, Key="whole")


def test_log__after_those__says_which_file(gateway: GatewayProcess, home: Path) -> None:
    log = gateway.log.read_text()
    for path in home.glob("store/objects/*/*"):
        assert f"{path} is damaged" in log


def test_fsck__beside_the_running_gateway__names_both(gateway: GatewayProcess, home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "fsck", "--json", "--store", str(home / "store")],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert [finding["subject"] for finding in findings] == [f"{BUCKET}/large", f"{BUCKET}/small"]
    assert {finding["kind"] for finding in findings} == {"damaged"}
