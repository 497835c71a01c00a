"""``s3rdma fsck``: check the embedded store, byte by byte, and repair it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli import options

if TYPE_CHECKING:
    from gateway.storage.findings import Report

_EVERY = 1000  # objects between two lines of progress
_FAILED = 2

SUMMARY = "check the embedded store, byte by byte, and repair it"
TEXT = """\
Without --repair nothing is changed, and gateways may use the store meanwhile. The exit code is 0
where nothing is wrong, 1 where it was and is repaired, 2 where something is wrong still."""
EXAMPLES = """\
s3rdma fsck --store /var/lib/s3rdma
s3rdma fsck --store /var/lib/s3rdma --repair"""
_EXIT_CODES = """\
exit codes:
  0    nothing is wrong
  1    something was, and is repaired
  2    something is wrong still, or could not be checked"""


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(
        subparsers, "fsck", SUMMARY, EXAMPLES, TEXT, exit_codes=_EXIT_CODES
    )
    parser.add_argument("--store", type=Path, required=True, metavar="DIR", help="the store's root")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="quarantine damaged objects, move lost files to lost+found; stop the gateways before",
    )
    parser.add_argument("--json", action="store_true", help="the findings as one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    # Here, so that other commands start without loading a storage.
    from gateway.errors import InternalError  # noqa: PLC0415
    from gateway.storage.fsck import check  # noqa: PLC0415

    def progress(report: Report) -> None:
        if report.objects % _EVERY == 0 and sys.stderr.isatty():
            print(f"\r{report.objects} objects", end="", file=sys.stderr, flush=True)

    try:
        report = check(args.store, repair=args.repair, progress=progress)
    except InternalError as error:
        print(f"s3rdma: {error.cause}", file=sys.stderr)
        return _FAILED
    if args.json:
        print(json.dumps(_document(report)))
    else:
        print("\n".join(report.lines()))
    return report.exit_code


def _document(report: Report) -> dict[str, object]:
    return {
        "objects": report.objects,
        "read_bytes": report.read_bytes,
        "sums_added": report.sums_added,
        "findings": [
            {
                "kind": finding.kind.name.lower(),
                "state": finding.state.value,
                "subject": finding.subject,
                "detail": finding.detail,
            }
            for finding in report.findings
        ],
    }
