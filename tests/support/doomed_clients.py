"""Clients in processes of their own that transfer without an end, until somebody kills them.

Run as a program it is their nursery: it has imported everything, and forks one for each line that
it reads. A client says its process id when its transfers begin.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from canary import LONGEST_BYTES, canary, some_length
from gateway_process import GatewayProcess
from rc_client import Desk
from rc_fabrics import RcFabric

STOP_LIMIT_S = 30.0


@dataclass(frozen=True)
class Nursery:
    """The test's end."""

    _program: subprocess.Popen[str]
    _turn: Lock = field(default_factory=Lock)  # two that read one stream would share a line

    def born(self, carrier: str, seed: int) -> int:
        """The process id of another client; it transfers already. Blocks; any thread."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        with self._turn:
            self._program.stdin.write(f"{carrier} {seed}\n")
            self._program.stdin.flush()
            return int(self._program.stdout.readline())


@contextmanager
def nursery(gateway: GatewayProcess, bucket: str) -> Iterator[Nursery]:
    """Of clients that put into `bucket`, and get its object `canary`. All are dead at the end."""
    variables = {
        "KEY_ID": gateway.access_key,
        "KEY_SECRET": gateway.secret_key,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    program = subprocess.Popen(
        [sys.executable, __file__, gateway.endpoint, bucket],
        env=os.environ | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        yield Nursery(program)
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(STOP_LIMIT_S) == 0


async def _live(desk: Desk, bucket: str, carrier: str, seed: int) -> None:
    """Until the end, which comes from outside."""
    choice = random.Random(seed)
    async with RcFabric(carrier).client_at(desk) as client:
        print(os.getpid(), flush=True)
        while True:
            size = some_length(choice)
            if choice.random() < 0.5:
                await client.put(f"/{bucket}/doomed-{seed % 8}", canary(size))
            else:
                await client.get(f"/{bucket}/canary", bytearray(LONGEST_BYTES))


def main() -> None:
    """Fork for each line, reap nobody, and leave nobody behind."""
    endpoint, bucket = sys.argv[1:]
    desk = Desk(endpoint, (os.environ["KEY_ID"], os.environ["KEY_SECRET"]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        carrier, seed = line.split()
        if (child := os.fork()) == 0:
            asyncio.run(_live(desk, bucket, carrier, int(seed)))
        children.append(child)
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
