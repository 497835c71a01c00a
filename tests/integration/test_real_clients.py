"""The daily commands of boto3, aws-cli, s3cmd and rclone, as installed from a registry."""

from __future__ import annotations

import random
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from gateway_process import GatewayProcess
from real_clients import AwsCli, Boto3, Client, CommandError, Rclone, S3cmd

pytestmark = pytest.mark.clients

MULTIPART_BYTES = 20_000_000
ODD_NAMES = (
    "plain.txt",
    "with space.txt",
    "plus+sign.txt",
    "percent%20.txt",
    "dir/deep/ünï cödé ✓.txt",
    "dir/tilde~(1)'!&=,;@.txt",
)


@pytest.fixture(params=[Boto3, AwsCli, S3cmd, Rclone], ids=lambda kind: kind.__name__.lower())
def client(
    request: pytest.FixtureRequest, served: GatewayProcess, tmp_path_factory: pytest.TempPathFactory
) -> Client:
    return request.param(served, tmp_path_factory.mktemp("home"))


@pytest.fixture
def new_bucket(request: pytest.FixtureRequest) -> str:
    """The name of a bucket that isn't there yet."""
    return "t-" + sha256(request.node.nodeid.encode()).hexdigest()[:16]


def make_file(path: Path, length_bytes: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(str(path.name)).randbytes(length_bytes))
    return path


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("length_bytes", [0, 1, 4097, MULTIPART_BYTES])
def test_put_and_get__file__comes_back_identical(
    client: Client, new_bucket: str, tmp_path: Path, length_bytes: int
) -> None:
    source, back = make_file(tmp_path / "source", length_bytes), tmp_path / "back"
    client.make_bucket(new_bucket)
    client.put(source, new_bucket, "some/key.bin")
    client.get(new_bucket, "some/key.bin", back)
    assert digest(back) == digest(source)


def test_copy__multipart_object__is_identical_and_the_source_stays(
    client: Client, new_bucket: str, tmp_path: Path
) -> None:
    source, back = make_file(tmp_path / "source", MULTIPART_BYTES), tmp_path / "back"
    client.make_bucket(new_bucket)
    client.put(source, new_bucket, "first")
    client.copy(new_bucket, "first", "second/of that name")
    client.get(new_bucket, "second/of that name", back)
    assert digest(back) == digest(source)
    assert client.keys(new_bucket) == {"first", "second/of that name"}


def test_sync__odd_names__are_listed_fetched_and_removed(
    client: Client, new_bucket: str, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    for name in ODD_NAMES:
        make_file(tree / name, 1000)
    client.make_bucket(new_bucket)
    client.sync(tree, new_bucket)
    assert client.keys(new_bucket) == set(ODD_NAMES)
    for number, name in enumerate(ODD_NAMES):
        back = tmp_path / f"back{number}"
        client.get(new_bucket, name, back)
        assert digest(back) == digest(tree / name), name
        client.remove(new_bucket, name)
    assert client.keys(new_bucket) == set()


def test_remove_bucket__emptied__is_gone(client: Client, new_bucket: str, tmp_path: Path) -> None:
    client.make_bucket(new_bucket)
    client.put(make_file(tmp_path / "file", 10), new_bucket, "key")
    with pytest.raises(CommandError):
        client.remove_bucket(new_bucket)
    client.remove(new_bucket, "key")
    client.remove_bucket(new_bucket)
    with pytest.raises(CommandError):
        client.keys(new_bucket)


def test_get__missing_key__fails_and_leaves_no_file(
    client: Client, new_bucket: str, tmp_path: Path
) -> None:
    client.make_bucket(new_bucket)
    with pytest.raises(CommandError):
        client.get(new_bucket, "never-put", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_presign__aws_cli__url_opens_without_credentials_until_altered(
    served: GatewayProcess, new_bucket: str, tmp_path: Path
) -> None:
    client = AwsCli(served, tmp_path)
    source = make_file(tmp_path / "source", 5000)
    client.make_bucket(new_bucket)
    client.put(source, new_bucket, "odd name+1.bin")
    url = client.presign(new_bucket, "odd name+1.bin", 60)
    with urlopen(url, timeout=10) as reply:
        assert reply.read() == source.read_bytes()
    path = urlsplit(url).path
    with pytest.raises(HTTPError) as refused:
        urlopen(url.replace(path, path + "x"), timeout=10)
    with refused.value as reply:
        assert reply.code == 403
        assert b"SignatureDoesNotMatch" in reply.read()
