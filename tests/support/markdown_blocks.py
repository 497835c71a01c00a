"""The fenced blocks of a Markdown page, and a shell to run its commands in, as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

COMMANDS = frozenset({"sh", "python"})
"""Languages of blocks that a reader would run; others are listings."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)[^\n`]*$")
COMMAND_LIMIT_S = 90.0


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        language: the word after the fence; "" where there is none.
        heading: the text of the nearest heading above.
        first: its first line, by which tests name it.
    """

    page: str
    line: int
    language: str
    heading: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.first})"


def blocks(path: Path) -> Iterator[Block]:
    """Every fenced block of a page, in order, without its indentation."""
    heading, opened = "", None
    inside: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, inside = (number, fence), []
            elif line.startswith("#"):
                heading = line.lstrip("# ")
        elif fence and not fence["language"]:
            at, start = opened
            text = "\n".join(inner.removeprefix(start["indent"]) for inner in inside) + "\n"
            yield Block(path.name, at, start["language"], heading, text)
            opened = None
        else:
            inside.append(line)
    assert opened is None, f"{path.name}: the block of line {opened[0]} has no end"


def commands(path: Path) -> list[Block]:
    """The blocks that a reader would run."""
    return [block for block in blocks(path) if block.language in COMMANDS]


def newcomers_environment() -> dict[str, str]:
    """This process's, without anything that says where a gateway is or who asks it.

    A gateway started in it has its admin port where no other one is.
    """
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("AWS_", "S3RDMA_"))
    }
    own = {"AWS_CONFIG_FILE": os.devnull, "S3RDMA_ADMIN_PORT": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | own


def run(argv: list[str], environment: Mapping[str, str], directory: Path) -> str:
    """What a command prints, both streams; it must succeed."""
    done = subprocess.run(
        argv,
        check=False,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=COMMAND_LIMIT_S,
        text=True,
    )
    assert done.returncode == 0, f"{argv[-1]}\nended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def run_shell(text: str, environment: Mapping[str, str], directory: Path) -> str:
    """A block of shell commands, stopped by the first that fails."""
    return run(["bash", "-euo", "pipefail", "-c", text], environment, directory)
