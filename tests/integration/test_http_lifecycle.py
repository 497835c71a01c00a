"""Starting and stopping `s3rdma serve`: its one line, its keys, its exit codes, its grace."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import boto3
import pytest
from gateway_process import GatewayProcess, gateway_process
from raw_http import RawClient

PIECE = b"x" * 200_000
EXIT_LIMIT_S = 30.0


def serve(*flags: str, **environment: str) -> subprocess.Popen[str]:
    """`s3rdma serve` with these flags, its output piped; whoever starts it ends it."""
    return subprocess.Popen(
        [sys.executable, "-m", "gateway", "serve", "--rdma-fabric", "off", *flags],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def failed_start(*flags: str, **environment: str) -> tuple[int, str]:
    """Exit code and standard error of a start that must fail."""
    process = serve(*flags, **environment)
    _, errors = process.communicate(timeout=EXIT_LIMIT_S)
    return process.returncode, errors


def connect(process: GatewayProcess) -> RawClient:
    return RawClient(process.address, process.access_key, process.secret_key)


def announced(line: str) -> tuple[str, int]:
    """The address of a ready line."""
    found = re.search(r"serving http://([\d.]+):(\d+) \(store ", line)
    assert found is not None, line
    return found[1], int(found[2])


@pytest.fixture
def own(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that a test may stop."""
    with gateway_process(tmp_path, "--rdma-fabric", "off") as process:
        yield process


def test_start__no_key_configured__makes_one_keeps_it_and_prints_it_once(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shown = []
    for _ in range(2):
        process = serve("--store", str(store), "--listen", "127.0.0.1:0")
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while "serving" not in lines[-1]:
            lines.append(process.stdout.readline())
        host, port = announced(lines[-1])
        kept = store / "credentials"
        session = boto3.Session(region_name="us-east-1")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        keys = dict(line.split(" = ") for line in kept.read_text().splitlines()[1:])
        with closing(session.client("s3", endpoint_url=f"http://{host}:{port}", **keys)) as client:
            client.list_buckets()
        process.terminate()
        _, errors = process.communicate(timeout=EXIT_LIMIT_S)
        assert process.returncode == 0
        shown.append("".join(lines))
        assert keys["aws_secret_access_key"] not in errors
    assert keys["aws_secret_access_key"] in shown[0]
    assert keys["aws_secret_access_key"] not in shown[1]


def test_start__port_taken__exits_1_and_names_it(own: GatewayProcess, tmp_path: Path) -> None:
    address = f"127.0.0.1:{own.address[1]}"
    code, errors = failed_start("--store", str(tmp_path / "other"), "--listen", address)
    assert code == 1
    assert errors.splitlines()[-1].startswith(f"s3rdma: can't listen on {address}: ")
    assert "Traceback" not in errors


def test_start__damaged_credentials_file__exits_1_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("nonsense")
    code, errors = failed_start("--store", str(tmp_path), "--listen", "127.0.0.1:0")
    assert code == 1
    assert "S3RDMA_ACCESS_KEY" in errors
    assert "Traceback" not in errors


def test_start__rdma_demanded_but_not_there__exits_1_with_the_reason(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "verbs", "--rdma-device", "nosuch0")
    code, errors = failed_start("--store", str(tmp_path), "--listen", "127.0.0.1:0", *flags)
    assert code == 1
    assert errors.splitlines()[-1].startswith("s3rdma: no RDMA: ")


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        (("--http-port", "x"), {}, "--http-port: 'x' is not a number"),
        ((), {"S3RDMA_LISTEN": "nowhere"}, "S3RDMA_LISTEN: 'nowhere' is not HOST:PORT"),
        (
            (),
            {"S3RDMA_HTTP_LIMITS_MAX_HEADER": "1"},
            "did you mean S3RDMA_HTTP_LIMITS_MAX_HEADERS?",
        ),
        (("--config", "/none.toml"), {}, "/none.toml: "),
        (("--no-such-flag",), {}, "unrecognized arguments: --no-such-flag"),
    ],
)
def test_start__bad_configuration__exits_2_with_one_line(
    flags: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    code, errors = failed_start(*flags, **environment)
    assert code == 2
    assert expected in errors.splitlines()[-1]


def test_sigterm__put_under_way__ends_it_well_and_takes_nothing_new(own: GatewayProcess) -> None:
    with connect(own) as busy:
        assert busy.ask("PUT", "/bucket").status == 200
        with connect(own) as idle:
            assert idle.ask("GET", "/").status == 200
            expect = {"Expect": "100-continue"}
            busy.send(busy.signed_head("PUT", "/bucket/k", PIECE * 2, expect))
            assert busy.line() == b"HTTP/1.1 100 Continue\r\n"
            assert busy.line() == b"\r\n"
            busy.send(PIECE)
            os.kill(own.pid, signal.SIGTERM)
            assert idle.hung_up()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(own.address)
        busy.send(PIECE)
        reply = busy.reply()
        assert reply.status == 200
        assert reply.headers["connection"] == "close"
        assert busy.hung_up()


def test_sigterm__client_falls_silent__is_cut_after_the_grace(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "off", "--http-limits-shutdown-grace-s", "0.2")
    # gateway_process raises where the process does not end.
    with gateway_process(tmp_path, *flags) as process, connect(process) as client:
        assert client.ask("PUT", "/bucket").status == 200
        client.send(client.signed_head("PUT", "/bucket/k", PIECE) + PIECE[:1000])
        os.kill(process.pid, signal.SIGTERM)
        assert client.hung_up()


def test_get__data_file_was_cut_short__is_an_error_and_never_a_short_200(
    own: GatewayProcess, tmp_path: Path
) -> None:
    data = PIECE * 10
    with connect(own) as client:
        assert client.ask("PUT", "/bucket").status == 200
        assert client.ask("PUT", "/bucket/k", data).status == 200
        files = [file for file in (tmp_path / "store" / "objects").rglob("*") if file.is_file()]
        (file,) = [file for file in files if file.stat().st_size >= len(data)]  # and its sums
        for left_bytes in (len(data), len(data) // 2, 0):
            os.truncate(file, left_bytes)
            reply = client.ask("GET", "/bucket/k")
            assert (reply.status, reply.code) == (500, "InternalError")
        assert client.ask("GET", "/bucket").status == 200


def test_limits__time_and_size__answer_in_s3s_words(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "off", "--http-limits-header-timeout-s", "0.2")
    flags += ("--http-limits-body-stall-timeout-s", "0.2", "--http-limits-max-object-bytes", "1KiB")
    with gateway_process(tmp_path, *flags) as process:
        with connect(process) as client:
            client.send(b"GET / HT")
            reply = client.reply()
            assert (reply.status, reply.code) == (400, "RequestTimeout")
            assert client.hung_up()
        with connect(process) as client:
            assert client.ask("PUT", "/bucket").status == 200
            reply = client.ask("PUT", "/bucket/k", b"x" * 1025)
            assert (reply.status, reply.code) == (400, "EntityTooLarge")
            client.send(client.signed_head("PUT", "/bucket/k", b"abc") + b"a")
            reply = client.reply()
            assert (reply.status, reply.code) == (400, "RequestTimeout")


def test_limits__one_connection_too_many__is_told_to_come_back(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "off", "--http-limits-max-connections", "1")
    with gateway_process(tmp_path, *flags) as process, connect(process) as one:
        assert one.ask("GET", "/").status == 200
        with connect(process) as two:
            reply = two.reply()
            assert (reply.status, reply.code) == (503, "SlowDown")
            assert reply.headers["retry-after"] == "1"
            assert two.hung_up()
        assert one.ask("GET", "/").status == 200


def test_idle_connection__longer_than_the_timeout__is_closed(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "off", "--http-limits-idle-timeout-s", "0.2")
    with gateway_process(tmp_path, *flags) as process, connect(process) as client:
        assert client.ask("GET", "/").status == 200
        assert client.hung_up()
