"""The command line: ``s3rdma COMMAND``.

Each command is a module of this package with ``add_parser(subparsers)``, which names it and its
flags, and ``run(args) -> int``, which does the work and returns the exit code: 0 done, 1 failed,
2 wrong usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from gateway import __version__
from gateway.cli import (
    backup,
    bench,
    completion,
    config,
    cp,
    doctor,
    fsck,
    get,
    health,
    keys,
    ls,
    mb,
    options,
    put,
    rb,
    rm,
    serve,
)

COMMANDS = {
    "serve": serve,
    "doctor": doctor,
    "health": health,
    "get": get,
    "put": put,
    "ls": ls,
    "cp": cp,
    "rm": rm,
    "mb": mb,
    "rb": rb,
    "bench": bench,
    "keys": keys,
    "fsck": fsck,
    "backup": backup,
    "config": config,
    "completion": completion,
}


def make_parser() -> argparse.ArgumentParser:
    """The whole command line; completions and the manual page are made from it, too."""
    parser = argparse.ArgumentParser(
        prog="s3rdma",
        description="An S3 gateway that speaks RDMA, and its client.",
        epilog=f"`s3rdma COMMAND --help` tells more of each.\n\n{options.EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"s3rdma {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        argv: the words after the program's name; None means the process's own.
    """
    args = make_parser().parse_args(options.joined(sys.argv[1:] if argv is None else argv))
    try:
        code: int = COMMANDS[args.command].run(args)
    except KeyboardInterrupt:
        print("s3rdma: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _reader_is_gone()
    return code


def _reader_is_gone() -> int:
    """As `ls | head` leaves it: no more words, and none at exit either (signal.html, SIGPIPE)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
