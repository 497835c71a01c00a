"""Two gateways behind HAProxy, with the configuration that is delivered."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_process import GatewayProcess
from s3_servers import free_port

CONFIG = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
START_LIMIT_S = 15.0


def require_haproxy() -> str:
    """Where it is; Debian puts it out of a user's path."""
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.fail("no haproxy: run make setup-clients")
    return found


@contextmanager
def balanced(a: GatewayProcess, b: GatewayProcess, log: Path) -> Iterator[str]:
    """The endpoint of both. Whoever asks from one address gets one of them while it lives."""
    listen = f"127.0.0.1:{free_port()}"
    where = {"GATEWAY_A": _address(a), "GATEWAY_B": _address(b), "LISTEN": listen}
    with log.open("wb") as errors:
        child = subprocess.Popen(
            [require_haproxy(), "-db", "-f", str(CONFIG)],
            env=os.environ | where,
            stdout=errors,
            stderr=errors,
        )
    try:
        _await_port(listen)
        yield f"http://{listen}"
    finally:
        child.kill()
        child.wait()


def busier(gateways: tuple[GatewayProcess, GatewayProcess]) -> GatewayProcess:
    """The one that stickiness gave the load to."""
    return max(gateways, key=lambda one: len(one.log_lines(r" (PUT|GET) /")))


def kill(process: GatewayProcess) -> None:
    """As a power cut would: no goodbye."""
    os.kill(process.pid, signal.SIGKILL)


def _address(process: GatewayProcess) -> str:
    host, port = process.address
    return f"{host}:{port}"


def _await_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
        else:
            return
