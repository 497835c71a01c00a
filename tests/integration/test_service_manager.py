"""A real gateway under a service manager: what it tells, over a socket such as systemd opens."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_process import gateway_process

WAIT_S = 30.0


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        yield sock


def told(sock: socket.socket, state: str) -> str:
    """The next message about that; what comes before it is dropped."""
    while (message := sock.recv(4096).decode()).partition("=")[0] != state:
        pass
    return message


@pytest.mark.parametrize("workers", ["1", "2"])
def test_life__of_a_gateway__is_told_to_systemd(
    manager: socket.socket, tmp_path: Path, workers: str
) -> None:
    flags = ("--rdma-fabric", "off", "--workers", workers, "--admin-host", "")
    with gateway_process(tmp_path, *flags) as process:
        assert told(manager, "READY").startswith("READY=1\nSTATUS=s3rdma: serving http://")
        assert told(manager, "WATCHDOG") == told(manager, "WATCHDOG") == "WATCHDOG=1"
        os.kill(process.pid, signal.SIGHUP)
        assert "MONOTONIC_USEC=" in told(manager, "RELOADING")
        assert told(manager, "READY").startswith("READY=1")
        os.kill(process.pid, signal.SIGTERM)
        assert told(manager, "STOPPING").startswith("STOPPING=1")
