"""Every command block of README.md, run as it stands against a gateway that README.md started.

Only what a reader would put in its place is: the gateway's address, and the store's directory.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from debian_torch import need_torch, torch_path
from gateway_process import serving
from markdown_blocks import Block, commands, newcomers_environment, run, run_shell

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".cache/clients/bin"
BLOCKS = commands(ROOT / "README.md")
SERVE = "s3rdma serve --store /var/lib/s3rdma --listen 0.0.0.0:9000"

NOT_RUN = {
    "make demo    # a real file in and out by RDMA and by boto3, all checksums compared": (
        "CI runs both as steps of their own"
    ),
    "apt-get install gcc python3-dev python3-venv libibverbs-dev libdeflate-dev   # to build": (
        "tests/rig/host-packages and `make build` do the same before any test can run"
    ),
}
"""Blocks by their first line, and why they are not run here."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who follows README.md: where they are, and what they have put in its places."""

    directory: Path
    endpoint: str
    store: Path
    environment: dict[str, str]
    log: Path

    def adapted(self, block: Block) -> str:
        text = block.text.replace("http://gateway:9000", self.endpoint)
        return text.replace("/var/lib/s3rdma", str(self.store))

    def rdma_lines(self) -> int:
        """Transfers by RDMA, as the gateway logs them."""
        return self.log.read_text().count(" rdma PUT ") + self.log.read_text().count(" rdma GET ")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The gateway of the section "Serve", and a client's host as "Point a client at it" has it."""
    directory = tmp_path_factory.mktemp("reader")
    store, log = directory / "store", directory / "gateway.log"
    (serve,) = [block.text for block in BLOCKS if block.first == SERVE]
    serve = serve.replace("/var/lib/s3rdma", str(store)).replace("0.0.0.0:9000", "127.0.0.1:0")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], str(CLIENTS)])
    environment = newcomers_environment() | {"PATH": path}
    with serving(shlex.split(serve), environment, log) as (address, _, _):
        environment |= {
            "AWS_SHARED_CREDENTIALS_FILE": str(store / "credentials"),
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        endpoint = f"http://{address[0]}:{address[1]}"
        run_shell("s3rdma mb s3://data", environment | {"AWS_ENDPOINT_URL": endpoint}, directory)
        yield Reader(directory, endpoint, store, environment, log)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=str)
def test_python_block__run_as_it_stands__moves_its_bytes_by_rdma(
    reader: Reader, block: Block, tmp_path: Path
) -> None:
    environment = dict(reader.environment)
    if "import torch" in block.text:
        need_torch()
        environment["PYTHONPATH"] = torch_path(tmp_path)
    before = reader.rdma_lines()
    run([sys.executable, "-W", "error", "-c", reader.adapted(block)], environment, tmp_path)
    assert reader.rdma_lines() > before


@pytest.mark.clients
def test_point_a_client_at_it__run_as_it_stands__brings_the_file_back(reader: Reader) -> None:
    (block,) = [b for b in BLOCKS if b.heading == "Point a client at it"]
    data = secrets.token_bytes(3 << 20)
    (reader.directory / "model.safetensors").write_bytes(data)
    before = reader.rdma_lines()
    run_shell(reader.adapted(block), reader.environment, reader.directory)
    assert reader.rdma_lines() > before
    assert (reader.directory / "copy").read_bytes() == data
    assert (reader.directory / "model").read_bytes() == data


def test_blocks__each__is_run_or_says_why_not() -> None:
    run_here = [SERVE, *(b.first for b in BLOCKS if b.heading == "Point a client at it")]
    shell = [block for block in BLOCKS if block.language == "sh"]
    assert [b for b in shell if b.first not in {*run_here, *NOT_RUN}] == []
    assert NOT_RUN.keys() <= {block.first for block in shell}
