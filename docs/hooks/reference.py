"""The tables of the pages below reference/, made from the code when the documentation is built.

A page has ``<!-- from the code: settings -->`` where the table goes. So none names a setting, an
error, a header, a metric or a command that is not there, and none is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from header_texts import HEADERS

from gateway import cli
from gateway.config import format_size
from gateway.config.load import Setting, settings
from gateway.errors import S3Code
from gateway.telemetry.catalogue import FAMILIES

sys.path.insert(0, str(Path(__file__).parents[2] / "deploy"))
from example_settings import choices, literal

PLACE = re.compile(r"^<!-- from the code: (\w+) -->$", re.MULTILINE)
HELP_COLUMNS = "90"


def on_page_markdown(markdown: str, **_event: Any) -> str:
    """Put the tables in their places (an event of mkdocs)."""
    return PLACE.sub(lambda place: TABLES[place[1]](), markdown)


def settings_tables() -> str:
    """Every setting, a table for each section of the file."""
    parts = []
    for section, group in groupby(settings(), key=lambda one: one.section):
        parts.append(f"## {section or 'Above the first section'}")
        rows = ((f"`{one.path}`", _default(one), _meaning(one)) for one in group)
        parts.append(_table(("setting", "default", "meaning"), rows))
    return "\n\n".join(parts)


def errors_table() -> str:
    """Every error that a request can end in, by code, those of the same code by status."""
    codes = sorted(S3Code, key=lambda one: (one.code, one.status))
    rows = ((f"`{one.code}`", str(one.status), one.message) for one in codes)
    return _table(("code", "status", "message"), rows)


def headers_table() -> str:
    """Every x-amz-rdma-* header."""
    rows = ((f"`{name}`", *HEADERS[name]) for name in sorted(HEADERS))
    return _table(("header", "in", "meaning"), rows)


def metrics_table() -> str:
    """Every metric of the gateway's own."""
    rows = (
        (f"`{one.name}`", one.kind.value, ", ".join(f"`{name}`" for name in one.labels), one.help)
        for one in FAMILIES
    )
    return _table(("metric", "kind", "labels", "meaning"), rows)


def commands_help() -> str:
    """Each command's own help; of `serve`, whose flags are the settings, what stands around it."""
    parts = []
    for parser in _commands(cli.make_parser()):
        serve = parser.prog == "s3rdma serve"
        text = parser.format_usage() if serve else _help(parser)
        parts.append(f"## {parser.prog}\n\n```text\n{text}```")
        if serve:
            parts.append(f"{parser.epilog} Each [setting](settings.md) is a flag.")
    return "\n\n".join(parts)


TABLES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "settings": settings_tables,
        "errors": errors_table,
        "headers": headers_table,
        "metrics": metrics_table,
        "commands": commands_help,
    }
)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of its commands, each before those of its own."""
    for action in parser._actions:  # where argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from _commands(command)


def _help(parser: argparse.ArgumentParser) -> str:
    """Its help, on a terminal of a certain width."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_COLUMNS
    try:
        return parser.format_help()
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _default(setting: Setting) -> str:
    text = literal(setting)
    return "" if text in {'""', "[]"} else f"`{text}`"


def _meaning(setting: Setting) -> str:
    """Its help, what it may be, and where it must not stand."""
    notes = [setting.help + choices(setting)]
    if isinstance(setting.default, int | float) and not isinstance(setting.default, bool):
        notes.append(_range(setting))
    if not setting.flag:
        notes.append("no flag")
    return "; ".join(notes)


def _range(setting: Setting) -> str:
    def text(bound: float) -> str:
        return format_size(int(bound)) if setting.path.endswith("_bytes") else f"{bound:g}"

    least = text(setting.low)
    return f"at least {least}" if setting.high == inf else f"{least} to {text(setting.high)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(_lines(head, rows))


def _lines(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
