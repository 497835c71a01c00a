"""The gateway against a client that shares no line with it, in each direction."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from pyverbs_peer import Habits, PeerError, PyverbsPeer

pytestmark = pytest.mark.rdma

BUCKET = "peer"
SIZES_BYTES = (1, 4096, 2**20 + 1, 16 * 2**20)
HABITS = {
    "plain": Habits(),
    "uppercase": Habits(uppercase=True),
    "bare-token": Habits(bare_token=True),
    "loopback-token": Habits(loopback_token=True),
}


@pytest.fixture(scope="module")
def served(
    devices: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    with gateway_process(directory, "--rdma-device", devices[0]) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def s3(served: GatewayProcess) -> Any:
    """The same objects over plain HTTP: a second witness of what was stored."""
    client = boto3_client(served)
    client.create_bucket(Bucket=BUCKET)
    return client


def peer(served: GatewayProcess, device: str, habits: Habits = HABITS["plain"]) -> PyverbsPeer:
    gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "1"))
    keys = (served.access_key, served.secret_key)
    return PyverbsPeer(served.address, *keys, device, gid_index, habits)


def content(length_bytes: int) -> bytes:
    return random.Random(length_bytes).randbytes(length_bytes)


@pytest.mark.parametrize("size_bytes", SIZES_BYTES)
def test_put_and_get__any_size__bytes_are_identical(
    served: GatewayProcess, s3: Any, devices: list[str], size_bytes: int
) -> None:
    client, data = peer(served, devices[-1]), content(size_bytes)
    target = f"/{BUCKET}/size-{size_bytes}"
    stored = client.put(target, data)
    assert stored.length_bytes == size_bytes
    witness = s3.get_object(Bucket=BUCKET, Key=f"size-{size_bytes}")
    assert witness["Body"].read() == data
    assert witness["ETag"].strip('"') == stored.etag
    fetched = client.get(target, size_bytes)
    assert fetched.data == data
    assert (fetched.length_bytes, fetched.etag) == (size_bytes, stored.etag)


def test_get__with_offset__is_that_range(
    served: GatewayProcess, s3: Any, devices: list[str]
) -> None:
    data = content(100_000)
    s3.put_object(Bucket=BUCKET, Key="ranged", Body=data)
    fetched = peer(served, devices[-1]).get(f"/{BUCKET}/ranged", 5000, offset_bytes=70_001)
    assert fetched.data == data[70_001:75_001]


@pytest.mark.parametrize("habit", HABITS)
def test_put_and_get__habits_of_clients_in_the_field__work(
    served: GatewayProcess, s3: Any, devices: list[str], habit: str
) -> None:
    # A loopback token says "on your own HCA": so the peer is on the gateway's device.
    device = devices[0] if HABITS[habit].loopback_token else devices[-1]
    client, data = peer(served, device, HABITS[habit]), content(70_000)
    client.put(f"/{BUCKET}/{habit}", data)
    assert client.get(f"/{BUCKET}/{habit}", len(data)).data == data


def test_get__receive_posted_after_ready__is_carried_by_rnr_retries(
    served: GatewayProcess, s3: Any, devices: list[str]
) -> None:
    data = content(50_000)
    s3.put_object(Bucket=BUCKET, Key="late", Body=data)
    late = peer(served, devices[-1], Habits(late_receive_s=0.5))
    assert late.get(f"/{BUCKET}/late", len(data)).data == data


def test_put__percent_encoded_key__is_the_key_that_http_sees(
    served: GatewayProcess, s3: Any, devices: list[str]
) -> None:
    data = content(3000)
    peer(served, devices[-1]).put(f"/{BUCKET}/a%20b%2Bc/%C3%BC", data)
    assert s3.get_object(Bucket=BUCKET, Key="a b+c/ü")["Body"].read() == data


def test_put__multipart__parts_by_rdma_make_one_object(
    served: GatewayProcess, s3: Any, devices: list[str]
) -> None:
    client = peer(served, devices[-1])
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    bodies = {1: content(5 * 2**20), 2: content(1234)}
    etags = {
        number: client.put(f"/{BUCKET}/parts?partNumber={number}&uploadId={upload}", body).etag
        for number, body in bodies.items()
    }
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in etags.items()]
    s3.complete_multipart_upload(
        Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    stored = s3.get_object(Bucket=BUCKET, Key="parts")["Body"].read()
    assert stored == b"".join(bodies.values())


def test_get__missing_key__is_404_before_any_data(
    served: GatewayProcess, s3: Any, devices: list[str]
) -> None:
    with pytest.raises(PeerError) as refused:
        peer(served, devices[-1]).get(f"/{BUCKET}/never-put", 10)
    assert refused.value.status == 404
    assert "NoSuchKey" in str(refused.value)


def test_put__wrong_secret__is_403(served: GatewayProcess, s3: Any, devices: list[str]) -> None:
    gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "1"))
    impostor = PyverbsPeer(served.address, served.access_key, "wrong", devices[-1], gid_index)
    with pytest.raises(PeerError) as refused:
        impostor.put(f"/{BUCKET}/stolen", b"x")
    assert refused.value.status == 403
