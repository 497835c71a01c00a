"""HAProxy as the how-to has it, before two gateways of one tree: none gets the other's requests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from botocore.credentials import Credentials
from gateway_process import serving
from markdown_blocks import blocks

from gateway.client import SyncClient, TransferPath

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/howto/haproxy.md"
BY_SOURCE = "    balance source\n    hash-type consistent\n"
KEYS = ("KEYOFBOTHGATEWAYS", "the secret of both gateways")


@contextmanager
def gateways(directory: Path, *flags: str) -> Iterator[list[tuple[str, Path]]]:
    """Two processes on one tree: their addresses and logs."""
    (directory / "tree" / "shared").mkdir(parents=True)
    argv = [sys.executable, "-m", "gateway", "serve", "--listen", "127.0.0.1:0"]
    argv += ["--storage-driver", "tree", "--tree-root", str(directory / "tree")]
    argv += ["--rdma-fabric", "soft", "--admin-port", "0", *flags]
    environment = os.environ | {"S3RDMA_ACCESS_KEY": KEYS[0], "S3RDMA_SECRET_KEY": KEYS[1]}
    with ExitStack() as running:
        found = []
        for name in ("one", "two"):
            log = directory / f"{name}.log"
            (host, port), _, _ = running.enter_context(serving(argv, environment, log))
            found.append((f"{host}:{port}", log))
        yield found


@contextmanager
def haproxy(directory: Path, servers: list[str]) -> Iterator[str]:
    """HAProxy as deploy/haproxy.cfg and the page have it together; yields its address."""
    (finer,) = [block.text for block in blocks(PAGE) if block.language == "haproxy"]
    shipped = (ROOT / "deploy/haproxy.cfg").read_text()
    assert BY_SOURCE in shipped
    file = directory / "haproxy.cfg"
    file.write_text(shipped.replace(BY_SOURCE, finer))
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    with socket.create_server(("127.0.0.1", 0)) as listening:  # so that nobody waits for it
        own = f"fd@{listening.fileno()}"
        places = dict(zip(("LISTEN", "GATEWAY_A", "GATEWAY_B"), (own, *servers), strict=True))
        with subprocess.Popen(
            [program, "-db", "-f", str(file)],
            env=os.environ | places,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
        ) as child:
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                child.terminate()


@pytest.mark.clients
@pytest.mark.parametrize("connections", ["8", "0"], ids=["connections", "sessions"])
def test_haproxy__before_two_gateways__every_transfer_by_rdma_is_right(
    tmp_path: Path, connections: str
) -> None:
    with (
        gateways(tmp_path, "--rdma-connections", connections) as served,
        haproxy(tmp_path, [address for address, _ in served]) as endpoint,
    ):
        for number in range(4):  # of four clients, each with a connection of its own
            source = np.random.default_rng(number).bytes(100_000 + number)
            with SyncClient(
                endpoint_url=endpoint,
                region_name="us-east-1",
                credentials=Credentials(*KEYS),
                rdma="require",
                device="soft",
            ) as client:
                for turn in range(3):
                    target = bytearray(len(source))
                    put = client.put_from("shared", f"{number}/{turn}", source)
                    got = client.get_into("shared", f"{number}/{turn}", target, 0, len(target))
                    assert {put.path, got.path} == {TransferPath.RDMA}
                    assert target == source
    moved = [
        log.read_text().count(" rdma PUT ") + log.read_text().count(" rdma GET ")
        for _, log in served
    ]
    assert sum(moved) == 24
    assert min(moved) > 0, "one gateway had nothing to do"
