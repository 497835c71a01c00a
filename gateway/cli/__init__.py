"""The command line: ``s3rdma serve | doctor | put | get | ls | mb``.

Each command is a module of this package with ``add_parser(subparsers)``, which names it and its
flags, and ``run(args) -> int``, which does the work and returns the exit code: 0 done, 1 failed,
2 wrong usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gateway import __version__
from gateway.cli import doctor, get, ls, mb, put, serve

COMMANDS = {"serve": serve, "doctor": doctor, "put": put, "get": get, "ls": ls, "mb": mb}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        argv: the words after the program's name; None means the process's own.
    """
    parser = argparse.ArgumentParser(prog="s3rdma", description="An S3 gateway that speaks RDMA.")
    parser.add_argument("--version", action="version", version=f"s3rdma {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        code: int = COMMANDS[args.command].run(args)
    except KeyboardInterrupt:
        print("s3rdma: interrupted", file=sys.stderr)
        return 130
    return code
