"""RDMA on the client's side, HTTP to Ceph behind: whole, in bounded memory, by both protocols."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest
from boto3_client import boto3_client
from botocore.credentials import Credentials
from gateway_process import GatewayProcess
from s3_servers import S3Server, purge_bucket
from upstream_gateway import gateway_before

from gateway.client import Client, TransferPath
from gateway.config import GIB, MIB
from gateway.config.client import ClientLimits

BUCKET = "upstream-rdma"
SIZES = [1, 4096, 8 * MIB, 8 * MIB + 1, 40 * MIB + 3]
LARGE_BYTES = 256 * MIB
RSS_LIMIT_BYTES = 300 * MIB  # 130 of them are the fabric's own staging


@pytest.fixture(scope="module")
def gateway(rgw: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--upstream-bucket-ttl-s", "60")
    with closing(rgw.client()) as s3:
        s3.create_bucket(Bucket=BUCKET)
        with gateway_before(rgw, tmp_path_factory.mktemp("rdma"), *flags) as process:
            yield process
        purge_bucket(s3, BUCKET)


@pytest.fixture(params=["rc", "hipobj-rc-v2"])
async def client(request: pytest.FixtureRequest, gateway: GatewayProcess) -> AsyncIterator[Client]:
    async with Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma="require",
        device="soft",
        protocol=request.param,
        limits=ClientLimits(part_bytes=GIB if request.param == "rc" else 64 * MIB),
    ) as running:
        yield running


@pytest.mark.parametrize("size_bytes", SIZES)
async def test_put_get__by_rdma__ceph_has_the_bytes_and_they_come_back(
    client: Client, rgw: S3Server, size_bytes: int
) -> None:
    data, back = os.urandom(size_bytes), bytearray(size_bytes)
    put = await client.put_from(BUCKET, "object", data)
    got = await client.get_into(BUCKET, "object", back)
    assert put.path is got.path is TransferPath.RDMA
    assert back == data
    with closing(rgw.client()) as s3:
        assert s3.get_object(Bucket=BUCKET, Key="object")["Body"].read() == data
        assert not s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads")


@pytest.mark.parametrize("client", ["rc"], indirect=True)
async def test_put_get__large_by_rc__memory_stays_flat(
    client: Client, gateway: GatewayProcess
) -> None:
    data, back = os.urandom(MIB) * (LARGE_BYTES // MIB), bytearray(LARGE_BYTES)
    await client.put_from(BUCKET, "large", data)
    await client.get_into(BUCKET, "large", back)
    assert back == data
    assert gateway.peak_rss_bytes() < RSS_LIMIT_BYTES


def test_put_get__large_by_http__memory_stays_flat(gateway: GatewayProcess) -> None:
    data = os.urandom(MIB) * (LARGE_BYTES // MIB)
    with closing(boto3_client(gateway)) as s3:
        s3.put_object(Bucket=BUCKET, Key="http", Body=data)
        running = hashlib.sha1()
        for piece in s3.get_object(Bucket=BUCKET, Key="http")["Body"].iter_chunks(MIB):
            running.update(piece)
    assert running.digest() == hashlib.sha1(data).digest()
    assert gateway.peak_rss_bytes() < RSS_LIMIT_BYTES
