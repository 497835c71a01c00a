"""The how-tos' blocks: programs run, settings load, and commands are ones that there are."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian_torch import need_torch, torch_path
from gateway_process import GatewayProcess, gateway_process
from markdown_blocks import Block, blocks, newcomers_environment, run

from gateway import cli
from gateway.config.load import load

ROOT = Path(__file__).parents[2]
ALL = [block for page in sorted((ROOT / "docs/howto").glob("*.md")) for block in blocks(page)]


def of(language: str) -> list[Block]:
    found = [block for block in ALL if block.language == language]
    assert found
    return found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("howto"), "--rdma-fabric", "soft") as process:
        yield process


def test_pytorch__its_programs_in_order__all_run_and_move_bytes_by_rdma(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    need_torch()
    environment = newcomers_environment() | gateway.client_environment
    run([sys.executable, "-m", "gateway", "mb", "s3://data"], environment, tmp_path)
    environment["PYTHONPATH"] = torch_path(tmp_path)
    assert {block.page for block in of("python")} == {"pytorch.md"}, "whose programs are run here"
    for block in of("python"):  # each in a process of its own, as the page says of workers
        program = block.text.replace("http://gateway:9000", gateway.endpoint)
        run([sys.executable, "-c", program], environment, tmp_path)
    for key in ("train/7", "step-1000/weight"):
        assert len(gateway.log_lines(rf"rdma (PUT|GET) data/{key} ")) == 2


@pytest.mark.parametrize("block", of("toml"), ids=str)
def test_settings__as_a_page_has_them__load(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "s3rdma.toml"
    file.write_text(block.text)
    load(file)


@pytest.mark.parametrize("block", of("sh"), ids=str)
def test_commands__as_a_page_has_them__are_the_shells_and_ours(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, timeout=10)
    parser = cli.make_parser()
    for line in block.text.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program.rpartition("/")[2] == "s3rdma":
            parser.parse_args(words)
