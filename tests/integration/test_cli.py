"""The client's commands, as a user runs them, against a real gateway over plain HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_process import GatewayProcess

ODD_KEY = "dir/odd é+%25 ?#&=//../k~"


class Cli:
    """`s3rdma` in a process of its own, pointed at the gateway by the environment."""

    def __init__(self, served: GatewayProcess) -> None:
        self.environment = os.environ | served.client_environment

    def __call__(self, *argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gateway", *map(str, argv)],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def cli(served: GatewayProcess) -> Cli:
    return Cli(served)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(3 * 1024 * 1024 + 1))
    return path


def test_put_get__any_key__comes_back_the_same(
    cli: Cli, s3: Any, bucket: str, source: Path, tmp_path: Path
) -> None:
    url = f"s3://{bucket}/{ODD_KEY}"
    put = cli("put", "--http", source, url)
    assert (put.returncode, put.stderr) == (0, "")
    assert put.stdout.startswith("put 3145729 bytes in ")
    assert put.stdout.endswith("by HTTP: RDMA is turned off for this client\n")
    assert s3.get_object(Bucket=bucket, Key=ODD_KEY)["Body"].read() == source.read_bytes()
    got = cli("get", "--json", "--http", url, tmp_path / "out")
    assert got.returncode == 0
    row = json.loads(got.stdout)
    assert (row["operation"], row["bytes"], row["path"]) == ("get", 3145729, "HTTP")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()


def test_put__rdma_is_off_there__falls_back_or_fails(cli: Cli, bucket: str, source: Path) -> None:
    by_itself = cli("put", source, f"s3://{bucket}/")
    assert by_itself.returncode == 0
    assert " by HTTP: " in by_itself.stdout
    required = cli("put", "--rdma", source, f"s3://{bucket}/k")
    assert (required.returncode, required.stdout) == (1, "")
    assert required.stderr.startswith(f"s3rdma: s3://{bucket}/k: ")


def test_mb_ls__bucket_and_keys__are_shown(cli: Cli, s3: Any, bucket: str) -> None:
    assert cli("mb", f"s3://{bucket}-new").returncode == 0
    assert f"s3://{bucket}-new\n" in cli("ls").stdout
    for key in ("a/1", "a/2", "b\n"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"xyz")
    level = cli("ls", f"s3://{bucket}").stdout.splitlines()
    assert [line.split()[-1] for line in level] == ["a/", "b\\n"]
    rows = cli("ls", "--recursive", "--json", f"s3://{bucket}/a").stdout.splitlines()
    assert [json.loads(row)["key"] for row in rows] == ["a/1", "a/2"]


def test_get__no_such_key__says_so_and_leaves_nothing(
    cli: Cli, bucket: str, tmp_path: Path
) -> None:
    got = cli("get", f"s3://{bucket}/none", tmp_path / "out")
    assert got.returncode == 1
    assert f"s3://{bucket}/none: NotFound (404)" in got.stderr
    assert list(tmp_path.iterdir()) == []


def test_put__wrong_secret__is_refused_without_showing_it(
    cli: Cli, bucket: str, source: Path
) -> None:
    put = cli("put", "--http", source, f"s3://{bucket}/k", AWS_SECRET_ACCESS_KEY="wrong-secret")
    assert put.returncode == 1
    assert "SignatureDoesNotMatch" in put.stderr
    assert "wrong-secret" not in put.stderr + put.stdout


def test_ls__nobody_listens__names_the_endpoint(cli: Cli) -> None:
    done = cli("ls", "--endpoint-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "http://127.0.0.1:1" in done.stderr
    assert "--endpoint-url" in done.stderr


def test_doctor__gateway_without_rdma__says_so(cli: Cli) -> None:
    done = cli("doctor", "--json")
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 1
    assert "501 unsupported" in findings[-1]["detail"]
