"""``s3rdma doctor``: can this host, and that gateway, do RDMA, and what is missing."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli import options
from gateway.config.load import ConfigError, load

if TYPE_CHECKING:
    from gateway.cli.diagnosis import Finding
    from gateway.client import Client


_NOT_BUILT = (
    "the C core was not built: run `pip install .` on a host with a C compiler and the libibverbs "
    "headers (Debian: libibverbs-dev)"
)


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = subparsers.add_parser("doctor", help="say whether RDMA works here, and what to do")
    options.add_connection_options(parser, endpoint_url=None)
    parser.add_argument("--config", type=Path, metavar="FILE", help="the gateway's TOML file")
    parser.add_argument("--json", action="store_true", help="the findings as one JSON document")


def run(args: argparse.Namespace) -> int:
    """Look as `serve` would with the same settings; 0 where RDMA can work, 1 where it can't."""
    # Here, so that other commands start without loading a client or the verbs library.
    try:
        from gateway.cli.diagnosis import choose, diagnose, verdict  # noqa: PLC0415
        from gateway.cli.host import read_host  # noqa: PLC0415
    except ImportError as error:
        print(f"s3rdma: {_NOT_BUILT} ({error})", file=sys.stderr)
        return 1
    try:
        config = load(args.config, os.environ).rdma
    except ConfigError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 2
    facts = read_host(config)
    choice = choose(facts, config)
    findings = diagnose(facts, config)
    if args.endpoint_url:
        findings += (_server(args),)
    can, summary = verdict(config, choice, findings)
    if args.json:
        rows = [asdict(finding) | {"level": finding.level.value} for finding in findings]
        print(json.dumps({"rdma": can, "verdict": summary} | asdict(choice) | {"findings": rows}))
    else:
        for finding in findings:
            print(_text(finding))
        print(summary)
    return 0 if can else 1


def _text(finding: Finding) -> str:
    """``[ok] subject: detail``, and the remedy below it."""
    mark = f"[{finding.level.value}]".ljust(10)
    detail = finding.detail.removeprefix(f"{finding.subject}: ")
    remedy = f"\n{'':10}-> {finding.remedy}" if finding.remedy else ""
    return f"{mark}{finding.subject}: {detail}{remedy}"


def _server(args: argparse.Namespace) -> Finding:
    """What the gateway at ``--endpoint-url`` offers to these credentials."""
    from gateway.cli import remote  # noqa: PLC0415
    from gateway.cli.diagnosis import Finding, Level  # noqa: PLC0415

    async def work(client: Client) -> None:
        await client.check_server()

    problem = remote.attempt(args, work)
    subject = f"gateway {args.endpoint_url}"
    if problem is None:
        return Finding(Level.GOOD, subject, "it takes RDMA sessions from these credentials")
    return Finding(
        Level.BAD,
        subject,
        f"{subject}: {problem}",
        "on the gateway's host run `s3rdma doctor`, and see its log for why RDMA is off",
    )
