"""Connections on the kernel's device, against a client that shares no line with the gateway."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from pyverbs_rc import PyverbsConnection

pytestmark = pytest.mark.rdma

BUCKET = "connected"
LENGTH_BYTES = 4 * 2**20 + 1
SIZES_BYTES = (1, 4096, 2**20 + 1, LENGTH_BYTES)


@pytest.fixture(scope="module")
def served(
    devices: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    flags = ("--rdma-device", devices[0], "--rdma-connections", "4")
    with gateway_process(tmp_path_factory.mktemp("gateway"), *flags) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def s3(served: GatewayProcess) -> Any:
    """The same objects over plain HTTP: a second witness."""
    client = boto3_client(served)
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(scope="module")
def client(served: GatewayProcess, s3: Any, devices: list[str]) -> Iterator[PyverbsConnection]:
    gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "1"))
    keys = (served.access_key, served.secret_key)
    with PyverbsConnection(served.address, *keys, devices[-1], gid_index, LENGTH_BYTES) as peer:
        yield peer


def content(length_bytes: int) -> bytes:
    return random.Random(length_bytes).randbytes(length_bytes)


@pytest.mark.parametrize("size_bytes", SIZES_BYTES)
def test_put_and_get__any_size_on_one_connection__bytes_are_identical(
    client: PyverbsConnection, s3: Any, size_bytes: int
) -> None:
    data, target = content(size_bytes), f"/{BUCKET}/size-{size_bytes}"
    stored = client.put(target, data)
    assert stored.status == 200
    assert stored.headers["x-amz-rdma-reply"] == "200"
    assert stored.headers["x-amz-rdma-bytes-transferred"] == str(size_bytes)
    witness = s3.get_object(Bucket=BUCKET, Key=f"size-{size_bytes}")
    assert witness["Body"].read() == data
    assert witness["ETag"] == stored.headers["etag"]
    fetched, got = client.get(target, size_bytes)
    assert fetched.headers["x-amz-rdma-bytes-transferred"] == str(size_bytes)
    assert got == data


def test_get__with_a_cookie__comes_with_its_immediate(client: PyverbsConnection, s3: Any) -> None:
    data = content(100_000)
    s3.put_object(Bucket=BUCKET, Key="cookie", Body=data)
    for cookie in (1, 0xC0FFEE01):
        answer, got = client.get(f"/{BUCKET}/cookie", len(data), cookie)
        assert answer.headers["x-amz-rdma-reply"] == "200"
        assert got == data


def test_get__wrong_rkey__comes_in_the_body(
    served: GatewayProcess, s3: Any, devices: list[str]
) -> None:
    data = content(5000)
    s3.put_object(Bucket=BUCKET, Key="refused", Body=data)
    gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "1"))
    keys = (served.access_key, served.secret_key)
    with PyverbsConnection(served.address, *keys, devices[-1], gid_index, 5000) as peer:
        token = peer.token(5000)["x-amz-rdma-token"]
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        answer = peer.ask("GET", f"/{BUCKET}/refused", {"x-amz-rdma-token": wrong})
    assert answer.status == 200
    assert answer.headers["x-amz-rdma-reply"] == "501"
    assert answer.body == data
