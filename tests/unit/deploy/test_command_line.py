"""Manual page and completions are those of the command line, and the shells can read them."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.cli import COMMANDS

DEPLOY = Path(__file__).parents[3] / "deploy"
SCRIPT = runpy.run_path(str(DEPLOY / "command_line.py"))


def test_files__made_again__are_the_same() -> None:
    for path, text in SCRIPT["files"]().items():
        assert path.read_text() == text, "run: python deploy/command_line.py"


def test_manual__of_every_command__names_it_with_examples() -> None:
    page = SCRIPT["manual"]()
    for name in COMMANDS:
        assert f"\n.SS {name}\n" in page
    assert page.count("Examples:") == len(COMMANDS)
    assert "\n.TP\n\\fB130\\fR\ninterrupted\n" in page


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (".SH x", r"\&.SH x"),
        ("'x'", r"\&'x'"),
        (r"a\b --flag", r"a\eb \-\-flag"),
    ],
)
def test_roff__words_that_mean_something_to_it__are_words(line: str, read: str) -> None:
    assert SCRIPT["roff"](line) == read


def test_manual__read_by_groff__has_no_warning() -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    page = DEPLOY / "man" / "s3rdma.1"
    done = subprocess.run(
        [groff, "-man", "-Kutf8", "-ww", "-z", page], capture_output=True, check=True, timeout=30
    )
    assert done.stderr == b""


COMPLETE = """\
source "$1"
COMP_WORDS=(s3rdma {words}) COMP_CWORD={last}
_shtab_s3rdma s3rdma
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["g"], {"get"}),
        (["c"], {"config", "completion", "cp"}),
        (["get", "--re"], {"--recursive", "--resume", "--region"}),
        (["keys", "r"], {"rotate", "remove"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash__asked_for_the_rest_of_a_word__offers_it(words: list[str], offered: set[str]) -> None:
    script = COMPLETE.format(words=" ".join(f'"{word}"' for word in words), last=len(words))
    done = subprocess.run(
        ["bash", "-c", script, "bash", DEPLOY / "completions" / "s3rdma"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert offered <= set(done.stdout.split())
