"""The real `s3rdma serve` as a child process, for the demo, the benchmark and tests."""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_LIMIT_S = 90.0  # a Python starts slowly in an emulated machine
STOP_LIMIT_S = 45.0
ANNOUNCEMENT = re.compile(rb"serving https?://([\d.]+):(\d+) \(.*, RDMA: (.+)\)\n")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class GatewayFailedError(Exception):
    """The gateway did not start or did not stop; its log is the text."""


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A running gateway and what a client must know of it.

    Attributes:
        rdma: the gateway's own words on its fabric.
    """

    address: tuple[str, int]
    rdma: str
    access_key: str
    secret_key: str
    pid: int
    log: Path
    scheme: str = "http"

    @property
    def endpoint(self) -> str:
        host, port = self.address
        return f"{self.scheme}://{host}:{port}"

    @property
    def admin(self) -> str:
        """The URL of its admin listener, without a slash at the end."""
        found = re.search(r"metrics, health and status are at ([^\s\"]+)", self.log.read_text())
        assert found is not None
        return found[1]

    @property
    def client_environment(self) -> dict[str, str]:
        """Variables that point botocore's chain, so every AWS client, at it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def log_lines(self, pattern: str) -> list[str]:
        """The lines of the log that `pattern` is found in."""
        text = self.log.read_text(errors="replace")
        return [line for line in text.splitlines() if re.search(pattern, line)]

    def cpu_s(self) -> float:
        """User and system time of all its threads so far (proc(5), stat, fields 14 and 15)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def peak_rss_bytes(self) -> int:
        """The most memory it ever held at once (proc(5), status)."""
        return self._status_bytes("VmHWM")

    def rss_bytes(self) -> int:
        """What it holds now (proc(5), status)."""
        return self._status_bytes("VmRSS")

    def locked_bytes(self) -> int:
        """Memory that it holds in place (proc(5), status)."""
        return self._status_bytes("VmLck")

    def _status_bytes(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def gateway_process(
    directory: Path, *flags: str, keys: tuple[str, str] | None = None
) -> Iterator[GatewayProcess]:
    """`s3rdma serve` on a free port of this host, its store and log in `directory`.

    Args:
        directory: made where it is missing.
        flags: more of the command line.
        keys: the access key and its secret, for gateways that share one; else fresh ones.

    Raises:
        GatewayFailedError: it ended early, didn't listen in time, or had to be killed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if keys is None:
        keys = ("KEY" + secrets.token_hex(8).upper(), secrets.token_urlsafe(30))
    argv = [sys.executable, "-m", "gateway", "serve", "--store", str(directory / "store")]
    argv += ["--listen", "127.0.0.1:0", "--admin-port", "0", *flags]
    environment = os.environ | {"S3RDMA_ACCESS_KEY": keys[0], "S3RDMA_SECRET_KEY": keys[1]}
    log = directory / "gateway.log"
    with serving(argv, environment, log) as (address, rdma, pid):
        yield GatewayProcess(address, rdma, *keys, pid, log)


@contextmanager
def serving(
    argv: list[str], environment: dict[str, str], log: Path, directory: Path | None = None
) -> Iterator[tuple[tuple[str, int], str, int]]:
    """Any command that serves: where it listens, what it says of its fabric, and its pid.

    Raises:
        GatewayFailedError: as `gateway_process`.
    """
    with log.open("ab") as errors:
        child = subprocess.Popen(
            argv,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        yield *_announced(child, log), child.pid
    finally:
        _stop(child, log)


def _announced(child: subprocess.Popen[bytes], log: Path) -> tuple[tuple[str, int], str]:
    """What the gateway says on standard output once it listens: its address, and its fabric."""
    assert child.stdout is not None
    deadline_s = time.monotonic() + START_LIMIT_S
    said = b""
    while (found := ANNOUNCEMENT.search(said)) is None:
        left_s = deadline_s - time.monotonic()
        readable, _, _ = select.select([child.stdout], [], [], max(left_s, 0))
        if not readable:
            raise GatewayFailedError(f"no gateway within {START_LIMIT_S:g} s\n{log.read_text()}")
        fresh = os.read(child.stdout.fileno(), 4096)
        if not fresh:
            raise GatewayFailedError(f"the gateway did not start\n{log.read_text()}")
        said += fresh
    return (found[1].decode(), int(found[2])), found[3].decode()


def _stop(child: subprocess.Popen[bytes], log: Path) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        child.kill()
        child.wait()
        raise GatewayFailedError(f"SIGTERM did not end the gateway\n{log.read_text()}") from error
    finally:
        if child.stdout is not None:
            child.stdout.close()
