"""``s3rdma mb``: make a bucket."""

from __future__ import annotations

import argparse

from gateway.cli import options


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = subparsers.add_parser("mb", help="make a bucket")
    parser.add_argument("url", type=options.bucket_url, metavar="s3://BUCKET")
    options.add_connection_options(parser)
    options.add_output_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli import listing  # noqa: PLC0415

    return listing.mb(args)
