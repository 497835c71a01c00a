"""`s3rdma`, pointed at a gateway by the environment: within this process, or in one of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from gateway_process import GatewayProcess

from gateway.cli import main

LIMIT_S = 60


class CommandLine:
    """Call it with a command's words; what stands in the environment may be given by name."""

    def __init__(self, served: GatewayProcess) -> None:
        self.environment = served.client_environment

    def __call__(self, *argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Within this process, which spares the start of one."""
        words = [str(word) for word in argv]
        out, errors = StringIO(), StringIO()
        with (
            patch.dict(os.environ, self.environment | environment),
            redirect_stdout(out),
            redirect_stderr(errors),
        ):
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())

    def process(
        self, *argv: str | Path, stdin: bytes | IO[bytes] = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """In a process of its own, with standard streams of its own."""
        given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        return subprocess.run(
            self.words(*argv),
            env=os.environ | self.environment,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            **given,
        )

    def start(self, *argv: str | Path, **environment: str) -> subprocess.Popen[bytes]:
        """In a process of its own, which the caller ends."""
        return subprocess.Popen(
            self.words(*argv),
            env=os.environ | self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def shell(self, line: str) -> subprocess.CompletedProcess[bytes]:
        """A line of a shell, which begins with the command."""
        return subprocess.run(
            ["bash", "-c", f"{shlex.join(self.words())} {line}"],
            env=os.environ | self.environment,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )

    @staticmethod
    def words(*argv: str | Path) -> list[str]:
        return [sys.executable, "-m", "gateway", *map(str, argv)]
