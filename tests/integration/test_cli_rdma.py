"""The command line by RDMA, on the soft fabric: cut off and continued, measured, diagnosed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from boto3_client import boto3_client
from command_line import CommandLine
from gateway_process import GatewayProcess, gateway_process
from watching_proxy import watching_proxy

from gateway.config import MIB

PART = ("--part-size", "5MiB", "--parts", "1")
SIZE_BYTES = 27 * MIB + 5
PARTS = 6


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("soft")
    with gateway_process(directory, "--rdma-fabric", "soft") as process:
        yield process


@pytest.fixture(scope="module")
def s3(gateway: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(gateway)) as client:
        yield client


@pytest.fixture
def bucket(request: pytest.FixtureRequest, s3: Any) -> str:
    name = "t-" + sha256(request.node.nodeid.encode()).hexdigest()[:16]
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def cli(gateway: GatewayProcess) -> CommandLine:
    return CommandLine(gateway)


@pytest.fixture(scope="module")
def data() -> bytes:
    return os.urandom(SIZE_BYTES)


WAYS = pytest.mark.parametrize("way", ["--rdma", "--http"])


class Signaller:
    """Sends a process a signal when it asks for the third thing of a kind: two of them it has."""

    def __init__(self, start: str, number: signal.Signals) -> None:
        self.start = start
        self.number = number
        self.asked = 0
        self.child: subprocess.Popen[bytes]

    def __call__(self, request: str) -> None:
        if request.startswith(self.start):
            self.asked += 1
            if self.asked == 3:
                self.child.send_signal(self.number)
                if self.number is signal.SIGKILL:
                    self.child.wait()


def killed(cli: CommandLine, gateway: GatewayProcess, start: str, *words: str | Path) -> None:
    """Run a command until it asks for the third thing that begins so."""
    killer = Signaller(start, signal.SIGKILL)
    with watching_proxy(gateway.address, killer) as watch:
        killer.child = cli.start(*words, AWS_ENDPOINT_URL=watch.endpoint)
        with killer.child as child:
            child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL


def requests(
    cli: CommandLine, gateway: GatewayProcess, start: str, *words: str | Path
) -> list[str]:
    """Run a command to its good end; what it asked for that begins so."""
    with watching_proxy(gateway.address) as watch:
        done = cli(*words, AWS_ENDPOINT_URL=watch.endpoint)
        assert (done.returncode, done.stderr) == (0, "")
        return watch.seen(start)


@WAYS
def test_get__killed_in_the_middle__goes_on_with_the_rest(
    way: str,
    cli: CommandLine,
    gateway: GatewayProcess,
    s3: Any,
    bucket: str,
    data: bytes,
    tmp_path: Path,
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    words = ("get", "--resume", way, *PART, f"s3://{bucket}/k", tmp_path / "out")
    killed(cli, gateway, f"GET /{bucket}/k", *words)
    assert not (tmp_path / "out").exists()
    assert len(requests(cli, gateway, f"GET /{bucket}/k", *words)) == PARTS - 2
    assert (tmp_path / "out").read_bytes() == data
    assert os.listdir(tmp_path) == ["out"]


def test_get__killed_and_the_object_replaced__begins_again(
    cli: CommandLine,
    gateway: GatewayProcess,
    s3: Any,
    bucket: str,
    data: bytes,
    tmp_path: Path,
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    words = ("get", "--resume", *PART, f"s3://{bucket}/k", tmp_path / "out")
    killed(cli, gateway, f"GET /{bucket}/k", *words)
    s3.put_object(Bucket=bucket, Key="k", Body=data[::-1])
    assert len(requests(cli, gateway, f"GET /{bucket}/k", *words)) == PARTS
    assert (tmp_path / "out").read_bytes() == data[::-1]


@WAYS
def test_put__killed_in_the_middle__goes_on_with_the_rest(
    way: str,
    cli: CommandLine,
    gateway: GatewayProcess,
    s3: Any,
    bucket: str,
    data: bytes,
    tmp_path: Path,
) -> None:
    (tmp_path / "in").write_bytes(data)
    words = ("put", "--resume", way, *PART, tmp_path / "in", f"s3://{bucket}/k")
    killed(cli, gateway, f"PUT /{bucket}/k?partNumber=", *words)
    # Whether the part that was under way is there, too, is up to the moment.
    assert len(requests(cli, gateway, f"PUT /{bucket}/k?partNumber=", *words)) <= PARTS - 2
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_put__killed_and_the_file_changed__sends_what_is_another(
    cli: CommandLine,
    gateway: GatewayProcess,
    s3: Any,
    bucket: str,
    data: bytes,
    tmp_path: Path,
) -> None:
    source = tmp_path / "in"
    source.write_bytes(data)
    words = ("put", "--resume", *PART, source, f"s3://{bucket}/k")
    killed(cli, gateway, f"PUT /{bucket}/k?partNumber=", *words)
    with source.open("r+b") as stream:
        stream.write(b"another beginning")
    sent = requests(cli, gateway, f"PUT /{bucket}/k?partNumber=", *words)
    assert any("partNumber=1&" in one for one in sent)
    assert not any("partNumber=2&" in one for one in sent)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == source.read_bytes()


def test_put__by_a_connection__json_says_what_carried_it(
    cli: CommandLine, s3: Any, bucket: str, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(data)
    put = cli("put", *PART, tmp_path / "in", f"s3://{bucket}/k", "--json")
    row, last = (json.loads(line) for line in put.stdout.splitlines())
    assert (row["path"], row["protocol"], row["device"]) == ("RDMA", "rc", "soft")
    assert list(last["summary"]["by"]) == [f"RDMA (soft, {row['carrier']}, rc)"]


def bench(cli: CommandLine, bucket: str, *words: str | Path) -> list[dict[str, Any]]:
    quick = ("--sizes", "4KiB,256KiB", "--concurrency", "1,2", "--seconds", "0", "--json")
    done = cli("bench", f"s3://{bucket}", *quick, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_bench__every_way__measures_draws_and_leaves_nothing(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    png, svg = tmp_path / "bench.png", tmp_path / "bench.svg"
    *rows, last = bench(cli, bucket, "--plot", png, "--plot", svg)
    assert len(rows) == 2 * 2 * 2 * 3
    assert {row["way"] for row in rows} == {"rc", "hipobj", "http"}
    for row in rows:
        assert 0 < row["p50_s"] <= row["p90_s"] <= row["p99_s"]
        assert row["transfers"] >= 3 * row["concurrency"]
        assert min(row["gigabytes_per_s"], row["cpu_s_per_gib"]) > 0
        assert row["transfers_per_s"] == pytest.approx(row["transfers"] / row["seconds"])
        assert (row["carrier"] == "") == (row["way"] == "http")
    assert last["summary"]["refused"] == last["summary"]["busy"] == {}
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    assert is_png(png.read_bytes())
    drawn = ET.parse(svg).getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}path")) > 100


def is_png(data: bytes) -> bool:
    """Decoded by another's code, and more than one colour."""
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(data)) as image:
        image.load()
        return image.format == "PNG" and len(image.getcolors(1 << 24)) > 3


def test_bench__in_words__is_a_table_with_ratios_and_bars(
    cli: CommandLine, gateway: GatewayProcess, bucket: str
) -> None:
    done = cli(
        *("bench", f"{gateway.endpoint}/{bucket}", "--sizes", "4KiB", "--concurrency", "1"),
        *("--ways", "rc,http", "--operations", "get", "--seconds", "0"),
    )
    head, rc, http, _, title, *bars = done.stdout.splitlines()
    assert head.split()[-2:] == ["to", "http"]
    assert rc.split()[:4] == ["GET", "4KiB", "1", "rc"]
    assert http.split()[-1] == "1.00"
    assert title == "GET 4KiB, 1 at once"
    assert len(bars) == 2
    assert any("█" * 40 in bar for bar in bars)


def test_bench__interrupted__removes_its_objects(
    cli: CommandLine, gateway: GatewayProcess, s3: Any, bucket: str
) -> None:
    interrupter = Signaller(f"PUT /{bucket}/s3rdma-bench-", signal.SIGINT)
    with watching_proxy(gateway.address, interrupter) as watch:
        words = ("bench", f"{watch.endpoint}/{bucket}", "--seconds", "60", "--ways", "http")
        interrupter.child = cli.start(*words)
        with interrupter.child as child:
            _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (130, b"s3rdma: interrupted\n")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_bench__no_such_bucket__says_so(cli: CommandLine) -> None:
    done = cli("bench", "s3://no-such-bucket-here", "--seconds", "0")
    assert done.returncode == 1
    assert "s3://no-such-bucket-here: NoSuchBucket" in done.stderr


def test_bench__no_rdma_on_this_host__measures_the_rest_and_says_why(
    cli: CommandLine, bucket: str
) -> None:
    *rows, last = bench(cli, bucket, "--device", "no-such-device")
    assert {row["way"] for row in rows} == {"http"}
    assert "this host can't do RDMA" in last["summary"]["refused"]["rc"]
    alone = cli("bench", f"s3://{bucket}", "--ways", "rc", "--device", "no-such-device")
    assert alone.returncode == 1
    assert "none of these ways" in alone.stderr


def test_bench__no_matplotlib__says_what_to_install(
    cli: CommandLine, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = cli(
        *("bench", f"s3://{bucket}", "--sizes", "4KiB", "--concurrency", "1", "--seconds", "0"),
        *("--ways", "http", "--plot", tmp_path / "x.png"),
    )
    assert done.returncode == 1
    assert "s3-rdma-gateway[bench]" in done.stderr


def test_doctor__gateway_by_every_way__shows_rates_and_that_cuobject_is_declined(
    cli: CommandLine, s3: Any, bucket: str
) -> None:
    done = cli("doctor", "--json", "--bucket", bucket)
    told = json.loads(done.stdout)
    found = {one["subject"]: one for one in told["findings"]}
    assert (done.returncode, told["rdma"]) == (0, True)
    for way in ("rc", "hipobj", "http"):
        assert found[way]["level"] == "ok"
        assert "PUT " in found[way]["detail"]
    assert "declined" in found["cuObject"]["detail"]
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
