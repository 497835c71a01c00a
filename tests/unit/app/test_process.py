"""The process: what it says comes in one piece, for several processes share one stream."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

LIMIT_S = 30.0
SAY = "from gateway.app.process import say; say('serving')"
LOG = """
from logging import getLogger
from gateway.telemetry import set_up
set_up("info", "json")
getLogger("gateway").info("serving")
"""


@pytest.mark.parametrize("program", [SAY, LOG], ids=["say", "log"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_line__workers_share_the_stream__one_write(program: str, unbuffered: str) -> None:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)  # a packet for each write(2)
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", program],
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            timeout=LIMIT_S,
            check=True,
        )
        theirs.close()
        line, rest = ours.recv(4096), ours.recv(4096)
    assert b"serving" in line
    assert (line[-1:], rest) == (b"\n", b"")
