"""What people do every day, done by the clients they do it with, as installed from a registry.

The same matrix for each; what is stored is seen through boto3, its bytes are compared by SHA-256.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from gateway_process import GatewayProcess
from odd_keys import COPY_LIMITS, ODD_KEYS, UPLOAD_LIMITS, Refused, Respelled
from raw_http import RawClient
from real_clients import CLIENT_NAMES, Client, ClientError, installed

pytestmark = pytest.mark.clients

MULTIPART_BYTES = 17 << 20  # four of the clients' 5 MiB parts
LISTED_KEYS = [f"listed/{number:04d} +é&.txt" for number in range(2_500)]  # three pages of S3's
FILLERS = 4
BUCKETLESS = {"obstore", "opendal", "s3torchconnector"}  # these don't make buckets
LOOK_BEFORE_REMOVING = {"pyarrow", "rclone"}

# What each client says where S3 says NoSuchKey, or 404 to HEAD.
MISSING_KEY = {
    "awscli": 'Key "never-put" does not exist',
    "boto3": r"\(404\) when calling the HeadObject operation: Not Found",
    "js_sdk": "NoSuchKey: .* The specified key does not exist",
    "minio_js": "S3Error: NotFound",
    "minio_py": "code: NoSuchKey, message: Object does not exist",
    "obstore": "FileNotFoundError: Object at location never-put not found",
    "opendal": "NotFound .* at read => S3Error { code: .NoSuchKey",
    "pyarrow": "FileNotFoundError: .* Path does not exist",
    "rclone": "exit 9",  # no files transferred
    "s3cmd": "Source object 's3://.*/never-put' does not exist",
    "s3fs": "FileNotFoundError: The specified key does not exist",
    "s3torchconnector": "S3Exception: Service error: The key does not exist",
    "s5cmd": "NoSuchKey: The specified key does not exist.",
}


@pytest.fixture(scope="module", params=CLIENT_NAMES)
def client(
    request: pytest.FixtureRequest, served: GatewayProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    with installed():
        started = Client(request.param, served, tmp_path_factory.mktemp("home"))
    with started:
        yield started


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of several parts; nobody writes to it."""
    return make_file(tmp_path_factory.mktemp("large") / "source", MULTIPART_BYTES)


@pytest.fixture(scope="module")
def crowded(served: GatewayProcess, s3: Any) -> str:
    """A bucket of 2,500 keys; nobody writes to it. Filled without boto3, for half of its cost."""
    name = "t-crowded"
    s3.create_bucket(Bucket=name)

    def fill(keys: list[str]) -> None:
        with RawClient(served.address, served.access_key, served.secret_key) as raw:
            for key in keys:
                assert raw.ask("PUT", f"/{name}/{quote(key)}").status == 200

    with ThreadPoolExecutor(FILLERS) as pool:
        list(pool.map(fill, (LISTED_KEYS[first::FILLERS] for first in range(FILLERS))))
    return name


def make_file(path: Path, length_bytes: int) -> Path:
    path.write_bytes(random.Random(length_bytes).randbytes(length_bytes))
    return path


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def stored(s3: Any, bucket: str) -> dict[str, str]:
    """Every key and its bytes' SHA-256, as boto3 sees them."""
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", ())]
    bodies = {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
    return {key: sha256(body).hexdigest() for key, body in bodies.items()}


@pytest.mark.parametrize("length_bytes", [0, 1, 4097])
def test_upload_and_download__small_file__comes_back_identical(
    client: Client, s3: Any, bucket: str, tmp_path: Path, length_bytes: int
) -> None:
    source, back = make_file(tmp_path / "source", length_bytes), tmp_path / "back"
    client.put(source, bucket, "some/key.bin")
    assert stored(s3, bucket) == {"some/key.bin": digest(source)}
    client.get(bucket, "some/key.bin", back)
    assert digest(back) == digest(source)


def test_upload_and_download__large_file__goes_in_parts_and_comes_back_identical(
    client: Client, s3: Any, bucket: str, large: Path, tmp_path: Path
) -> None:
    client.put(large, bucket, "large")
    assert stored(s3, bucket) == {"large": digest(large)}
    _, dash, parts = s3.head_object(Bucket=bucket, Key="large")["ETag"].strip('"').partition("-")
    assert dash
    assert int(parts) >= 2
    client.get(bucket, "large", tmp_path / "back")
    assert digest(tmp_path / "back") == digest(large)


def test_ranged_read__middle_of_a_large_object__is_that_range(
    client: Client, served: GatewayProcess, s3: Any, bucket: str, large: Path, tmp_path: Path
) -> None:
    s3.upload_file(str(large), bucket, "large")
    offset, length = 6_000_000, 70_001
    client.get_range(bucket, "large", tmp_path / "part", offset, length)
    assert (tmp_path / "part").read_bytes() == large.read_bytes()[offset : offset + length]
    assert stored(s3, bucket) == {"large": digest(large)}  # and by then the reads are logged
    assert served.log_lines(f" GET /{bucket}/large\\S* 206 ")


def test_list__2500_keys__gives_each_once_in_order(client: Client, crowded: str) -> None:
    assert client.keys(crowded) == LISTED_KEYS


def test_copy__large_object__is_identical_and_the_source_stays(
    client: Client, s3: Any, bucket: str, large: Path
) -> None:
    s3.upload_file(str(large), bucket, "first")
    client.copy(bucket, "first", "second/of that name")
    assert stored(s3, bucket) == {"first": digest(large), "second/of that name": digest(large)}


def test_remove__one_of_two_objects__leaves_the_other(client: Client, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="first", Body=b"1")
    s3.put_object(Bucket=bucket, Key="second", Body=b"2")
    client.remove(bucket, "first")
    assert client.keys(bucket) == ["second"]
    assert stored(s3, bucket).keys() == {"second"}


def test_remove_all__keys_that_xml_escapes__leaves_nothing(
    client: Client, s3: Any, bucket: str
) -> None:
    keys = ["a&b.txt", "deep/er/<c>.txt", "ünï +1.txt"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    client.remove_all(bucket, keys)
    assert not stored(s3, bucket)


@pytest.mark.parametrize("name", ODD_KEYS)
def test_odd_key__is_stored_as_spelled_listed_fetched_and_removed(
    client: Client, s3: Any, bucket: str, tmp_path: Path, name: str
) -> None:
    key = ODD_KEYS[name]
    source, back = make_file(tmp_path / "source", 1_000), tmp_path / "back"
    match UPLOAD_LIMITS.get((client.name, name)):
        case Refused(words):
            with pytest.raises(ClientError, match=words):
                client.put(source, bucket, key)
            assert not stored(s3, bucket)
            return
        case Respelled(other):
            key = other
    client.put(source, bucket, ODD_KEYS[name])
    assert stored(s3, bucket) == {key: digest(source)}
    assert client.keys(bucket) == [key]
    client.get(bucket, key, back)
    assert digest(back) == digest(source)
    client.remove(bucket, key)
    assert key not in stored(s3, bucket)


@pytest.mark.parametrize(
    ("client", "name"),
    [pair for pair in product(CLIENT_NAMES, ODD_KEYS) if pair not in UPLOAD_LIMITS],
    indirect=["client"],
    scope="module",
)
def test_odd_key__copied__is_that_object(
    client: Client, s3: Any, bucket: str, tmp_path: Path, name: str
) -> None:
    source = make_file(tmp_path / "source", 1_000)
    s3.upload_file(str(source), bucket, ODD_KEYS[name])
    if limit := COPY_LIMITS.get((client.name, name)):
        with pytest.raises(ClientError, match=limit.words):
            client.copy(bucket, ODD_KEYS[name], "copy")
    else:
        client.copy(bucket, ODD_KEYS[name], "copy of +1.txt")
        assert stored(s3, bucket)["copy of +1.txt"] == digest(source)


def test_missing_key__fetched__is_the_clients_own_error_and_leaves_no_file(
    client: Client, bucket: str, tmp_path: Path
) -> None:
    with pytest.raises(ClientError, match=MISSING_KEY[client.name]):
        client.get(bucket, "never-put", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_missing_key__removed__is_no_error_but_to_who_looks_first(
    client: Client, bucket: str
) -> None:
    if client.name in LOOK_BEFORE_REMOVING:
        with pytest.raises(ClientError, match=r"doesn't exist|does not exist"):
            client.remove(bucket, "never-put")
    else:
        client.remove(bucket, "never-put")


def test_bucket__made_filled_and_emptied__can_be_removed_only_then(
    client: Client, s3: Any, bucket: str, tmp_path: Path
) -> None:
    own = f"{bucket}-own"
    if client.name in BUCKETLESS:
        with pytest.raises(ClientError, match="has no attribute 'make_bucket'"):
            client.make_bucket(own)
        return
    client.make_bucket(own)
    client.put(make_file(tmp_path / "file", 10), own, "key")
    if client.name != "pyarrow":  # which empties it first
        with pytest.raises(ClientError):
            client.remove_bucket(own)
        client.remove(own, "key")
    client.remove_bucket(own)
    assert own not in {entry["Name"] for entry in s3.list_buckets()["Buckets"]}
