from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from container import Engine

REPOSITORY = Path(__file__).parents[2]
NEEDED = ("buildah", "podman", "runc", "mmdebstrap")


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Our image, built from the Dockerfile as it is now."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        why = f"missing: {', '.join(missing)}" if missing else "needs root"
        if os.environ.get("CI") == "true":
            pytest.fail(f"the container can't be built: {why}")
        pytest.skip(f"the container was NOT built or run: {why}")
    one = Engine(REPOSITORY / ".cache" / "container")
    one.build()
    return one
