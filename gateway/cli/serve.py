"""``s3rdma serve``: run the gateway."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import groupby
from pathlib import Path

from gateway.cli import options
from gateway.config import Config, format_size
from gateway.config.load import ConfigError, Setting, load, settings

_PREFIX = "setting:"  # keeps the settings' dotted paths apart from argparse's own names
_SUMMARY = "run the gateway"
_TEXT = """\
Every setting can also stand in the TOML file ([http.limits] max_object_bytes = …) or in the
environment (S3RDMA_HTTP_LIMITS_MAX_OBJECT_BYTES). Flags win over the environment, and that over the
file. Keys come from S3RDMA_ACCESS_KEY and S3RDMA_SECRET_KEY or from --credentials-file; with
neither a pair is made and kept with the store. Sizes may be written as 64MiB."""
_EXAMPLES = """\
s3rdma serve --store /var/lib/s3rdma --listen 0.0.0.0:9000
s3rdma serve --config /etc/s3rdma/s3rdma.toml --log-level debug"""
_USAGE = "s3rdma serve [--config FILE] [--store DIR] [--listen HOST:PORT] [--SETTING VALUE …]"


def add_parser(subparsers: options.Subparsers) -> None:
    """Add the command; its flags are made from the settings, grouped by section."""
    parser = options.add_command(subparsers, "serve", _SUMMARY, _EXAMPLES, _TEXT, usage=_USAGE)
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
    parser.add_argument(
        "--store", dest=f"{_PREFIX}store", metavar="DIR", help="directory that holds everything"
    )
    parser.add_argument(
        "--listen", dest=f"{_PREFIX}listen", metavar="HOST:PORT", help="address to listen on"
    )
    flags = (setting for setting in settings() if setting.flag)
    for section, members in groupby(flags, key=lambda setting: setting.section):
        group = parser.add_argument_group(section) if section else parser
        for setting in members:
            group.add_argument(
                setting.option,
                dest=_PREFIX + setting.path,
                metavar=setting.path.rpartition(".")[2].upper(),
                help=_help(setting),
            )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; 2 where the configuration can't be used, 1 where starting failed."""
    flags = {
        name.removeprefix(_PREFIX): text
        for name, text in vars(args).items()
        if name.startswith(_PREFIX) and text is not None
    }

    def read() -> Config:
        return load(args.config, os.environ, flags)

    try:
        config = read()
    except ConfigError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 2
    from gateway import app  # noqa: PLC0415  (the whole server: not for --help and wrong flags)

    try:
        app.run(config, read)
    except app.StartError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 1
    return 0


def _help(setting: Setting) -> str:
    """The setting's line: what it is, its choices, its default."""
    default = setting.default
    match default:
        case int() if setting.path.endswith("_bytes"):
            shown = format_size(default)
        case tuple():
            shown = ",".join(str(one) for one in default)
        case _:
            shown = str(getattr(default, "value", default))
    choices = f" ({' | '.join(setting.choices)})" if setting.choices else ""
    return f"{setting.help}{choices} [{shown}]".replace("%", "%%")
