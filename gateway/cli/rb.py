"""``s3rdma rb``: a bucket, away."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "remove a bucket"
EXAMPLES = """\
s3rdma rb s3://empty
s3rdma rb --force s3://scratch"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "rb", SUMMARY, EXAMPLES)
    parser.add_argument("url", type=options.bucket_url, metavar="s3://BUCKET", help="its name")
    parser.add_argument(
        "--force", action="store_true", help="with everything in it, all versions, for ever"
    )
    options.add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import removing  # noqa: PLC0415

    return removing.rb(args)
