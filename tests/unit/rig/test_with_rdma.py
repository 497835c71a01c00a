"""Where a command runs that wants an RDMA device, and what is said where it can't."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "rig/with-rdma"
COMMAND = ("echo", "it ran")

pytestmark = pytest.mark.skipif(
    any(Path("/sys/class/infiniband").glob("*")), reason="this host has a device: no VM is wanted"
)


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    """The script beside a machine that the test plays."""
    shutil.copy(SCRIPT, tmp_path)
    return tmp_path


def play(rig: Path, install_status: int) -> None:
    machine = rig / "rdma-vm"
    machine.write_text(
        f'#!/bin/sh\n[ "$1" = --install ] && exit {install_status}\n'
        'while [ "$1" != -- ]; do shift; done\nshift\necho in the machine; exec "$@"\n'
    )
    machine.chmod(0o755)


def with_rdma(rig: Path, *words: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [rig / "with-rdma", *words, "--", *COMMAND],
        env=os.environ | {"CI": ci},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("words", [(), ("--optional",), ("--optional", "--limit", "9")])
def test_with_rdma__no_device__runs_in_the_machine(rig: Path, words: tuple[str, ...]) -> None:
    play(rig, install_status=0)
    done = with_rdma(rig, *words)
    assert (done.returncode, done.stdout) == (0, "in the machine\nit ran\n")


@pytest.mark.parametrize(
    ("words", "ci", "status"),
    [
        ((), "", 125),
        (("--optional",), "", 0),
        (("--optional", "--limit", "9"), "", 0),
        (("--optional",), "true", 125),
    ],
)
def test_with_rdma__no_machine_either__says_loudly_what_was_left_out(
    rig: Path, words: tuple[str, ...], ci: str, status: int
) -> None:
    play(rig, install_status=1)
    done = with_rdma(rig, *words, ci=ci)
    assert (done.returncode, done.stdout) == (status, "")
    assert f"LEFT OUT: {' '.join(COMMAND)}\n" in done.stderr
    assert "make rig" in done.stderr
