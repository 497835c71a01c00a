"""``s3rdma completion``: what makes a shell complete this program's words."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from gateway.cli import options

SUMMARY = "print the completion script of a shell"
EXAMPLES = """\
s3rdma completion bash > /usr/share/bash-completion/completions/s3rdma
s3rdma completion zsh  > /usr/share/zsh/vendor-completions/_s3rdma
s3rdma completion fish > /usr/share/fish/vendor_completions.d/s3rdma.fish"""
SHELLS = ("bash", "zsh", "fish")


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its argument."""
    parser = options.add_command(subparsers, "completion", SUMMARY, EXAMPLES)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from gateway.cli import make_parser  # noqa: PLC0415  (which is made of this module, too)

    print(script(make_parser(), args.shell), end="")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The whole script, made from the parser: it needs nothing of this program to run."""
    import shtab  # noqa: PLC0415  (no other command needs it)

    kinds = {"FILE": shtab.FILE, "TARGET": shtab.FILE, "DIR": shtab.DIRECTORY}
    for action in _actions(parser):
        if action.metavar in kinds:
            action.complete = kinds[action.metavar]  # type: ignore[attr-defined]  # shtab's own
    text: str = shtab.complete(parser, shell=shell)
    return text.rstrip("\n") + "\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every flag and argument, of all commands below, too."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
