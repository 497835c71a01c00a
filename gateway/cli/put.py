"""``s3rdma put``: files into objects."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "store files, directories or standard input as objects"
TEXT = """\
With --recursive a directory stands for all files below it; they are stored below the target's key,
under their names in it. Links to files are followed, links to directories are not."""
EXAMPLES = """\
s3rdma put weights.bin s3://models/llama/
s3rdma put --resume weights.bin s3://models/llama/weights.bin
s3rdma put -r --update --exclude '*.tmp' /data/2026 s3://lake/2026/
tar c /etc | s3rdma put - s3://backup/etc.tar"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "put", SUMMARY, EXAMPLES, TEXT)
    options.add_many_options(parser, recursive="directories, with all that is below")
    parser.add_argument(
        "--content-type", metavar="TYPE", help="of the objects, as in application/json"
    )
    options.add_again_options(parser)
    options.add_batch_options(parser)
    options.add_transfer_options(parser)
    options.add_connection_options(parser)
    options.add_output_options(parser)
    parser.add_argument("sources", nargs="+", metavar="FILE", help="files, directories, or -")
    parser.add_argument("target", type=options.s3_url, metavar="s3://BUCKET/KEY", help="where to")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import putting  # noqa: PLC0415

    return putting.put(args)
