"""``s3rdma cp``: objects to other keys, within the server."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "copy objects to other keys or buckets, within the server"
TEXT = """\
No byte passes through this host. An object of more than 5 GiB is copied in parts; it keeps its
type and metadata. `get` and `put` are for copies to and from files."""
EXAMPLES = """\
s3rdma cp s3://models/llama/weights.bin s3://archive/llama.bin
s3rdma cp -r --exclude '*.tmp' s3://lake/2026/ s3://archive/2026/"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "cp", SUMMARY, EXAMPLES, TEXT)
    options.add_many_options(parser, recursive="the object, and all below that prefix")
    options.add_version_option(parser)
    options.add_batch_options(parser)
    options.add_connection_options(parser)
    options.add_output_options(parser)
    parser.add_argument(
        "sources", nargs="+", type=options.s3_url, metavar="s3://BUCKET/KEY", help="objects"
    )
    parser.add_argument("target", type=options.s3_url, metavar="s3://BUCKET/KEY", help="where to")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import copying  # noqa: PLC0415

    return copying.cp(args)
