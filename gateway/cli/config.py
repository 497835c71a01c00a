"""``s3rdma config``: what the gateway's settings are, where each comes from, and what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import sys
from enum import Enum
from operator import attrgetter
from pathlib import Path

from gateway.cli import options
from gateway.config import format_size
from gateway.config.load import ConfigError, Loaded, Setting, load_with_sources, settings

SUMMARY = "check and show the gateway's settings"
TEXT = """\
As `s3rdma serve` would find them here: its TOML file, the environment's variables over it. What
they ask of this host (its fabric, its storage, its keys) is looked at by `s3rdma doctor`."""
EXAMPLES = """\
s3rdma config check --config /etc/s3rdma/s3rdma.toml
s3rdma config show --config /etc/s3rdma/s3rdma.toml --changed
s3rdma config show --json rdma.lanes"""

_REDACTED = "(set; not shown)"
_DEFAULT = "default"


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command, its actions, and their flags."""
    parser = options.add_command(subparsers, "config", SUMMARY, EXAMPLES, TEXT)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="say what is wrong; 0 where nothing is, 2 else")
    show = actions.add_parser("show", help="every setting, its value, and where that comes from")
    for action in (check, show):
        action.add_argument("--config", type=Path, metavar="FILE", help="the gateway's TOML file")
    show.add_argument("names", nargs="*", metavar="SETTING", help="only these, or sections")
    show.add_argument("--changed", action="store_true", help="only those that are not the default")
    show.add_argument("--json", action="store_true", help="a line of JSON for each")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    try:
        loaded = load_with_sources(args.config, os.environ)
    except ConfigError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 2
    if args.action == "check":
        print(f"{args.config or 'the environment'}: {len(loaded.sources)} settings, all good")
        return 0
    chosen = [one for one in settings() if not args.names or _named(one, args.names)]
    if not chosen:
        print(f"s3rdma: there is no setting {' or '.join(args.names)}", file=sys.stderr)
        return 2
    for one in chosen:
        if one.path in loaded.sources or not args.changed:
            print(_row(one, loaded, as_json=args.json))
    return 0


def _named(one: Setting, names: list[str]) -> bool:
    return any(one.path == name or one.path.startswith(f"{name}.") for name in names)


def _row(one: Setting, loaded: Loaded, *, as_json: bool) -> str:
    source = loaded.sources.get(one.path, _DEFAULT)
    value = attrgetter(one.path)(loaded.config)
    shown = _REDACTED if one.secret and value else _text(one, value)
    if as_json:
        return json.dumps({"setting": one.path, "value": shown, "source": source})
    return f"{one.path} = {shown}    # {source}"


def _text(one: Setting, value: object) -> str:
    """As the setting could be written on the command line."""
    match value:
        case bool():
            return str(value).lower()
        case int() if one.path.endswith("_bytes"):
            return format_size(value)
        case tuple():
            return ",".join(str(item) for item in value)
        case Enum():
            return str(value.value)
    return str(value)
