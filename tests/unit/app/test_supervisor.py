"""The supervisor with real processes, which only say who they are."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.app.errors import StartError
from gateway.app.supervisor import Supervisor
from gateway.app.systemd import ServiceManager
from gateway.config import Config, HttpConfig, RdmaConfig

PROGRAM = Path(__file__).parents[2] / "support" / "idle_workers.py"
LIMIT_S = 30.0


@dataclass
class Supervised:
    process: subprocess.Popen[str]
    port: int

    def asked(self) -> int:
        """The process id of some worker."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as connection:
            return int(connection.recv(64))

    def workers(self) -> set[int]:
        """All who answer; the kernel deals connections out by their hash."""
        found: set[int] = set()
        for _ in range(64):
            with suppress(ConnectionError, ValueError):  # the queue of one that was just killed
                found.add(self.asked())
        return found

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def supervised(how: str = "well", **environment: str) -> Iterator[Supervised]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    one = Supervised(process, 0)
    try:
        one.port = int(one.line().removeprefix("serving on "))
        yield one
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT_S)


def gone(pid: int) -> bool:
    """Whether a process ends within the limit."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], LIMIT_S)[0])
    finally:
        os.close(pidfd)


def test_supervisor__two_workers__announced_once_and_both_serve_the_port():
    with supervised() as one:
        workers = one.workers()
        assert len(workers) == 2
        assert one.process.pid not in workers
        one.process.terminate()
        out, err = one.process.communicate(timeout=LIMIT_S)
        assert (one.process.returncode, out, err) == (0, "", "")
        assert all(gone(pid) for pid in workers)


def test_supervisor__a_worker_is_killed__another_takes_its_place():
    with supervised() as one:
        before = one.workers()
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        assert gone(victim)
        after = one.workers()
        while len(after) < 2:
            after |= one.workers() - {victim}
        assert len(after & before) == 1
        one.process.terminate()
        _, err = one.process.communicate(timeout=LIMIT_S)
        assert f"(process {victim}) ended by SIGKILL; another starts in" in err


def test_supervisor__sighup__every_worker_gets_it():
    with supervised() as one:
        one.process.send_signal(signal.SIGHUP)
        assert {one.line(), one.line()} == {"hangup 0", "hangup 1"}


def test_supervisor__a_worker_hangs__killed_and_replaced():
    with supervised("stuck") as one:
        assert one.process.stderr is not None
        lines = [one.process.stderr.readline() for _ in range(4)]
        assert any("has been stuck for 0.2 s: killed" in line for line in lines)
        assert any("ended by SIGKILL; another starts" in line for line in lines)


def test_supervisor__under_a_service_manager__ready_reloading_beats_and_stopping(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(LIMIT_S)
        with supervised(NOTIFY_SOCKET=path, WATCHDOG_USEC="200000") as one:
            first = manager.recv(4096).decode().split("\n")
            assert first == ["READY=1", f"STATUS=serving on {one.port}"]
            beats = {manager.recv(4096) for _ in range(3)}
            assert beats == {b"WATCHDOG=1"}
            for number, end in ((signal.SIGHUP, "READY"), (signal.SIGTERM, "STOPPING")):
                one.process.send_signal(number)
                told = [""]
                while told[-1] != end:
                    told.append(manager.recv(4096).decode().partition("=")[0])
                expected = {"READY": ["", "RELOADING", "READY"], "STOPPING": ["", "STOPPING"]}
                assert [one for one in told if one != "WATCHDOG"] == expected[end]


def test_supervisor__it_is_killed__its_workers_end():
    with supervised() as one:
        workers = one.workers()
        one.process.kill()
        assert all(gone(pid) for pid in workers)


def test_supervisor__a_worker_ignores_sigterm__a_second_one_kills_it():
    with supervised("deaf") as one:
        workers = one.workers()
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGINT)
        assert one.process.wait(LIMIT_S) == 0
        assert all(gone(pid) for pid in workers)


@pytest.mark.parametrize(
    ("how", "said"),
    [("refuses", "no disk"), ("crashes", "worker 1 ended with exit status 3")],
)
def test_supervisor__a_worker_does_not_start__it_says_why_and_all_end(how, said):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), how],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", said)


@pytest.mark.parametrize("shareable", [False, True], ids=["whole", "another-gateways-workers"])
def test_supervisor__the_port_is_taken__it_says_so(shareable):
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shareable))
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        config = Config(
            http=HttpConfig(host="127.0.0.1", port=holder.getsockname()[1]),
            rdma=RdmaConfig(fabric="off"),
            workers=2,
        )
        with pytest.raises(StartError, match=r"can't listen on 127\.0\.0\.1 port"):
            Supervisor(config, lambda *_: None, ServiceManager({}))
