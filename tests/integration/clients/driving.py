"""The loop inside each driver of this folder: a real S3 client that a test commands in JSON lines.

A driver is a program of the clients' own environment (`make setup-clients`), so that no package of
theirs comes near the gateway's. It says {"result": "ready"}; then it reads {"call": "put", "args":
["/file", "bucket", "key"]} a line, does that one thing as its client's users would,
and writes {"result": …} or {"error": "what the client said"}. `real_clients.Client`, in
tests/support, is the other end and says what each call means.

The environment tells where the gateway is: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION; HOME is an empty directory of the driver's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PART_BYTES = 5 << 20  # the shortest part S3 takes; longer files go as multipart uploads
COMMAND_LIMIT_S = 60.0


class CommandError(Exception):
    """A command ended with a status other than 0; what it printed is the text."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where the gateway is, and the key that opens it."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return self.endpoint.removeprefix("http://")

    @classmethod
    def from_environment(cls) -> Gateway:
        return cls(
            os.environ["AWS_ENDPOINT_URL"],
            os.environ["AWS_ACCESS_KEY_ID"],
            os.environ["AWS_SECRET_ACCESS_KEY"],
            os.environ["AWS_DEFAULT_REGION"],
        )


def home() -> Path:
    """The driver's own directory, for its client's settings and scratch files."""
    return Path(os.environ["HOME"])


def run(argv: list[str]) -> bytes:
    """One command's standard output, to its last byte.

    Raises:
        CommandError: it failed.
    """
    done = subprocess.run(
        argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_LIMIT_S
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise CommandError(f"{argv}: exit {done.returncode}\n{said}")
    return done.stdout


def program(name: str) -> str:
    """The path of a client's program.

    Raises:
        FileNotFoundError: it isn't installed.
    """
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"no program of the name {name}")
    return found


def serve(driver: Any) -> None:
    """Do what standard input says until it ends."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # what a client prints is no reply
        print(json.dumps({"result": "ready"}), file=replies, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = {"result": getattr(driver, request["call"])(*request["args"])}
            except Exception as error:  # noqa: BLE001 - whatever a client raises is its answer
                reply = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), file=replies, flush=True)
