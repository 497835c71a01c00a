"""``s3rdma ls``: buckets, or the objects of one."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "list buckets, or objects by the beginning of their keys"
EXAMPLES = """\
s3rdma ls
s3rdma ls -H s3://models/llama/
s3rdma ls -r --json --summarize s3://lake/2026-"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "ls", SUMMARY, EXAMPLES)
    parser.add_argument(
        "url", nargs="?", type=options.s3_url, metavar="s3://BUCKET[/PREFIX]", help="what to list"
    )
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="every key, not only one level"
    )
    parser.add_argument("-H", "--human-readable", action="store_true", help="sizes as 1.5 MiB")
    parser.add_argument(
        "--versions", action="store_true", help="every version and delete marker of every key"
    )
    parser.add_argument(
        "--summarize", action="store_true", help="at the end, how many objects and bytes"
    )
    options.add_connection_options(parser)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import listing  # noqa: PLC0415

    return listing.ls(args)
