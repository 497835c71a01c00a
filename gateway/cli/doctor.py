"""``s3rdma doctor``: can this host, and that gateway, do RDMA, and what is missing."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli import options
from gateway.config.load import ConfigError, Loaded, load_with_sources

if TYPE_CHECKING:
    from gateway.cli.diagnosis import Finding

SUMMARY = "say whether RDMA works here, and what to do about what is missing"
TEXT = """\
Looks at this host: kernel, device, port, GIDs, memory lock, fabric, as `s3rdma serve` would with
the same settings; with --config also at its storage and keys. With --endpoint-url (or its variable)
at that gateway, too: does it answer, to these credentials, how far is its clock, which ways of RDMA
it offers, and a transfer there and back by each. That needs a bucket, and makes one where none is
named, and removes it."""
EXAMPLES = """\
s3rdma doctor
s3rdma doctor --config /etc/s3rdma/s3rdma.toml
s3rdma doctor --endpoint-url http://gateway:9000 --bucket scratch"""

_NOT_BUILT = (
    "the C core was not built: run `pip install .` on a host with a C compiler and the libibverbs "
    "headers (Debian: libibverbs-dev)"
)
_STORAGE_SECTIONS = ("storage.", "store.", "tree.", "upstream.", "credentials_file")


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "doctor", SUMMARY, EXAMPLES, TEXT)
    parser.add_argument("--config", type=Path, metavar="FILE", help="the gateway's TOML file")
    parser.add_argument("--bucket", default="", metavar="NAME", help="for the transfers")
    options.add_device_option(parser)
    options.add_connection_options(parser, endpoint_url=None)
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
        loaded = load_with_sources(args.config, os.environ)
    except ConfigError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 2
    config = loaded.config.rdma
    facts = read_host(config)
    choice = choose(facts, config)
    findings = diagnose(facts, config) + _storage(args, loaded)
    if args.endpoint_url:
        findings += _gateway(args)
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


def _storage(args: argparse.Namespace, loaded: Loaded) -> tuple[Finding, ...]:
    """Looked at where somebody set it: a client's host has none."""
    from gateway.cli import storage_findings  # noqa: PLC0415

    is_set = any(path.startswith(_STORAGE_SECTIONS) for path in loaded.sources)
    return tuple(storage_findings.look(loaded.config)) if args.config or is_set else ()


def _gateway(args: argparse.Namespace) -> tuple[Finding, ...]:
    """What the gateway at ``--endpoint-url`` offers to these credentials."""
    from gateway.cli import gateway_findings  # noqa: PLC0415
    from gateway.cli.diagnosis import Finding, Level  # noqa: PLC0415

    async def look() -> tuple[Finding, ...]:
        return tuple([finding async for finding in gateway_findings.look(args)])

    try:
        return asyncio.run(look())
    except ValueError as error:  # the endpoint is malformed
        return (Finding(Level.BROKEN, "endpoint", str(error), "see --endpoint-url"),)
