"""systemd: its protocol, over a real socket of the kind that systemd opens."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.app.systemd import ServiceManager


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(5)
        yield sock


def lines(sock: socket.socket) -> list[str]:
    return sock.recv(4096).decode().split("\n")


def test_messages__life_of_a_service__are_what_systemd_reads(heard: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname()})
    manager.ready("serving http://127.0.0.1:9000")
    assert lines(heard) == ["READY=1", "STATUS=serving http://127.0.0.1:9000"]
    manager.reloading()
    state, moment = lines(heard)
    assert state == "RELOADING=1"
    assert re.fullmatch(r"MONOTONIC_USEC=\d{6,}", moment)
    manager.stopping()
    assert lines(heard)[0] == "STOPPING=1"


def test_messages__abstract_socket__arrive() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0s3rdma-{os.getpid()}")
        sock.settimeout(5)
        ServiceManager({"NOTIFY_SOCKET": f"@s3rdma-{os.getpid()}"}).beat()
        assert lines(sock) == ["WATCHDOG=1"]


async def test_watch__period_given__beats_from_the_loop_until_told_otherwise(
    heard: socket.socket,
) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "20000"})
    assert manager.beat_interval_s == 0.01
    manager.watch()
    for _ in range(3):
        assert await asyncio.to_thread(lines, heard) == ["WATCHDOG=1"]
    manager.unwatch()
    heard.settimeout(5 * manager.beat_interval_s)
    with pytest.raises(TimeoutError):  # one may be on its way
        await asyncio.to_thread(lambda: [lines(heard), lines(heard)])


@pytest.mark.parametrize(
    "environ",
    [{}, {"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "infinity"}],
)
async def test_watch__not_asked_for__does_nothing(environ: dict[str, str]) -> None:
    manager = ServiceManager(environ)
    manager.watch()
    manager.ready("nobody listens")
    assert manager.beat_interval_s == 0


def test_messages__socket_is_gone__is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "none")}).ready("serving")
    assert "the service manager does not hear" in caplog.text
