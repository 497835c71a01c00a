"""The process itself: its heap, its open files, its signals."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys

_M_ARENA_MAX = -8  # malloc.h
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def share_one_heap() -> None:
    """One malloc arena for all threads (mallopt(3)).

    Buffers are made in one thread and freed in another; with an arena for each, glibc kept half as
    much again as was ever in use at once. Where libc has no mallopt, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def open_as_many_files_as_allowed() -> None:
    """The soft RLIMIT_NOFILE up to the hard one: a multipart object may be 10,000 open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def end_with_parent(parent: int) -> None:
    """Get SIGTERM when the parent process ends (prctl(2), PR_SET_PDEATHSIG), or end now.

    Args:
        parent: who the parent was before the fork; another one by now means that it is gone.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def say(text: str) -> None:
    """A line for the operator, on standard output, at once.

    In one write: workers share the stream, and an unbuffered print() writes its newline apart.
    """
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def stop_on_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; a second one ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopped
