"""systemd's own judgement of the unit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "s3rdma.service"
MOST_EXPOSED = 2.0  # systemd's scale ends at 10; its own units have up to 9.6

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this host"
)


def analyse(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_unit__verified_by_systemd__nothing_to_say(tmp_path):
    here = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/opt/s3rdma/bin/s3rdma", sys.executable)
    here.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE))
    done = analyse("verify", "--man=no", str(here))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_unit__security_as_systemd_scores_it__little_exposed():
    done = analyse("security", "--offline=true", str(UNIT))
    found = re.search(r"Overall exposure level for s3rdma.service: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= MOST_EXPOSED
