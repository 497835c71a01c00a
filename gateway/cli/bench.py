"""``s3rdma bench``: latency and throughput, by RDMA and by HTTP, of any endpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gateway.cli import options
from gateway.config import KIB, MIB

SUMMARY = "measure latency and throughput by RDMA and HTTP, of any S3 endpoint"
TEXT = """\
For each size and concurrency, each operation, each way: transfers one after the other, by so many
at once, out of and into registered memory. A transfer's latency is from its request to its reply;
CPU is this process's, all threads. The ways: rc is a connection, hipobj a session for each transfer
(hipobj-rc-v2), http plain HTTP. The objects are below s3rdma-bench-… in the bucket, and are removed
at the end, also after Ctrl-C. --plot needs matplotlib: pip install 's3-rdma-gateway[bench]'."""
EXAMPLES = """\
s3rdma bench s3://scratch
s3rdma bench http://gateway:9000/scratch --sizes 4KiB,1MiB --concurrency 1,16,64 --seconds 5
s3rdma bench s3://scratch --ways rc,http --plot bench.png --plot bench.svg --json"""

_FORMATS = (".png", ".svg", ".pdf")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Where:
    """A bucket, and its endpoint where the word named one."""

    bucket: str
    endpoint_url: str = ""

    def __str__(self) -> str:
        return f"{self.endpoint_url}/{self.bucket}" if self.endpoint_url else f"s3://{self.bucket}"


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "bench", SUMMARY, EXAMPLES, TEXT)
    parser.add_argument(
        "where", type=_where, metavar="s3://BUCKET", help="a bucket, or ENDPOINT/BUCKET"
    )
    _add_plan_options(parser)
    options.add_device_option(parser)
    options.add_connection_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--plot",
        type=_picture,
        action="append",
        default=[],
        metavar="FILE",
        help="draw it: .png, .svg or .pdf; may be given again",
    )
    output.add_argument(
        "--json", action="store_true", help="a line of JSON for each measurement, and a summary"
    )


def _add_plan_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is measured")
    group.add_argument(
        "--sizes",
        type=_several(options.size),
        default=[4 * KIB, 64 * KIB, MIB, 64 * MIB],
        metavar="SIZE,…",
        help="of the objects [4KiB,64KiB,1MiB,64MiB]",
    )
    group.add_argument(
        "--concurrency",
        type=_several(options.jobs),
        default=[1, 8],
        metavar="N,…",
        help="transfers at once [1,8]",
    )
    for flag, words, metavar in (
        ("--operations", ("put", "get"), "OP,…"),
        ("--ways", ("rc", "hipobj", "http"), "WAY,…"),
    ):
        group.add_argument(
            flag,
            type=_words(*words),
            default=list(words),
            metavar=metavar,
            help=f"[{','.join(words)}]",
        )
    group.add_argument(
        "--seconds", type=_seconds, default=1.0, metavar="S", help="for each, at least [1]"
    )


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a client.
    from gateway.cli.benchmark import command  # noqa: PLC0415

    return command.bench(args)


def _where(text: str) -> Where:
    if text.startswith("s3://"):
        return Where(options.bucket_url(text).bucket)
    endpoint, _, bucket = text.rstrip("/").rpartition("/")
    if not endpoint.startswith(("http://", "https://")) or not bucket or endpoint.endswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither s3://BUCKET nor ENDPOINT/BUCKET")
    return Where(bucket, endpoint)


def _several(one: Callable[[str], _T]) -> Callable[[str], list[_T]]:
    """An argparse type: words with commas between, none twice."""

    def parse(text: str) -> list[_T]:
        return list(dict.fromkeys(one(word) for word in text.split(",")))

    return parse


def _words(*allowed: str) -> Callable[[str], list[str]]:
    def one(word: str) -> str:
        if word not in allowed:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(allowed)}")
        return word

    return _several(one)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to 3600")
    return seconds


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r} ends with none of {', '.join(_FORMATS)}")
    return path
