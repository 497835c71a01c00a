"""``s3rdma get``: an object into a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.cli import options


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = subparsers.add_parser("get", help="fetch an object into a file")
    parser.add_argument("source", type=options.s3_url, metavar="s3://BUCKET/KEY")
    parser.add_argument("file", type=Path, metavar="FILE")
    options.add_transfer_options(parser)
    options.add_connection_options(parser)
    options.add_output_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli import transfer  # noqa: PLC0415

    return transfer.get(args)
