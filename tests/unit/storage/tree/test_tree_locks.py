"""Locks by name: among threads, among processes, with a deadline, and given back by the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.errors import BusyError
from gateway.storage.tree.locks import Locks

HOLDER = """
import os, sys
from gateway.storage.tree.locks import Locks
locks = Locks(os.open(sys.argv[1], os.O_RDWR), 1.0)
with locks.hold("key", "bucket", "k"):
    print("held", flush=True)
    sys.stdin.read()
"""


def opened(path: Path, timeout_s: float = 0.05) -> Locks:
    return Locks(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), timeout_s)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def pair(file: Path) -> Iterator[tuple[Locks, Locks]]:
    """As two gateways have the file open."""
    made = opened(file), opened(file)
    yield made
    for each in made:
        each.close()


@contextmanager
def holder(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds "key", "bucket", "k" until its input ends."""
    argv = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        try:
            yield child
        finally:
            child.kill()


def test_hold__two_gateways__one_at_a_time_and_names_apart(pair: tuple[Locks, Locks]) -> None:
    one, other = pair
    with one.hold("key", "bucket", "k"):
        with (
            pytest.raises(BusyError, match=r"tree\.lock_timeout_s"),
            other.hold("key", "bucket", "k"),
        ):
            pytest.fail("both hold it")
        with other.hold("key", "bucket", "other"), other.hold("key", "bucketk", ""):
            pass
    with other.hold("key", "bucket", "k"):
        pass


def test_hold__threads_of_one_gateway__one_at_a_time(file: Path) -> None:
    locks, inside, most = opened(file, 10), 0, 0
    start = threading.Barrier(8)

    def work() -> None:
        nonlocal inside, most
        start.wait()
        for _ in range(50):
            with locks.hold("k"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most, locks._waiters) == (0, 1, {})
    locks.close()


def test_hold__another_thread_takes_long__busy_after_the_timeout(file: Path) -> None:
    locks = opened(file)
    refused = []

    def second() -> None:
        try:
            with locks.hold("k"):
                pass
        except BusyError as error:
            refused.append(error)

    with locks.hold("k"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
    locks.close()


def test_hold__the_block_fails__given_back(pair: tuple[Locks, Locks]) -> None:
    one, other = pair
    with pytest.raises(ZeroDivisionError), one.hold("k"):
        _ = 1 // 0
    with other.hold("k"):
        pass


def test_hold__holder_is_killed__the_kernel_gives_it_back(file: Path) -> None:
    locks = opened(file)
    with holder(file) as child:
        with pytest.raises(BusyError), locks.hold("key", "bucket", "k"):
            pytest.fail("both hold it")
        child.send_signal(signal.SIGKILL)
        child.wait()
        with locks.hold("key", "bucket", "k"):
            pass
    locks.close()


def test_try_keep__held_elsewhere__false_until_it_is_given_back(pair: tuple[Locks, Locks]) -> None:
    one, other = pair
    assert one.try_keep("staging", "1")
    assert not other.try_keep("staging", "1")
    one.give_back("staging", "1")
    assert other.try_keep("staging", "1")


def test_hold__name_that_is_no_text__is_a_name(pair: tuple[Locks, Locks]) -> None:
    with pair[0].hold("key", "bucket", os.fsdecode(b"\xff/")):
        pass


def test_hold__file_system_keeps_no_locks__the_kernels_error(tmp_path: Path) -> None:
    """A descriptor that can't be locked for writing stands for it."""
    (tmp_path / "locks").write_bytes(b"")
    locks = Locks(os.open(tmp_path / "locks", os.O_RDONLY), 0.05)
    with pytest.raises(OSError, match="Bad file descriptor"), locks.hold("k"):
        pytest.fail("held")
    locks.close()
