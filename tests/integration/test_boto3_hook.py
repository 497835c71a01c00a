"""boto3 as its users have it, accelerated, against a real gateway on the soft fabric."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess, gateway_process

from gateway.client.boto3 import Acceleration, accelerate
from gateway.config import MIB

BUCKET = "hooked"
SIZE = 3 * MIB + 7


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--rdma-connections", "64")
    with gateway_process(tmp_path_factory.mktemp("hooked"), *flags) as process:
        with closing(boto3_client(process)) as client:
            client.create_bucket(Bucket=BUCKET)
        yield process


@pytest.fixture
def plain(gateway: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(gateway)) as client:
        yield client


@pytest.fixture
def hooked(gateway: GatewayProcess) -> Iterator[tuple[Any, Acceleration]]:
    with closing(boto3_client(gateway)) as client:
        acceleration = accelerate(client, device="soft")
        yield client, acceleration
        acceleration.close()


def http_bytes(gateway: GatewayProcess, key: str) -> int:
    """What the gateway says went over HTTP, in or out, as bodies of that object."""
    lines = gateway.log_lines(rf"(GET|PUT) /{BUCKET}/{key}[ ?]")
    assert lines
    counts = re.findall(r" in=(\d+) out=(\d+) ", "\n".join(lines))
    return sum(int(count) for pair in counts for count in pair)


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in answer if name not in {"Body", "ResponseMetadata"}}


def test_put_and_get__large__go_by_rdma_with_the_same_results(
    gateway: GatewayProcess, plain: Any, hooked: tuple[Any, Acceleration]
) -> None:
    s3, acceleration = hooked
    data = secrets.token_bytes(SIZE)
    wanted = {"Metadata": {"colour": "blue"}, "ContentType": "text/x-y"}
    put = s3.put_object(Bucket=BUCKET, Key="both", Body=data, **wanted)
    got = s3.get_object(Bucket=BUCKET, Key="both", ChecksumMode="ENABLED")
    assert got["Body"].read() == data
    assert (acceleration.transfers, acceleration.bytes) == (2, 2 * SIZE), acceleration.reason
    assert http_bytes(gateway, "both") == 0
    assert got["ETag"] == put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    by_http = plain.get_object(Bucket=BUCKET, Key="both", ChecksumMode="ENABLED")
    assert by_http["Body"].read() == data
    assert comparable(got) == comparable(by_http)
    assert comparable(put) == comparable(
        plain.put_object(Bucket=BUCKET, Key="both", Body=data, **wanted)
    )


@pytest.mark.parametrize(
    "text", [f"bytes=5-{2 * MIB}", f"bytes=-{2 * MIB}", "bytes=99-", f"bytes=9-{SIZE + MIB}"]
)
def test_get__ranged__is_the_same_range(
    plain: Any, hooked: tuple[Any, Acceleration], text: str
) -> None:
    s3, acceleration = hooked
    data = secrets.token_bytes(SIZE)
    plain.put_object(Bucket=BUCKET, Key="ranged", Body=data)
    got = s3.get_object(Bucket=BUCKET, Key="ranged", Range=text)
    by_http = plain.get_object(Bucket=BUCKET, Key="ranged", Range=text)
    assert got["Body"].read() == by_http["Body"].read()
    assert comparable(got) == comparable(by_http)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert acceleration.transfers == 1


def test_body__read_in_every_way__is_the_object(
    plain: Any, hooked: tuple[Any, Acceleration]
) -> None:
    s3, _ = hooked
    data = secrets.token_bytes(2 * MIB)
    plain.put_object(Bucket=BUCKET, Key="body", Body=data)

    def body() -> Any:
        return s3.get_object(Bucket=BUCKET, Key="body")["Body"]

    assert b"".join(body().iter_chunks(100_000)) == data
    assert body().read(10) == data[:10]
    into = bytearray(len(data))
    assert body().readinto(into) == len(data)
    assert into == data
    with body() as stream:
        assert stream.read() == data


def test_transfers__of_files__go_by_rdma_in_their_parts(
    gateway: GatewayProcess, hooked: tuple[Any, Acceleration], tmp_path: Path
) -> None:
    s3, acceleration = hooked
    data = secrets.token_bytes(40 * MIB)
    (tmp_path / "in").write_bytes(data)
    told: list[int] = []
    parts = TransferConfig(max_concurrency=4)
    s3.upload_file(str(tmp_path / "in"), BUCKET, "file", Callback=told.append, Config=parts)
    assert sum(told) == len(data)
    s3.download_file(BUCKET, "file", str(tmp_path / "out"), Config=parts)
    assert (tmp_path / "out").read_bytes() == data
    assert (acceleration.transfers, acceleration.bytes) == (10, 80 * MIB), acceleration.reason
    assert http_bytes(gateway, "file") == 0


def test_body__a_file__is_sent_from_its_place(
    plain: Any, hooked: tuple[Any, Acceleration], tmp_path: Path
) -> None:
    s3, acceleration = hooked
    data = secrets.token_bytes(2 * MIB)
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as file:
        s3.put_object(Bucket=BUCKET, Key="opened", Body=file)
    assert plain.get_object(Bucket=BUCKET, Key="opened")["Body"].read() == data
    assert acceleration.transfers == 1


@pytest.mark.parametrize("size", [0, 1, MIB - 1])
def test_body__small__stays_with_botocore(hooked: tuple[Any, Acceleration], size: int) -> None:
    s3, acceleration = hooked
    data = secrets.token_bytes(size)
    s3.put_object(Bucket=BUCKET, Key="small", Body=data)
    assert s3.get_object(Bucket=BUCKET, Key="small")["Body"].read() == data
    assert (acceleration.transfers, acceleration.reason) == (0, None)


def test_errors__are_botocores(plain: Any, hooked: tuple[Any, Acceleration]) -> None:
    s3, acceleration = hooked
    data = bytes(2 * MIB)
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=BUCKET, Key="none")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        s3.put_object(Bucket="nowhere", Key="none", Body=data)
    plain.put_object(Bucket=BUCKET, Key="once", Body=b"first")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=BUCKET, Key="once", Body=data, IfNoneMatch="*")
    with pytest.raises(ClientError, match="304"):
        s3.get_object(
            Bucket=BUCKET, Key="once", IfNoneMatch=s3.head_object(Bucket=BUCKET, Key="once")["ETag"]
        )
    with pytest.raises(ClientError, match="BadDigest"):
        s3.put_object(Bucket=BUCKET, Key="bad", Body=data, ChecksumCRC32="AAAAAA==")
    assert acceleration.transfers == 0


def test_server__without_rdma__is_untouched(served: GatewayProcess, bucket: str) -> None:
    data = secrets.token_bytes(2 * MIB)
    with closing(boto3_client(served)) as s3:
        acceleration = accelerate(s3, device="soft")
        s3.put_object(Bucket=bucket, Key="k", Body=data)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data
        assert acceleration.transfers == 0
        assert "makes no RDMA connections" in str(acceleration.reason)
        acceleration.close()
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data


def test_host__without_a_device__is_untouched(gateway: GatewayProcess) -> None:
    data = secrets.token_bytes(2 * MIB)
    with closing(boto3_client(gateway)) as s3:
        acceleration = accelerate(s3, device="nosuchdevice")
        s3.put_object(Bucket=BUCKET, Key="plain", Body=data)
        assert s3.get_object(Bucket=BUCKET, Key="plain")["Body"].read() == data
        assert "can't do RDMA" in str(acceleration.reason)
        acceleration.close()
