"""A real gateway in a process of its own, and clients that are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from raw_http import RawClient


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One gateway for all tests that leave it as they found it; plain HTTP only."""
    with gateway_process(tmp_path_factory.mktemp("served"), "--rdma-fabric", "off") as process:
        yield process


@pytest.fixture(scope="session")
def s3(served: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(served)) as client:
        yield client


@pytest.fixture
def bucket(request: pytest.FixtureRequest, s3: Any) -> str:
    """A fresh bucket that no other test uses."""
    name = "t-" + sha256(request.node.nodeid.encode()).hexdigest()[:16]
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def raw(served: GatewayProcess) -> Iterator[RawClient]:
    """One connection to the gateway, and a signer that is botocore's."""
    with RawClient(served.address, served.access_key, served.secret_key) as client:
        yield client
