"""``s3rdma mb``: a new bucket."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "make a bucket"
EXAMPLES = "s3rdma mb s3://models"


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "mb", SUMMARY, EXAMPLES)
    parser.add_argument("url", type=options.bucket_url, metavar="s3://BUCKET", help="its name")
    options.add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import listing  # noqa: PLC0415

    return listing.mb(args)
