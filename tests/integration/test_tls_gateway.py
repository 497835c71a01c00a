"""The S3 port over TLS: real clients, RDMA steered by https, and the admin port behind it, too."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError
from certificates import Authority
from gateway_process import GatewayProcess, gateway_process

from gateway.client import ConnectError, SyncClient, TransferPath
from gateway.client.boto3 import accelerate

BUCKET = "secured"
BODY = os.urandom(3 * 1024 * 1024 + 1)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue()
    return made


@pytest.fixture(scope="module")
def access_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "access"


@pytest.fixture(scope="module")
def gateway(
    authority: Authority, access_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--tls-certificate", str(authority.certificate))
    admin = ("--admin-tls", "true", "--log-access", str(access_log))
    with gateway_process(tmp_path_factory.mktemp("tls"), *flags, *admin) as process:
        yield process


@pytest.fixture(scope="module")
def endpoint(gateway: GatewayProcess) -> str:
    return gateway.endpoint.replace("http:", "https:")


def s3_client(gateway: GatewayProcess, endpoint: str, verify: str | bool) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=gateway.access_key,
        aws_secret_access_key=gateway.secret_key,
        region_name="us-east-1",
        verify=verify,
        config=Config(retries={"max_attempts": 0}),
    )


@pytest.fixture
def s3(gateway: GatewayProcess, endpoint: str, authority: Authority) -> Iterator[Any]:
    client = s3_client(gateway, endpoint, str(authority.bundle))
    client.create_bucket(Bucket=BUCKET)
    yield client
    for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=item["Key"])
    client.delete_bucket(Bucket=BUCKET)
    client.close()


def test_boto3__over_tls__sends_unsigned_chunks_with_a_trailer(s3: Any) -> None:
    sent: list[str] = []
    s3.meta.events.register(
        "before-send.s3.PutObject",
        lambda request, **_: sent.append(request.headers["X-Amz-Content-SHA256"].decode()),
    )
    s3.put_object(Bucket=BUCKET, Key="key", Body=BODY)
    assert sent == ["STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
    assert s3.get_object(Bucket=BUCKET, Key="key")["Body"].read() == BODY


def test_boto3__unknown_authority__is_refused_by_the_client(
    gateway: GatewayProcess, endpoint: str
) -> None:
    client = s3_client(gateway, endpoint, True)
    with pytest.raises(SSLError):
        client.list_buckets()
    client.close()


def test_accelerated_boto3__over_tls__moves_by_rdma(s3: Any, authority: Authority) -> None:
    accelerated = accelerate(s3, device="soft", verify=str(authority.bundle))
    s3.put_object(Bucket=BUCKET, Key="key", Body=BODY)
    assert s3.get_object(Bucket=BUCKET, Key="key")["Body"].read() == BODY
    assert (accelerated.transfers, accelerated.reason) == (2, None)
    accelerated.close()


def test_client__over_tls__moves_by_rdma(
    s3: Any, gateway: GatewayProcess, endpoint: str, authority: Authority
) -> None:
    del s3
    options = {"rdma": "require", "device": "soft", "region_name": "us-east-1"}
    credentials = boto3.Session(gateway.access_key, gateway.secret_key).get_credentials()
    with SyncClient(
        endpoint_url=endpoint, credentials=credentials, verify=str(authority.bundle), **options
    ) as client:
        client.put_from(BUCKET, "key", BODY)
        back = bytearray(len(BODY))
        assert client.get_into(BUCKET, "key", back).path is TransferPath.RDMA
    assert back == BODY
    with (
        SyncClient(endpoint_url=endpoint, credentials=credentials, **options) as client,
        pytest.raises(ConnectError, match="certificate verify failed"),
    ):
        client.head(BUCKET, "key")


@pytest.mark.parametrize("how", ["--ca-bundle", "AWS_CA_BUNDLE", "--no-verify-ssl"])
def test_command_line__over_tls__knows_whom_to_trust(
    s3: Any,
    gateway: GatewayProcess,
    endpoint: str,
    authority: Authority,
    how: str,
) -> None:
    del s3
    flags = {"--ca-bundle": ["--ca-bundle", str(authority.bundle)], "--no-verify-ssl": [how]}
    variables = {"AWS_CA_BUNDLE": str(authority.bundle)} if how == "AWS_CA_BUNDLE" else {}
    environment = os.environ | gateway.client_environment | {"AWS_ENDPOINT_URL": endpoint}
    listed = subprocess.run(
        [sys.executable, "-m", "gateway", "ls", *flags.get(how, [])],
        env=environment | variables,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert BUCKET in listed.stdout


def test_admin__over_tls__answers_those_who_trust_it(
    gateway: GatewayProcess, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.bundle))
    assert gateway.admin.startswith("https://")
    with urllib.request.urlopen(f"{gateway.admin}/metrics", context=context) as reply:
        text = reply.read().decode()
    (expiry,) = [
        line for line in text.splitlines() if line.startswith("s3rdma_certificate_expiry_")
    ]
    assert float(expiry.split()[1]) > 1.7e9
    with pytest.raises(OSError, match=r"closed|refused|reset"):
        urllib.request.urlopen(gateway.admin.replace("https:", "http:")).close()


def test_access_log__over_tls__names_version_and_cipher(s3: Any, access_log: Path) -> None:
    s3.put_object(Bucket=BUCKET, Key="logged", Body=b"x")
    s3.head_object(Bucket=BUCKET, Key="logged")  # by the same connection, so after the line
    lines = access_log.read_text().splitlines()
    (line,) = [one for one in lines if "REST.PUT.OBJECT logged" in one]
    assert " TLS_AES_" in line
    assert " TLSV1.3 " in line
