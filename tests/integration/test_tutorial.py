"""The tutorial as a newcomer follows it: every command, in order, in one shell."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from gateway_process import serving
from markdown_blocks import Block, commands, newcomers_environment, run_shell

ROOT = Path(__file__).parents[2]
SERVE = "s3rdma serve --store tutorial-store"
HERE = "127.0.0.1:9000"

NOT_RUN = {
    "make build": "no test runs before it was done",
}
"""Blocks by their first line, and why they are not run here."""


def as_shell(block: Block) -> str:
    """A block as the shell's input; a program is what its reader would save and run."""
    if block.language == "python":
        return f"python -W error - <<'END-OF-PROGRAM'\n{block.text}END-OF-PROGRAM\n"
    return block.text


def test_tutorial__followed_word_by_word__works_and_moves_bytes_by_rdma(tmp_path: Path) -> None:
    blocks = commands(ROOT / "docs/tutorial.md")
    assert NOT_RUN.keys() <= {block.first for block in blocks}
    served, *followed, clean_up = [block for block in blocks if block.first not in NOT_RUN]
    assert served.first == SERVE
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    log = tmp_path / "gateway.log"
    environment = newcomers_environment()
    program, *flags = shlex.split(served.text)
    argv = [str(Path(sys.executable).with_name(program)), *flags, "--listen", "127.0.0.1:0"]
    with serving(argv, environment, log, tmp_path) as (address, _, _):
        script = "".join(as_shell(block) for block in followed)
        script = script.replace(HERE, f"{address[0]}:{address[1]}")
        said = run_shell(script, environment, tmp_path)
    run_shell(clean_up.text, environment, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".venv", "gateway.log"}
    by_rdma = re.findall(r"^(put|get) 16777216 bytes .* by RDMA \(soft, local, rc\)$", said, re.M)
    assert by_rdma == ["put", "get"]
    assert "TransferPath.RDMA local" in said
    assert "4 transfers by RDMA, 33554432 bytes" in said
    for pattern in ("rdma PUT first/batch", "rdma GET first/batch", "rdma GET first/by-http"):
        assert pattern in log.read_text()
