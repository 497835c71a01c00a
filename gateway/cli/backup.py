"""``s3rdma backup``: a copy of the embedded store, taken while gateways use it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli import options

if TYPE_CHECKING:
    from gateway.storage.backup import Saved

SUMMARY = "copy the embedded store while gateways use it"
TEXT = """\
To restore it, serve the copy: s3rdma serve --store TARGET. On the store's own file system files are
linked, not copied: that guards against loss, not against the disk."""
EXAMPLES = "s3rdma backup --store /var/lib/s3rdma /backup/s3rdma-monday"

_EVERY = 1000  # files between two lines of progress


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "backup", SUMMARY, EXAMPLES, TEXT)
    parser.add_argument("--store", type=Path, required=True, metavar="DIR", help="the store's root")
    parser.add_argument("target", type=Path, metavar="TARGET", help="a directory that is not there")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 where all of it was taken, 1 where something was not."""
    # Here, so that other commands start without loading a storage.
    from gateway.errors import InternalError  # noqa: PLC0415
    from gateway.storage.backup import backup  # noqa: PLC0415

    def progress(saved: Saved) -> None:
        if saved.files % _EVERY == 0 and sys.stderr.isatty():
            print(f"\r{saved.files} files", end="", file=sys.stderr, flush=True)

    try:
        saved = backup(args.store, args.target, progress=progress)
    except InternalError as error:
        print(f"s3rdma: {error.cause}", file=sys.stderr)
        return 1
    print(f"{args.target}: {saved.linked} files linked, {saved.copied} copied")
    if saved.missing:
        print(
            f"s3rdma: {saved.missing} files are gone that objects need: see `s3rdma fsck`",
            file=sys.stderr,
        )
        return 1
    return 0
