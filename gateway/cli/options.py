"""What the client's commands have in common on the command line. Imports nothing heavy."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

DEFAULT_ENDPOINT_URL = "http://127.0.0.1:9000"
"""Where `s3rdma serve` listens by default."""

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
        help="the gateway's address (default: %(default)s; environment: S3RDMA_ENDPOINT_URL)",
    )
    group.add_argument("--region", metavar="NAME", help="the region to sign for")
    group.add_argument("--profile", metavar="NAME", help="a profile of ~/.aws/credentials")


def add_transfer_options(parser: argparse.ArgumentParser) -> None:
    """Which way the bytes go."""
    group = parser.add_argument_group("transfer")
    way = group.add_mutually_exclusive_group()
    way.add_argument("--http", action="store_true", help="plain HTTP, to compare")
    way.add_argument("--rdma", action="store_true", help="RDMA, or fail")
    group.add_argument(
        "--device", default="", metavar="NAME", help="RDMA device; soft[:ADDRESS] for none"
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """How the result is told."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="the result as JSON, one line each")
    group.add_argument("--quiet", action="store_true", help="no progress, no result line")


def endpoint_from_environment() -> str | None:
    """The first variable that is set."""
    return next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None)
