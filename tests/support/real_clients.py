"""S3 clients as their users install them, behind one small face, for tests of daily work.

Each client has a driver in tests/integration/clients: a program that runs in the clients' own
environment and does what a line of JSON on its standard input says.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from gateway_process import GatewayProcess

PROJECT = Path(__file__).parents[2]
CLIENTS = PROJECT / ".cache/clients"
CLIENTS_PATH = f"{CLIENTS / 'bin'}{os.pathsep}{os.environ['PATH']}"
DRIVERS = PROJECT / "tests/integration/clients"
CLIENT_NAMES = sorted(path.stem.removeprefix("drive_") for path in DRIVERS.glob("drive_*"))
REPLY_LIMIT_S = 90.0
STOP_LIMIT_S = 10.0


class ClientError(Exception):
    """A client gave up; its own words are the text."""


class MissingClientError(Exception):
    """The client isn't installed, or not whole; the text is why."""


@contextmanager
def installed() -> Iterator[None]:
    """A client that isn't here is skipped, with reason and remedy; in CI it fails the test."""
    try:
        yield
    except MissingClientError as error:
        reason = f"{error}; run `make setup-clients`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def program(name: str) -> str:
    """The path of a client's program.

    Raises:
        MissingClientError: there is none.
    """
    found = shutil.which(name, path=CLIENTS_PATH)
    if found is None:
        raise MissingClientError(f"there is no {name} here")
    return found


def client_environment(gateway: GatewayProcess, home: Path) -> dict[str, str]:
    """All that a client is told: where the gateway is, and an empty home."""
    return gateway.client_environment | {
        "PATH": CLIENTS_PATH,
        "NODE_PATH": str(CLIENTS / "node_modules"),
        "LC_ALL": "C.UTF-8",
        "HOME": str(home),
        "AWS_EC2_METADATA_DISABLED": "true",  # the SDKs would look for it, and wait
    }


def python() -> str:
    """The clients' own interpreter.

    Raises:
        MissingClientError: there is none.
    """
    interpreter = CLIENTS / "bin/python"
    if not interpreter.exists():
        raise MissingClientError(f"there is no {interpreter.relative_to(PROJECT)}")
    return str(interpreter)


class Client:
    """One client at work: a driver process of its own, stopped where the `with` block ends.

    Every call raises ClientError where the client reports failure; its text is the client's. What
    only some clients can do has no method here, but goes by `call`.

    Raises:
        MissingClientError: the driver doesn't come up.
    """

    def __init__(self, name: str, gateway: GatewayProcess, home: Path) -> None:
        self.name = name
        (script,) = DRIVERS.glob(f"drive_{name}.*")
        self._log = home / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program("node") if script.suffix == ".cjs" else python(), str(script)],
                env=client_environment(gateway, home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        try:
            self._reply()
        except ClientError as error:
            self._stop()
            raise MissingClientError(f"{name} is not installed, or not whole: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        """Standard input ends, so the driver does; a client that hangs is killed."""
        try:
            self._process.communicate(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _reply(self) -> Any:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], REPLY_LIMIT_S)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            log = self._log.read_text(errors="replace").strip()
            raise ClientError(f"no reply within {REPLY_LIMIT_S:g} s, or an early end: {log}")
        reply = json.loads(line)
        if "error" in reply:
            raise ClientError(reply["error"])
        return reply["result"]

    def call(self, method: str, *args: Path | str | int | list[str]) -> Any:
        """What the driver's method returns."""
        assert self._process.stdin is not None
        plain = [str(argument) if isinstance(argument, Path) else argument for argument in args]
        print(json.dumps({"call": method, "args": plain}), file=self._process.stdin, flush=True)
        return self._reply()

    def make_bucket(self, bucket: str) -> None:
        self.call("make_bucket", bucket)

    def remove_bucket(self, bucket: str) -> None:
        self.call("remove_bucket", bucket)

    def put(self, file: Path, bucket: str, key: str) -> None:
        """Upload a file; one longer than the client's part goes as a multipart upload."""
        self.call("put", file, bucket, key)

    def get(self, bucket: str, key: str, file: Path) -> None:
        self.call("get", bucket, key, file)

    def get_range(self, bucket: str, key: str, file: Path, offset: int, length: int) -> None:
        """Write `length` bytes from `offset` on into a file, having fetched a range."""
        self.call("get_range", bucket, key, file, offset, length)

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        """Copy within the bucket, by the server where the client can."""
        self.call("copy", bucket, key, new_key)

    def keys(self, bucket: str) -> list[str]:
        """Every key, in the order the client gives them."""
        return list(self.call("keys", bucket))

    def remove(self, bucket: str, key: str) -> None:
        self.call("remove", bucket, key)

    def remove_all(self, bucket: str, keys: list[str]) -> None:
        """Remove all of the bucket's objects, which are `keys`, in as few requests as it can."""
        self.call("remove_all", bucket, keys)
