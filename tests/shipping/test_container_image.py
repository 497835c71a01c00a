"""The image is built from the Dockerfile, run as an admin would, and used by clients outside."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import time
from collections.abc import Iterator

import boto3
import pytest
from container import Container, Engine

from gateway.client import SyncClient
from gateway.client.models import TransferPath

KEYS = {"S3RDMA_ACCESS_KEY": "AKCONTAINER", "S3RDMA_SECRET_KEY": secrets.token_urlsafe(24)}
START_LIMIT_S = 30.0
pytestmark = pytest.mark.timeout(900)  # the first test builds the image


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def endpoint() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def container(engine: Engine, endpoint: str) -> Iterator[Container]:
    ports = {
        "S3RDMA_LISTEN": endpoint.removeprefix("http://"),
        "S3RDMA_ADMIN_PORT": str(free_port()),
    }
    with engine.running(f"s3rdma-{os.getpid()}", KEYS | ports) as one:
        until_it_serves(one)
        yield one


def until_it_serves(container: Container, times: int = 1) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while container.log().count("s3rdma: serving") < times:
        assert time.monotonic() < deadline_s, container.log()
        time.sleep(0.2)


@pytest.fixture
def s3(endpoint: str):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEYS["S3RDMA_ACCESS_KEY"],
        aws_secret_access_key=KEYS["S3RDMA_SECRET_KEY"],
        region_name="us-east-1",
    )


@pytest.fixture(autouse=True)
def keys_in_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["S3RDMA_ACCESS_KEY"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["S3RDMA_SECRET_KEY"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def test_container__just_started__healthy_and_an_ordinary_user(container):
    assert container.healthy(), container.log()
    assert container.execute("id", "--user").strip() != "0"


def test_container__boto3__an_object_comes_back(container, s3):
    data = os.urandom(3_000_000)
    s3.create_bucket(Bucket="boxed")
    s3.put_object(Bucket="boxed", Key="by http", Body=data)
    assert s3.get_object(Bucket="boxed", Key="by http")["Body"].read() == data


def test_container__a_client_of_the_host__its_bytes_go_by_rdma(container, endpoint, s3):
    data = os.urandom(5_000_001)
    s3.create_bucket(Bucket="rdma")
    with SyncClient(endpoint_url=endpoint) as client:
        put = client.put_from("rdma", "key", data)
        into = bytearray(len(data))
        got = client.get_into("rdma", "key", into)
    assert {put.path, got.path} == {TransferPath.RDMA}, (put, got)
    assert hashlib.sha256(into).digest() == hashlib.sha256(data).digest()


def test_container__its_root_is_read_only__only_the_volume_takes_files(container):
    with pytest.raises(RuntimeError, match="Read-only file system"):
        container.execute("touch", "/opt/s3rdma/x")


def test_container__stopped_and_started_again__its_objects_are_there(container, s3):
    s3.create_bucket(Bucket="lasting")
    s3.put_object(Bucket="lasting", Key="key", Body=b"kept")
    assert container.stop() == 0, container.log()
    container.start()
    until_it_serves(container, times=2)
    assert s3.get_object(Bucket="lasting", Key="key")["Body"].read() == b"kept"
