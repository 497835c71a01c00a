"""``s3rdma get``: objects into files."""

from __future__ import annotations

import argparse

from gateway.cli import options

SUMMARY = "fetch objects into files, a directory or standard output"
TEXT = """\
A file appears whole, under its name, or not at all; it is as old as its object. With --recursive a
URL stands for the object of that key and for all below it; they go below TARGET under what follows
the key. No key leads out of TARGET: one with .. or an empty name in it fails, and get takes it by
itself, to a name that you give."""
EXAMPLES = """\
s3rdma get s3://models/llama/weights.bin .
s3rdma get --resume s3://models/llama/weights.bin /data/weights.bin
s3rdma get -r --update --include '*.parquet' s3://lake/2026/ /data/2026
s3rdma get s3://logs/today.gz - | zcat"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "get", SUMMARY, EXAMPLES, TEXT)
    options.add_many_options(parser, recursive="the object, and all below that prefix")
    options.add_version_option(parser)
    options.add_again_options(parser)
    options.add_batch_options(parser)
    options.add_transfer_options(parser)
    options.add_connection_options(parser)
    options.add_output_options(parser)
    parser.add_argument(
        "sources", nargs="+", type=options.s3_url, metavar="s3://BUCKET/KEY", help="objects"
    )
    parser.add_argument("target", metavar="TARGET", help="a file, a directory, or -")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.objects import getting  # noqa: PLC0415

    return getting.get(args)
