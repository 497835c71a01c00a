"""What the commands have in common on the command line. Imports nothing heavy."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import TypeAlias

from gateway.config import MIB
from gateway.config.load import parse_size

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

DEFAULT_ENDPOINT_URL = "http://127.0.0.1:9000"
"""Where `s3rdma serve` listens by default."""

STANDARD_STREAM = "-"
"""In place of a file: standard input, or standard output."""

EXIT_CODES = """\
exit codes:
  0    done
  1    failed; of many objects, at least one, and standard error names it
  2    wrong usage, or a configuration that can't be used
  130  interrupted"""

_VERSION_ID = "--version-id"
_MOST_JOBS = 256
_LEAST_PART_BYTES = 5 * MIB  # S3's own, but for the last part
_ENDPOINT_VARIABLES = ("S3RDMA_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class S3Url:
    """``s3://bucket[/key]``; the key stands for itself, nothing in it is decoded."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}" if self.key else f"s3://{self.bucket}"


def s3_url(text: str) -> S3Url:
    """Parse one; an argparse type, so that a mistake is a usage error."""
    scheme, separator, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not separator or not bucket:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form s3://BUCKET/KEY")
    return S3Url(bucket, key)


def bucket_url(text: str) -> S3Url:
    """``s3://bucket`` and nothing more."""
    url = s3_url(text)
    if url.key:
        raise argparse.ArgumentTypeError(f"{text!r} names a key; s3://BUCKET is wanted")
    return url


def size(text: str) -> int:
    """``64MiB`` as bytes; an argparse type."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def part_size(text: str) -> int:
    """A size that S3 takes for a part."""
    length_bytes = size(text)
    if not _LEAST_PART_BYTES <= length_bytes < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r}: a part is 5MiB to 2147483647 bytes long")
    return length_bytes


def jobs(text: str) -> int:
    """A number of things at once."""
    if not (text.isdecimal() and 0 < int(text) <= _MOST_JOBS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_JOBS}")
    return int(text)


def add_command(
    subparsers: Subparsers,
    name: str,
    summary: str,
    examples: str,
    text: str = "",
    *,
    exit_codes: str = EXIT_CODES,
    usage: str | None = None,
) -> argparse.ArgumentParser:
    """A command's parser, with what every ``--help`` has: what it does, examples, exit codes.

    Args:
        subparsers: of the program.
        name: the command's.
        summary: one line, without a capital and a full stop, for the list of commands.
        examples: a line each.
        text: more sentences, below the summary.
        exit_codes: where they are others than everywhere.
        usage: instead of the line with every flag.
    """
    return subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{text}".strip(),
        epilog=f"examples:\n{indent(examples.strip(), '  ')}\n\n{exit_codes}",
        usage=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_connection_options(
    parser: argparse.ArgumentParser, endpoint_url: str | None = DEFAULT_ENDPOINT_URL
) -> None:
    """Where the gateway is, and who asks; secrets come from the environment or files only."""
    group = parser.add_argument_group(
        "connection",
        "Credentials: S3RDMA_ACCESS_KEY and S3RDMA_SECRET_KEY, or whatever the AWS tools use "
        "(AWS_ACCESS_KEY_ID, ~/.aws/credentials, …).",
    )
    group.add_argument(
        "--endpoint-url",
        default=endpoint_from_environment() or endpoint_url,
        metavar="URL",
        help="the gateway's address [S3RDMA_ENDPOINT_URL, AWS_ENDPOINT_URL, or "
        f"{DEFAULT_ENDPOINT_URL}]",
    )
    trust = group.add_mutually_exclusive_group()
    trust.add_argument(
        "--ca-bundle",
        metavar="FILE",
        help="PEM file of who may vouch for an https endpoint [AWS_CA_BUNDLE]",
    )
    trust.add_argument(
        "--no-verify-ssl", action="store_true", help="talk to an https endpoint of anybody"
    )
    group.add_argument("--region", metavar="NAME", help="the region to sign for")
    group.add_argument("--profile", metavar="NAME", help="a profile of ~/.aws/credentials")


def add_transfer_options(parser: argparse.ArgumentParser) -> None:
    """Which way the bytes go."""
    group = parser.add_argument_group("transfer")
    way = group.add_mutually_exclusive_group()
    way.add_argument("--http", action="store_true", help="plain HTTP, to compare")
    way.add_argument("--rdma", action="store_true", help="RDMA, or fail")
    add_device_option(group)


def add_device_option(parser: argparse._ActionsContainer) -> None:
    """Which RDMA device of this host, or the soft fabric."""
    parser.add_argument(
        "--device", default="", metavar="NAME", help="RDMA device; soft[:ADDRESS] for none"
    )


def add_many_options(parser: argparse.ArgumentParser, *, recursive: str) -> None:
    """Which of many objects; `recursive` is that flag's help."""
    group = parser.add_argument_group("objects")
    group.add_argument("-r", "--recursive", action="store_true", help=recursive)
    for flag, what in (
        ("--include", "with --recursive, take only names that match one of these"),
        ("--exclude", "with --recursive, leave out names that match; wins over --include"),
    ):
        group.add_argument(flag, action="append", default=[], metavar="GLOB", help=what)
    group.add_argument(
        "-n", "--dry-run", action="store_true", help="say what would be done, and do nothing"
    )


def add_version_option(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """One version of one object; returns the group of what excludes it."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(_VERSION_ID, metavar="ID", help="that version of the object")
    return group


def joined(argv: Sequence[str]) -> list[str]:
    """The words, ``--version-id ID`` as one: many services' ids may begin with a dash.

    argparse takes such a word for an option of its own (python/cpython#53580).
    """
    words: list[str] = []
    for word in argv:
        if words and words[-1] == _VERSION_ID and "--" not in words:
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """How much at once, and what to pass over."""
    group = parser.add_argument_group("many at once")
    group.add_argument(
        "-j", "--jobs", type=jobs, default=8, metavar="N", help="objects at once [8]"
    )
    group.add_argument(
        "--parts",
        type=jobs,
        default=4,
        metavar="N",
        help="parts of each at once [4]",
    )
    group.add_argument(
        "--part-size",
        type=part_size,
        default=64 * MIB,
        metavar="SIZE",
        help="longer objects go in parts of this size [64MiB]",
    )
    group.add_argument(
        "--no-clobber", action="store_true", help="skip what is there already, whatever it is"
    )


def add_again_options(parser: argparse.ArgumentParser) -> None:
    """What an earlier run has left to do."""
    group = parser.add_argument_group("again")
    group.add_argument(
        "-u",
        "--update",
        action="store_true",
        help="skip what has the same size there and is not older",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="keep what has been moved of an object when this is interrupted, and go on from there",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """How the result is told."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--json", action="store_true", help="a line of JSON for each object, and a summary"
    )
    group.add_argument("-q", "--quiet", action="store_true", help="say nothing but what failed")
    group.add_argument("-v", "--verbose", action="store_true", help="a line for each object")


def endpoint_from_environment() -> str | None:
    """The first variable that is set."""
    return next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None)
