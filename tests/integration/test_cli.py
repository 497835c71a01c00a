"""The client's commands, as a user runs them, against a real gateway over plain HTTP."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from gateway_process import GatewayProcess

ODD_KEY = "dir/odd é+%25 ?#&=//../k~"


@pytest.fixture
def cli(served: GatewayProcess) -> CommandLine:
    return CommandLine(served)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(3 * 1024 * 1024 + 1))
    return path


def test_put_get__any_key__comes_back_the_same(
    cli: CommandLine, s3: Any, bucket: str, source: Path, tmp_path: Path
) -> None:
    url = f"s3://{bucket}/{ODD_KEY}"
    put = cli("put", "--http", source, url)
    assert (put.returncode, put.stderr) == (0, "")
    assert put.stdout.startswith("put 3145729 bytes in ")
    assert put.stdout.endswith("by HTTP: RDMA is turned off for this client\n")
    assert s3.get_object(Bucket=bucket, Key=ODD_KEY)["Body"].read() == source.read_bytes()
    got = cli("get", "--json", "--http", url, tmp_path / "out")
    assert got.returncode == 0
    row, last = (json.loads(line) for line in got.stdout.splitlines())
    assert (row["operation"], row["status"], row["bytes"]) == ("get", "done", 3145729)
    assert (row["path"], row["file"]) == ("HTTP", str(tmp_path / "out"))
    assert (last["summary"]["done"], last["summary"]["bytes"]) == (1, 3145729)
    assert (tmp_path / "out").read_bytes() == source.read_bytes()


def test_put__rdma_is_off_there__falls_back_or_fails(
    cli: CommandLine, bucket: str, source: Path
) -> None:
    by_itself = cli("put", source, f"s3://{bucket}/")
    assert by_itself.returncode == 0
    assert " by HTTP: " in by_itself.stdout
    required = cli("put", "--rdma", source, f"s3://{bucket}/k")
    assert (required.returncode, required.stdout) == (1, "")
    assert required.stderr.startswith(f"s3rdma: s3://{bucket}/k: ")


def test_mb_ls_rb__bucket_and_keys__are_shown(cli: CommandLine, s3: Any, bucket: str) -> None:
    assert cli("mb", f"s3://{bucket}-new").returncode == 0
    assert f"s3://{bucket}-new\n" in cli("ls").stdout
    for key in ("a/1", "a/2", "b\n"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x" * 2048)
    level = cli("ls", f"s3://{bucket}").stdout.splitlines()
    assert [line.split()[-1] for line in level] == ["a/", "b\\n"]
    rows = cli("ls", "--recursive", "--json", f"s3://{bucket}/a").stdout.splitlines()
    assert [json.loads(row)["key"] for row in rows] == ["a/1", "a/2"]
    shown = cli("ls", "-rH", "--summarize", f"s3://{bucket}").stdout.splitlines()
    assert " 2.0 KiB  a/1" in shown[0]
    assert shown[-1] == "3 objects, 6.0 KiB"
    assert cli("rb", f"s3://{bucket}").returncode == 1
    assert cli("rb", "--force", f"s3://{bucket}").returncode == 0
    assert cli("rb", f"s3://{bucket}-new").returncode == 0
    assert f"s3://{bucket}" not in cli("ls").stdout


def test_ls__reader_goes_away__ends_quietly(cli: CommandLine, s3: Any, bucket: str) -> None:
    for number in range(3):
        s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
    done = cli.shell(f"ls s3://{bucket} | true")
    assert done.stderr == b""


def test_get__no_such_key__says_so_and_leaves_nothing(
    cli: CommandLine, bucket: str, tmp_path: Path
) -> None:
    got = cli("get", f"s3://{bucket}/none", tmp_path / "out")
    assert got.returncode == 1
    assert f"s3://{bucket}/none: NotFound (404)" in got.stderr
    assert list(tmp_path.iterdir()) == []


def test_put__wrong_secret__is_refused_without_showing_it(
    cli: CommandLine, bucket: str, source: Path
) -> None:
    put = cli("put", "--http", source, f"s3://{bucket}/k", AWS_SECRET_ACCESS_KEY="wrong-secret")
    assert put.returncode == 1
    assert "SignatureDoesNotMatch" in put.stderr
    assert "wrong-secret" not in put.stderr + put.stdout


def test_ls__nobody_listens__names_the_endpoint(cli: CommandLine) -> None:
    done = cli("ls", "--endpoint-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "http://127.0.0.1:1" in done.stderr
    assert "--endpoint-url" in done.stderr


def test_stdin_stdout__of_a_pipe__are_the_ends(
    cli: CommandLine, s3: Any, bucket: str, source: Path
) -> None:
    data = source.read_bytes()
    words = ("put", "--part-size", "5MiB", "-", f"s3://{bucket}/piped")
    put = cli.process(*words, stdin=data * 4)
    assert (put.returncode, put.stderr) == (0, b"")
    piped = s3.get_object(Bucket=bucket, Key="piped")
    assert piped["Body"].read() == data * 4
    assert piped["ETag"].endswith('-3"')
    with source.open("rb") as stream:
        assert cli.process("put", "-", f"s3://{bucket}/file", stdin=stream).returncode == 0
    got = cli.process("get", f"s3://{bucket}/file", "-")
    assert got.stdout == data
    assert got.stderr.startswith(b"get 3145729 bytes in ")


def test_stdout__longer_than_a_part__comes_in_order(cli: CommandLine, s3: Any, bucket: str) -> None:
    data = os.urandom(11 * 1024 * 1024 + 3)
    s3.put_object(Bucket=bucket, Key="long", Body=data)
    got = cli.process("get", "--part-size", "5MiB", "-q", f"s3://{bucket}/long", "-")
    assert (got.returncode, got.stdout == data, got.stderr) == (0, True, b"")
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    empty = cli.process("get", "-q", f"s3://{bucket}/empty", "-")
    assert (empty.returncode, empty.stdout) == (0, b"")


def test_doctor__gateway_without_rdma__says_what_it_offers(cli: CommandLine, s3: Any) -> None:
    before = {one["Name"] for one in s3.list_buckets()["Buckets"]}
    done = cli("doctor", "--json")
    told = json.loads(done.stdout)
    found = {one["subject"]: one for one in told["findings"]}
    assert done.returncode == 1
    assert found["clock"]["level"] == "ok"
    assert "GET " in found["http"]["detail"]
    assert found["RDMA"]["level"] == "missing"
    assert "no way of it can be gone" in told["verdict"]
    assert {one["Name"] for one in s3.list_buckets()["Buckets"]} == before


@pytest.mark.parametrize(
    ("environment", "subject"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "credentials"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "endpoint"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "endpoint"),
    ],
)
def test_doctor__nothing_can_be_asked__names_the_cause(
    environment: dict[str, str], subject: str, cli: CommandLine
) -> None:
    done = cli("doctor", "--json", **environment)
    last = json.loads(done.stdout)["findings"][-1]
    assert (done.returncode, last["level"], last["subject"]) == (1, "broken", subject)
    assert "wrong-secret" not in done.stdout + done.stderr
