"""Clients' own checks of what they stored, and what only some clients can do."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import real_clients
from gateway_process import GatewayProcess
from real_clients import (
    Client,
    ClientError,
    MissingClientError,
    client_environment,
    installed,
    program,
)

pytestmark = pytest.mark.clients

SYNC_NAMES = ("plain.txt", "with space.txt", "plus+sign.txt", "percent%20.txt", "dir/ünï/✓.txt")
RACERS = 4
COMMAND_LIMIT_S = 100.0


@contextmanager
def started(name: str, gateway: GatewayProcess, home: Path) -> Iterator[Client]:
    home.mkdir(exist_ok=True)
    with installed():
        client = Client(name, gateway, home)
    with client:
        yield client


@pytest.fixture
def rclone(served: GatewayProcess, tmp_path: Path) -> Iterator[Client]:
    with started("rclone", served, tmp_path / "home") as client:
        yield client


@pytest.fixture
def obstore(served: GatewayProcess, tmp_path: Path) -> Iterator[Client]:
    with started("obstore", served, tmp_path / "home") as client:
        yield client


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory of files with odd names, one of them several parts long.

    They are an hour old: aws-cli sends again what is newer than the whole second S3 shows.
    """
    root = tmp_path / "tree"
    for number, name in enumerate(SYNC_NAMES):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(1000 + number))
    (root / "large.bin").write_bytes(random.Random(0).randbytes(12 << 20))
    for path in root.rglob("*"):
        os.utime(path, (time.time() - 3600,) * 2)
    return root


@pytest.mark.parametrize("name", ["awscli", "rclone", "s3cmd"])
def test_sync__twice__stores_each_file_once(
    served: GatewayProcess, s3: Any, bucket: str, tree: Path, tmp_path: Path, name: str
) -> None:
    with started(name, served, tmp_path / "home") as client:
        client.call("sync", tree, bucket)
        client.call("sync", tree, bucket)
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert {entry["Key"]: entry["Size"] for entry in listed} == {
        path.relative_to(tree).as_posix(): path.stat().st_size
        for path in tree.rglob("*")
        if path.is_file()
    }
    uploads = served.log_lines(rf" PUT /{bucket}/plain\.txt\S* 200 ")
    assert len(uploads) == 1


def test_rclone_check__tree_synced__agrees_until_an_object_changes(
    rclone: Client, s3: Any, bucket: str, tree: Path
) -> None:
    rclone.call("sync", tree, bucket)
    rclone.call("check", tree, bucket)
    s3.put_object(Bucket=bucket, Key="plain.txt", Body=bytes(1000))
    with pytest.raises(ClientError, match="1 differences found"):
        rclone.call("check", tree, bucket)


def test_rclone_cryptcheck__tree_synced_encrypted__agrees_until_an_object_changes(
    rclone: Client, s3: Any, bucket: str, tree: Path
) -> None:
    rclone.call("sync_encrypted", tree, bucket)
    rclone.call("cryptcheck", tree, bucket)
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert not {entry["Key"] for entry in listed} & set(SYNC_NAMES)
    key = min(listed, key=lambda entry: entry["Size"])["Key"]
    head = bytearray(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    head[-1] ^= 1
    s3.put_object(Bucket=bucket, Key=key, Body=bytes(head))
    with pytest.raises(ClientError, match="1 differences found"):
        rclone.call("cryptcheck", tree, bucket)


class Restic:
    """A restic repository in a bucket."""

    def __init__(self, gateway: GatewayProcess, bucket: str, home: Path) -> None:
        self._argv = [program("restic"), "--repo", f"s3:{gateway.endpoint}/{bucket}/backup"]
        self._environment = client_environment(gateway, home) | {"RESTIC_PASSWORD": "s3cret"}

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self._argv, *words],
            check=False,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
        )
        if done.returncode:
            raise ClientError(f"restic {words}: exit {done.returncode}\n{done.stderr}")
        return done.stdout


@pytest.fixture
def restic(served: GatewayProcess, bucket: str, tmp_path: Path) -> Restic:
    with installed():
        return Restic(served, bucket, tmp_path)


def test_restic__backup__is_checked_restored_and_pruned(
    restic: Restic, tree: Path, tmp_path: Path
) -> None:
    restic("init")
    restic("backup", str(tree))
    first = (tree / "large.bin").read_bytes()
    (tree / "large.bin").write_bytes(random.Random(1).randbytes(12 << 20))
    restic("backup", str(tree))
    restic("check", "--read-data")

    oldest, _ = json.loads(restic("snapshots", "--json"))
    restic("restore", oldest["id"], "--target", str(tmp_path / "back"))
    back = tmp_path / "back" / tree.relative_to("/")
    assert (back / "large.bin").read_bytes() == first
    for name in SYNC_NAMES:
        assert (back / name).read_bytes() == (tree / name).read_bytes()

    restic("forget", "--keep-last", "1", "--prune")
    restic("check", "--read-data")
    assert len(json.loads(restic("snapshots", "--json"))) == 1


def test_restic_check__a_pack_changed_behind_its_back__says_so(
    restic: Restic, s3: Any, bucket: str, tree: Path
) -> None:
    restic("init")
    restic("backup", str(tree))
    restic("check", "--read-data")
    packs = s3.list_objects_v2(Bucket=bucket, Prefix="backup/data/")["Contents"]
    key = max(packs, key=lambda entry: entry["Size"])["Key"]
    pack = bytearray(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    pack[1000] ^= 1
    s3.put_object(Bucket=bucket, Key=key, Body=bytes(pack))
    with pytest.raises(ClientError, match=r"exit 1\n"):
        restic("check", "--read-data")


def test_restic__repository_that_is_not_there__says_so(restic: Restic) -> None:
    with pytest.raises(ClientError, match=r"config|repository does not exist"):
        restic("snapshots")


def test_obstore_create__key_is_taken__raises_and_leaves_the_object(
    obstore: Client, s3: Any, bucket: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    obstore.call("create", first, bucket, "table/_delta_log/0.json")
    with pytest.raises(ClientError, match="AlreadyExistsError"):
        obstore.call("create", second, bucket, "table/_delta_log/0.json")
    assert s3.get_object(Bucket=bucket, Key="table/_delta_log/0.json")["Body"].read() == b"1"


def test_obstore_create__by_several_at_once__one_wins(
    served: GatewayProcess, s3: Any, bucket: str, tmp_path: Path
) -> None:
    def create(client: Client, text: str) -> str:
        file = tmp_path / text
        file.write_text(text)
        try:
            client.call("create", file, bucket, "lock")
        except ClientError as error:
            return str(error)
        return text

    with ExitStack() as clients, ThreadPoolExecutor(RACERS) as pool:
        racers = [
            clients.enter_context(started("obstore", served, tmp_path / f"home{number}"))
            for number in range(RACERS)
        ]
        names = [f"racer{number}" for number in range(RACERS)]
        outcomes = list(pool.map(create, racers, names))
    (winner,) = set(outcomes) & set(names)
    assert sum("AlreadyExistsError" in outcome for outcome in outcomes) == RACERS - 1
    assert s3.get_object(Bucket=bucket, Key="lock")["Body"].read().decode() == winner


def test_obstore_update__etag_is_old__raises_and_leaves_the_object(
    obstore: Client, s3: Any, bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"1")
    obstore.put(file, bucket, "key")
    etag = obstore.call("etag", bucket, "key")
    file.write_bytes(b"22")
    obstore.call("update", file, bucket, "key", etag)
    file.write_bytes(b"333")
    with pytest.raises(ClientError, match="PreconditionError"):
        obstore.call("update", file, bucket, "key", etag)
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == b"22"


def test_presign__aws_cli__url_opens_without_credentials_until_altered(
    served: GatewayProcess, bucket: str, tree: Path, tmp_path: Path
) -> None:
    with started("awscli", served, tmp_path / "home") as client:
        client.put(tree / "plain.txt", bucket, "odd name+1.bin")
        url = client.call("presign", bucket, "odd name+1.bin", 60)
    with urlopen(url, timeout=10) as reply:
        assert reply.read() == (tree / "plain.txt").read_bytes()
    path = urlsplit(url).path
    with pytest.raises(HTTPError) as refused:
        urlopen(url.replace(path, path + "x"), timeout=10)
    with refused.value as reply:
        assert reply.code == 403
        assert b"SignatureDoesNotMatch" in reply.read()


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_installed__client_is_missing__fails_in_ci_and_is_skipped_with_the_remedy_elsewhere(
    monkeypatch: pytest.MonkeyPatch, in_ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", in_ci)
    remedy = re.escape("no such-client here; run `make setup-clients`")
    with pytest.raises(outcome, match=remedy), installed():
        program("such-client")


def test_client__its_packages_are_missing__says_so(
    monkeypatch: pytest.MonkeyPatch, served: GatewayProcess, tmp_path: Path
) -> None:
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    (drivers / "drive_broken.py").write_text("import no_such_package\n")
    monkeypatch.setattr(real_clients, "DRIVERS", drivers)
    with installed():
        real_clients.python()
    with pytest.raises(MissingClientError, match="No module named 'no_such_package'"):
        Client("broken", served, tmp_path)
