"""``s3rdma ls``: buckets, or the objects of one."""

from __future__ import annotations

import argparse

from gateway.cli import options


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = subparsers.add_parser("ls", help="list buckets or objects")
    parser.add_argument("url", nargs="?", type=options.s3_url, metavar="s3://BUCKET[/PREFIX]")
    parser.add_argument("--recursive", action="store_true", help="every key, not only one level")
    options.add_connection_options(parser)
    options.add_output_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli import listing  # noqa: PLC0415

    return listing.ls(args)
