"""/readyz on a real device: the self-test moves bytes by it, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path

import pytest
from gateway_process import gateway_process

pytestmark = [pytest.mark.rdma, pytest.mark.timeout(300)]

DEVICE = (os.environ.get("RDMA_VM_DEVICES") or "rxe0").split()[0]
TRIES = 3
LANES = f"{2 * TRIES}x64KiB"  # two for each: a try that finds them resting would only look


def read(url: str) -> str:
    with urllib.request.urlopen(url) as reply:
        return reply.read().decode()


def test_readyz__on_a_device__tries_it_again_and_again(tmp_path: Path) -> None:
    flags = ("--rdma-device", DEVICE, "--rdma-fabric", "verbs", "--rdma-lanes", LANES)
    often = ("--admin-check-interval-s", "0", "--admin-check-timeout-s", "30")
    with gateway_process(tmp_path, *flags, *often) as process:
        for _ in range(TRIES):
            told = json.loads(read(f"{process.admin}/readyz"))
            assert told["checks"]["fabric"] == "ok", told
        metrics = read(f"{process.admin}/metrics")
    assert re.search(rf's3rdma_fabric_info{{device="{DEVICE}".*kind="verbs"', metrics)
    assert f's3rdma_work_requests_total{{kind="receive"}} {float(TRIES)}' in metrics
    assert 's3rdma_queue_pairs{state="leased",use="lane"} 0.0' in metrics
