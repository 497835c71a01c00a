"""``s3rdma rm``: objects, away."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "remove objects"
TEXT = """\
With --recursive a URL stands for the object of that key and for all below it. In a bucket with
versions the old ones stay, until --all-versions or --version-id removes them for ever."""
EXAMPLES = """\
s3rdma rm s3://models/llama/weights.bin
s3rdma rm -r --dry-run s3://lake/2025/
s3rdma rm -r --all-versions s3://lake/2024/"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "rm", SUMMARY, EXAMPLES, TEXT)
    options.add_many_options(parser, recursive="the object, and all below that prefix")
    which = options.add_version_option(parser)
    which.add_argument(
        "--all-versions", action="store_true", help="every version and delete marker, for ever"
    )
    options.add_connection_options(parser)
    options.add_output_options(parser)
    parser.add_argument(
        "sources", nargs="+", type=options.s3_url, metavar="s3://BUCKET/KEY", help="objects"
    )


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import removing  # noqa: PLC0415

    return removing.rm(args)
