"""Keys are added, rotated and removed while the gateway runs, and it obeys."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine
from gateway_process import GatewayProcess, gateway_process


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "credentials"
    path.write_text("[first]\naws_access_key_id = AKFIRST\naws_secret_access_key = first-secret\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def gateway(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--credentials-file", str(file), "--rdma-fabric", "off")
    with gateway_process(tmp_path_factory.mktemp("gateway"), *flags) as process:
        yield process


def made(cli: CommandLine, file: Path, *words: str) -> dict[str, str]:
    """Run `keys`; the pair that it shows, as the environment of a client."""
    done = cli("keys", *words, "--credentials-file", file, "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    return {
        "AWS_ACCESS_KEY_ID": told["access_key"],
        "AWS_SECRET_ACCESS_KEY": told["secret_key"],
    }


def test_keys__changed_while_it_runs__are_good_and_refused_at_once(
    gateway: GatewayProcess, file: Path
) -> None:
    cli = CommandLine(gateway)

    def answers(pair: dict[str, str]) -> bool:
        done = cli("ls", **pair)
        assert done.returncode == 0 or "InvalidAccessKeyId" in done.stderr
        return done.returncode == 0

    def soon(pair: dict[str, str], *, good: bool) -> bool:
        """A signal takes a moment to arrive."""
        return any(answers(pair) is good for _ in range(200))

    old = made(cli, file, "add", "trainer", "--user-id", "ml")
    os.kill(gateway.pid, signal.SIGHUP)
    assert soon(old, good=True)
    new = made(cli, file, "rotate", "trainer", "--keep-old")
    os.kill(gateway.pid, signal.SIGHUP)
    assert soon(new, good=True)
    assert answers(old)
    assert cli("keys", "remove", "trainer-old", "--credentials-file", file).returncode == 0
    os.kill(gateway.pid, signal.SIGHUP)
    assert soon(old, good=False)
    assert answers(new)
    shown = gateway.log.read_text()
    for pair in (old, new):
        assert pair["AWS_SECRET_ACCESS_KEY"] not in shown
