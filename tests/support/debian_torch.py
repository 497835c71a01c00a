"""PyTorch for tests: Debian's, which needs no GPU's libraries, beside the virtual environment.

The registry's wheels for this platform import only where CUDA's libraries are installed, 3 GB of
them. Debian's package is of NumPy 1, and this environment has NumPy 2, so a program that uses it
gets the two from Debian, in a process of its own, and all else from here.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

_DEBIAN = Path("/usr/lib/python3/dist-packages")
_NEEDED = ("torch", "numpy")


def need_torch() -> None:
    """Skip the test where ``apt-get install python3-torch`` was not done; in CI it was."""
    core = f"torch/_C{sysconfig.get_config_var('EXT_SUFFIX')}"  # of this Python's version
    if not (_DEBIAN / core).exists() and "CI" not in os.environ:
        pytest.skip("no torch: apt-get install python3-torch")


def torch_path(directory: Path) -> str:
    """A directory for ``PYTHONPATH``, made in `directory`, with torch and its NumPy in it."""
    links = directory / "torch"
    links.mkdir()
    for name in _NEEDED:
        (links / name).symlink_to(_DEBIAN / name)
    return str(links)
