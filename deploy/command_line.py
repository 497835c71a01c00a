"""Write man/s3rdma.1 and completions/, made from the parser of the command line.

`python deploy/command_line.py` after a change of the commands; a test holds them together.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from gateway import __version__
from gateway.cli import completion, make_parser, options

DEPLOY = Path(__file__).parent
COMPLETIONS = {"bash": "s3rdma", "zsh": "_s3rdma", "fish": "s3rdma.fish"}
"""Each under the name that its shell looks for."""

_SETTING = "setting:"  # the flags of `serve` that are made from the settings,
_SHORT = (f"{_SETTING}store", f"{_SETTING}listen")  # and those that are none
_NAME = r"s3rdma \- an S3 gateway that speaks RDMA, and its client"
_SERVE_FLAGS = """\
Each setting has a flag, too: --http-port for http.port; `s3rdma serve --help` lists them, and
s3rdma.toml explains them."""
_ENVIRONMENT = """\
S3RDMA_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL: the gateway that the client's commands
ask, the first that is set.

S3RDMA_ACCESS_KEY, S3RDMA_SECRET_KEY: of the client, and of `serve`. Without them the client finds
its keys as the AWS tools do.

S3RDMA_<SECTION>_<NAME>: a setting of the gateway."""
_FILES = """\
s3rdma.toml: the gateway's settings, given by --config.

STORE/credentials: the access keys of a gateway that was given none; `s3rdma keys` edits it."""


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """A parser's commands, by their names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def roff(text: str) -> str:
    """Words as roff reads them: nothing in them is a request or an escape."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def paragraphs(text: str) -> Iterator[str]:
    """Prose: a line for each paragraph."""
    for paragraph in text.split("\n\n"):
        if paragraph.strip():
            yield ".PP"
            yield roff(" ".join(paragraph.split()))


def term(action: argparse.Action) -> str:
    """``-j N, --jobs N``, flags in bold; or an argument in italics."""
    metavar = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    value = rf" \fI{roff(str(metavar))}\fR" if metavar and action.nargs != 0 else ""
    if not action.option_strings:
        return value.strip()
    return ", ".join(rf"\fB{roff(flag)}\fR{value}" for flag in action.option_strings)


def arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Each argument and flag with its help, but for those that every command has."""
    for action in parser._actions:
        hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        if not hidden and (not action.dest.startswith(_SETTING) or action.dest in _SHORT):
            yield ".TP"
            yield term(action)
            yield roff((action.help or "").replace("%%", "%"))


def command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """One command: what it does, its arguments, its actions, examples."""
    yield f".SS {name}"
    yield from paragraphs(parser.description or "")
    yield from arguments(parser)
    if any(action.dest.startswith(_SETTING) for action in parser._actions):
        yield from paragraphs(_SERVE_FLAGS)
    for action, below in commands(parser):
        yield ".TP"
        yield rf"\fB{name} {action}\fR"
        yield ".RS"
        yield from arguments(below)
        yield ".RE"
    examples = (parser.epilog or "").partition("examples:\n")[2].partition("\n\n")[0]
    if examples:
        yield ".PP"
        yield "Examples:"
        yield from (".PP", ".nf", ".RS", roff(re.sub(r"^ +", "", examples, flags=re.M)))
        yield from (".RE", ".fi")


def manual() -> str:
    """The whole page (man(7))."""
    parser = make_parser()
    lines = [f'.TH S3RDMA 1 "" "s3rdma {__version__}" "User Commands"', ".SH NAME", _NAME]
    lines += [".SH SYNOPSIS", r"\fBs3rdma\fR \fICOMMAND\fR [\fIarguments\fR]"]
    lines += [".SH DESCRIPTION", *paragraphs(parser.description or ""), ".SH COMMANDS"]
    for name, below in commands(parser):
        lines += command(name, below)
    lines += [".SH EXIT STATUS"]
    for line in options.EXIT_CODES.splitlines()[1:]:
        code, _, meaning = line.strip().partition(" ")
        lines += [".TP", rf"\fB{code}\fR", roff(meaning.strip())]
    lines += [".SH ENVIRONMENT", *paragraphs(_ENVIRONMENT)]
    lines += [".SH FILES", *paragraphs(_FILES)]
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Every file with its text."""
    parser = make_parser()
    made = {
        DEPLOY / "completions" / name: completion.script(parser, shell)
        for shell, name in COMPLETIONS.items()
    }
    return {DEPLOY / "man" / "s3rdma.1": manual(), **made}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
