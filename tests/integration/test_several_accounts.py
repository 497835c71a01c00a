"""Several accounts on one gateway: a file of keys, policies between them, forms from a browser."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from boto3_client import boto3_client
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from gateway_process import GatewayFailedError, GatewayProcess, gateway_process
from urllib3.filepost import encode_multipart_formdata

ALICE = ("AKIDALICE", "secret-of-alice")
BOB = ("AKIDBOB", "secret-of-bob")
CAROL = ("AKIDCAROL", "secret-of-carol")


def section(name: str, key: tuple[str, str]) -> str:
    return (
        f"[{name}]\naws_access_key_id = {key[0]}\naws_secret_access_key = {key[1]}\n"
        f"user_id = {name}\n\n"
    )


def write(file: Path, text: str) -> None:
    fresh = file.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_text(text)
    fresh.replace(file)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "credentials"
    write(file, section("alice", ALICE) + section("bob", BOB))
    return file


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[GatewayProcess]:
    """A gateway with Alice's and Bob's keys."""
    flags = ("--rdma-fabric", "off", "--credentials-file", str(keys))
    with gateway_process(tmp_path_factory.mktemp("shared"), *flags) as process:
        yield process


@contextmanager
def client_of(process: GatewayProcess, key: tuple[str, str]) -> Iterator[Any]:
    with closing(boto3_client(replace(process, access_key=key[0], secret_key=key[1]))) as client:
        yield client


@pytest.fixture(scope="module")
def alice(shared: GatewayProcess) -> Iterator[Any]:
    with client_of(shared, ALICE) as client:
        yield client


@pytest.fixture(scope="module")
def bob(shared: GatewayProcess) -> Iterator[Any]:
    with client_of(shared, BOB) as client:
        yield client


@pytest.fixture(scope="module")
def nobody(shared: GatewayProcess) -> Iterator[Any]:
    client = boto3.client(
        "s3",
        endpoint_url=shared.endpoint,
        region_name="us-east-1",
        config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}),
    )
    with closing(client):
        yield client


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as failure:
        call(**arguments)
    return str(failure.value.response["Error"]["Code"])


def send_form(post: dict[str, Any], data: bytes) -> tuple[int, dict[str, str]]:
    """What a browser does with a form that boto3 made."""
    parts = [*post["fields"].items(), ("file", ("photo.jpg", data, "image/jpeg"))]
    body, content_type = encode_multipart_formdata(parts)
    url = urlsplit(post["url"])
    with closing(HTTPConnection(url.netloc, timeout=30)) as connection:
        connection.request("POST", url.path, body, {"Content-Type": content_type})
        reply = connection.getresponse()
        reply.read()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}


def test_accounts__anothers_bucket__is_closed_until_its_policy_opens_it(
    alice: Any, bob: Any, nobody: Any
) -> None:
    alice.create_bucket(Bucket="alices")
    alice.put_object(Bucket="alices", Key="public/a", Body=b"data")
    for client in (bob, nobody):
        assert code_of(client.get_object, Bucket="alices", Key="public/a") == "AccessDenied"
        assert code_of(client.list_objects_v2, Bucket="alices") == "AccessDenied"
        assert code_of(client.get_object, Bucket="none", Key="k") == "NoSuchBucket"
    allow = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam:::user/bob"},
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::alices/public/*",
    }
    alice.put_bucket_policy(Bucket="alices", Policy=json.dumps({"Statement": allow}))
    assert bob.get_object(Bucket="alices", Key="public/a")["Body"].read() == b"data"
    assert code_of(nobody.get_object, Bucket="alices", Key="public/a") == "AccessDenied"
    assert code_of(bob.put_object, Bucket="alices", Key="public/b") == "AccessDenied"
    assert code_of(bob.get_object, Bucket="alices", Key="public/none") == "AccessDenied"


def test_accounts__anonymous__by_policy_only(alice: Any, nobody: Any) -> None:
    alice.create_bucket(Bucket="open")
    alice.put_object(Bucket="open", Key="k", Body=b"data")
    allow = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": ["arn:aws:s3:::open", "arn:aws:s3:::open/*"],
        "Condition": {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}},
    }
    alice.put_bucket_policy(Bucket="open", Policy=json.dumps({"Statement": allow}))
    assert nobody.get_object(Bucket="open", Key="k")["Body"].read() == b"data"
    assert code_of(nobody.get_object, Bucket="open", Key="none") == "NoSuchKey"
    assert code_of(nobody.delete_object, Bucket="open", Key="k") == "AccessDenied"


@pytest.mark.parametrize("version", ["s3v4", "s3"])
@pytest.mark.parametrize("size_bytes", [0, 10, 300_000])
def test_form__signed_by_boto3__stores_the_file(
    shared: GatewayProcess, alice: Any, version: str, size_bytes: int
) -> None:
    bucket = f"forms-{version}-{size_bytes}"
    alice.create_bucket(Bucket=bucket)
    data = os.urandom(size_bytes)
    own = replace(shared, access_key=ALICE[0], secret_key=ALICE[1])
    with closing(boto3_client(own, signature_version=version)) as signer:
        post = signer.generate_presigned_post(
            bucket,
            "up/${filename}",
            {"success_action_status": "201"},
            [{"success_action_status": "201"}, ["content-length-range", 0, 1_000_000]],
        )
    status, headers = send_form(post, data)
    assert status == 201
    assert headers["location"].endswith(f"/{bucket}/up%2Fphoto.jpg")
    assert alice.get_object(Bucket=bucket, Key="up/photo.jpg")["Body"].read() == data


def test_form__too_large__is_refused(alice: Any) -> None:
    alice.create_bucket(Bucket="small")
    conditions = [["content-length-range", 0, 10]]
    post = alice.generate_presigned_post("small", "k", None, conditions)
    assert send_form(post, b"x" * 11)[0] == 400
    assert code_of(alice.get_object, Bucket="small", Key="k") == "NoSuchKey"


def test_credentials_file__changed__is_read_at_sighup(
    shared: GatewayProcess, keys: Path, bob: Any
) -> None:
    with client_of(shared, CAROL) as carol:
        assert code_of(carol.list_buckets) == "InvalidAccessKeyId"
        write(keys, section("alice", ALICE) + section("carol", CAROL))
        os.kill(shared.pid, signal.SIGHUP)
        assert _soon(carol.list_buckets)
        assert code_of(bob.list_buckets) == "InvalidAccessKeyId"
        write(keys, "broken")
        os.kill(shared.pid, signal.SIGHUP)
        carol.list_buckets()
        write(keys, section("alice", ALICE) + section("bob", BOB))
        os.kill(shared.pid, signal.SIGHUP)
        assert _soon(bob.list_buckets)


def _soon(call: Any) -> bool:
    """Whether a call works within some tries: a signal takes a moment to arrive."""
    for _ in range(200):
        try:
            call()
        except ClientError:
            continue
        return True
    return False


def test_credentials_file__others_may_read_it__stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(section("alice", ALICE))
    file.chmod(0o644)
    with (
        pytest.raises(GatewayFailedError, match="chmod 600"),
        gateway_process(tmp_path, "--rdma-fabric", "off", "--credentials-file", str(file)),
    ):
        pass
