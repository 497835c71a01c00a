"""Each user's own key signs upstream: the service judges who may do what, not the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess
from s3_servers import S3Server, purge_bucket
from upstream_gateway import gateway_before

BUCKET = "users-own"
STRANGER = ("STRANGERACCESSKEY", "stranger-secret")


@pytest.fixture(scope="module")
def gateway(rgw: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """It knows two keys, and has none of its own upstream."""
    directory: Path = tmp_path_factory.mktemp("users")
    file = directory / "keys"
    file.write_text(
        f"[stranger]\naws_access_key_id = {STRANGER[0]}\naws_secret_access_key = {STRANGER[1]}\n"
    )
    file.chmod(0o600)
    flags = ("--upstream-credentials", "user", "--credentials-file", str(file))
    keyless = replace(rgw, access_key="", secret_key="")
    keys = (rgw.access_key, rgw.secret_key)
    with gateway_before(keyless, directory, "--rdma-fabric", "off", *flags, keys=keys) as process:
        yield process


def test_user__known_upstream__acts_in_his_own_name(gateway: GatewayProcess, rgw: S3Server) -> None:
    with closing(boto3_client(gateway)) as s3, closing(rgw.client()) as straight:
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"data")
        assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"data"
        assert BUCKET in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        assert straight.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"data"
        purge_bucket(straight, BUCKET)


def test_user__unknown_upstream__hears_it_from_there(gateway: GatewayProcess) -> None:
    stranger = replace(gateway, access_key=STRANGER[0], secret_key=STRANGER[1])
    with closing(boto3_client(stranger)) as s3:
        with pytest.raises(ClientError) as caught:
            s3.list_buckets()
        assert caught.value.response["Error"]["Code"] == "InvalidAccessKeyId"
        with pytest.raises(ClientError) as caught:
            s3.put_object(Bucket=BUCKET, Key="k", Body=b"data")
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
