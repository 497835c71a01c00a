"""Prometheus' own checker, as tests/rig/host-packages leaves it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_UNPACKED = Path(__file__).parents[2] / ".cache/promtool/promtool"


def promtool(*words: str, given: bytes = b"", directory: Path | None = None) -> str:
    """What it says on both streams; it must not find anything wrong.

    Skips loudly where it is missing, but for CI.
    """
    executable = shutil.which("promtool") or (str(_UNPACKED) if _UNPACKED.exists() else None)
    if executable is None and not os.environ.get("CI"):
        pytest.skip("*** NO PROMTOOL: NOT CHECKED BY IT *** (tests/rig/host-packages observe)")
    assert executable is not None
    done = subprocess.run(
        [executable, *words],
        input=given,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=60,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    return said
