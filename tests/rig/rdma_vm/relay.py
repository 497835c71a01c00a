"""The host's end of the three virtio ports: control words, and COMMAND's two output streams."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from rdma_vm.report import RigError, logs, say

TIMED_OUT = 124
GRACE_S = 20.0  # the guest's own timer comes first; then ours ends the guest
READ_BYTES = 1 << 16


class Relay:
    """Pass the guest's output on until it has reported a result and both streams have ended.

    Args:
        sockets: control, stdout, stderr.
        boot_limit_s: from now to COMMAND's start.
        limit_s: from COMMAND's start to its end.
        end_mark: what ends each stream.
        scratch: where QEMU's messages and the console are.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        boot_limit_s: float,
        limit_s: float,
        end_mark: bytes,
        scratch: Path,
    ) -> None:
        self._control, self._stdout, self._stderr = sockets
        self._boot_limit_s, self._limit_s = boot_limit_s, limit_s
        self._end_mark, self._scratch = end_mark, scratch
        self._held = {self._stdout: b"", self._stderr: b""}  # perhaps the beginning of the mark
        self._words = b""
        self._begun_s = time.monotonic()
        self._started_s: float | None = None
        self._status: int | None = None

    @property
    def times(self) -> str:
        started_s = self._started_s or time.monotonic()
        return (
            f"boot {started_s - self._begun_s:.2f} s, COMMAND {time.monotonic() - started_s:.2f} s"
        )

    def run(self) -> int | None:
        """COMMAND's status, or None where the guest never started it."""
        with selectors.DefaultSelector() as selector:
            for stream in (self._control, self._stdout, self._stderr):
                selector.register(stream, selectors.EVENT_READ)
            while self._status is None or self._held:
                left_s = self._left_s()
                if self._status is None and left_s <= 0:
                    return self._overdue()
                for key, _ in selector.select(max(left_s, 1)):
                    port = key.fileobj
                    assert isinstance(port, socket.socket)
                    data = port.recv(READ_BYTES)
                    if not data:
                        self._fail_if_started()
                        return None
                    if port is self._control:
                        self._hear(data)
                    elif self._pass_on(port, data):
                        selector.unregister(port)
        return self._status

    def _left_s(self) -> float:
        if self._started_s is None:
            return self._begun_s + self._boot_limit_s - time.monotonic()
        return self._started_s + self._limit_s + GRACE_S - time.monotonic()

    def _overdue(self) -> int | None:
        if self._started_s is None:
            return None
        say(f"timeout: COMMAND outlived {self._limit_s:g} s; guest ended")
        return TIMED_OUT

    def _fail_if_started(self) -> None:
        """QEMU has ended: before COMMAND's start another try is worth it, after it none is."""
        if self._started_s is not None:
            raise RigError("the guest died while COMMAND ran" + logs(self._scratch))

    def _hear(self, data: bytes) -> None:
        *lines, self._words = (self._words + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            self._started_s = self._started_s or time.monotonic()
            match word:
                case "EXIT":
                    self._status = int(rest)
                case "TIMEOUT":
                    say(f"timeout: COMMAND ran for more than {self._limit_s:g} s and was killed")
                    self._status = TIMED_OUT
                case "DIE":
                    raise RigError(f"guest: {rest}" + logs(self._scratch))

    def _pass_on(self, port: socket.socket, data: bytes) -> bool:
        """Write `data` out, less what may begin the end mark; True once the mark has come."""
        mark = self._end_mark
        data = self._held[port] + data
        lengths = range(min(len(mark), len(data)), 0, -1)
        kept = next((n for n in lengths if data.endswith(mark[:n])), 0)
        data, self._held[port] = data[: len(data) - kept], data[len(data) - kept :]
        while data:
            data = data[os.write(1 if port is self._stdout else 2, data) :]
        if kept < len(mark):
            return False
        del self._held[port]
        return True
