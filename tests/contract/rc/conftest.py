"""A gateway on each fabric that is at hand, and connected clients of it.

PROTOCOL sections 3 and 4, rule by rule: the tests here know the page and no line of the gateway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from raw_http import RawClient
from rc_client import Desk, RcClient
from rc_fabrics import AT_HAND, BOB, RcFabric

BUCKET = "connected"


@pytest.fixture(scope="session", params=AT_HAND, ids=str)
def fabric(request: pytest.FixtureRequest) -> RcFabric:
    found: RcFabric = request.param
    return found


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the key of another account."""
    file = tmp_path_factory.mktemp("keys") / "credentials"
    file.touch(0o600)
    file.write_text(
        f"[bob]\naws_access_key_id = {BOB[0]}\naws_secret_access_key = {BOB[1]}\nuser_id = bob\n"
    )
    return file


@pytest.fixture(scope="session")
def gateway(
    fabric: RcFabric, keys: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    flags = ("--credentials-file", str(keys), "--store-durability", "none")
    with gateway_process(tmp_path_factory.mktemp("rc"), *fabric.flags, *flags) as process:
        yield process


@pytest.fixture(scope="session")
def s3(gateway: GatewayProcess) -> Iterator[Any]:
    """The same objects over plain HTTP: a second witness."""
    with closing(boto3_client(gateway)) as client:
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture
def bucket(s3: Any) -> str:
    return BUCKET


@pytest.fixture
async def peer(fabric: RcFabric, gateway: GatewayProcess, bucket: str) -> AsyncIterator[RcClient]:
    async with fabric.client(gateway) as connected:
        yield connected


@pytest.fixture
def desk(gateway: GatewayProcess) -> Desk:
    """Plain requests, without a queue pair."""
    return Desk.of(gateway)


@pytest.fixture
def raw(gateway: GatewayProcess) -> Iterator[RawClient]:
    """Requests with a body, and ones that botocore's clients would not send."""
    with RawClient(gateway.address, gateway.access_key, gateway.secret_key) as client:
        yield client
