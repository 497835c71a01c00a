"""``s3rdma health``: whether the gateway of this host is ready, for container engines."""

from __future__ import annotations

import argparse
import json
import os
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from gateway.cli import options
from gateway.config import AdminConfig
from gateway.config.load import ConfigError, load

SUMMARY = "ask the gateway of this host whether it is ready"
TEXT = """\
Asks /readyz of the admin listener, which tries storage and fabric. The settings are read as
`s3rdma serve` would: run it with the same file and variables."""
EXAMPLES = """\
s3rdma health
s3rdma health --config /etc/s3rdma/s3rdma.toml"""

_TIMEOUT_MARGIN_S = 1.0  # beyond the gateway's own deadline for its tries
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (an address to listen on)


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command and its flags."""
    parser = options.add_command(subparsers, "health", SUMMARY, EXAMPLES, TEXT)
    parser.add_argument("--config", type=Path, metavar="FILE", help="the gateway's TOML file")


def run(args: argparse.Namespace) -> int:
    """0 where it is ready, 1 where it is not or does not answer, 2 where it can't be asked."""
    try:
        config = load(args.config, os.environ).admin
    except ConfigError as error:
        return _refused(str(error))
    if not config.host or not config.port:
        return _refused("there is no admin port to ask: set admin.host and admin.port")
    if config.tls:
        return _refused("admin.tls is on: ask /readyz with a client's certificate, as with curl")
    try:
        ready, text = _ask(config)
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        ready, text = False, f"no answer from {config.host} port {config.port}: {error!r}"
    print(text)
    return 0 if ready else 1


def _ask(config: AdminConfig) -> tuple[bool, str]:
    """Whether it is ready, and each check with its result."""
    host = _EVERYWHERE.get(config.host, config.host)
    timeout_s = config.check_timeout_s + _TIMEOUT_MARGIN_S
    connection = HTTPConnection(host, config.port, timeout=timeout_s)
    try:
        connection.request("GET", "/readyz")
        reply = connection.getresponse()
        checks = json.loads(reply.read())["checks"]
    finally:
        connection.close()
    return reply.status == 200, ", ".join(f"{name}: {said}" for name, said in checks.items())


def _refused(reason: str) -> int:
    print(f"s3rdma: {reason}", file=sys.stderr)
    return 2
