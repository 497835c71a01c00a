"""What the tests against the kernel's Soft-RoCE share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import soft_namespace


@pytest.fixture(scope="module")
def devices() -> list[str]:
    """The rig's two devices, or what this host has."""
    named = os.environ.get("RDMA_VM_DEVICES", "").split()
    return named or sorted(os.listdir("/sys/class/infiniband"))


@pytest.fixture(scope="module")
def joined_namespaces() -> Iterator[None]:
    """The kernel's Soft-RoCE here, and a namespace for the soft fabric behind a wire."""
    if os.geteuid() != 0 or not Path("/sys/module/rdma_rxe").exists():
        pytest.skip("needs root and the kernel's Soft-RoCE, as in the rig's VM")
    with soft_namespace.joined_namespaces():
        yield
