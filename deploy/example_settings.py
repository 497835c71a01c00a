"""Print s3rdma.toml: every setting with its meaning, at its default.

`python deploy/example_settings.py > deploy/s3rdma.toml`; a test holds the two together.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from pathlib import Path

from gateway.config import format_size
from gateway.config.load import Setting, settings

HEAD = """\
# Every setting of `s3rdma serve`, at its default: keep the lines you change.
# Given by `--config FILE`; variables (S3RDMA_HTTP_PORT=…) and flags (--http-port …) win over it.
# Keys belong in the environment, S3RDMA_ACCESS_KEY and S3RDMA_SECRET_KEY, or in a file of their
# own, S3RDMA_CREDENTIALS_FILE. With none, a pair is made and kept with the store.
"""


def literal(setting: Setting) -> str:
    """The default as a TOML value."""
    match setting.default:
        case bool() as flag:
            return str(flag).lower()
        case int() as length if setting.path.endswith("_bytes"):
            return f'"{format_size(length)}"'
        case int() | float() as number:
            return str(number)
        case tuple() as items:
            return json.dumps([str(item) for item in items])
        case Enum() as choice:
            return json.dumps(choice.value)
        case str() | Path() as text:
            return json.dumps(str(text))
        case other:
            raise TypeError(f"{setting.path}: no TOML form for {other!r}")


def choices(setting: Setting) -> str:
    """The words a setting may be, in brackets; "" where it is free."""
    words = setting.choices
    if isinstance(setting.default, Enum):
        words = tuple(member.value for member in type(setting.default))
    return f" ({', '.join(words)})" if words else ""


def lines() -> Iterator[str]:
    """The file, line by line."""
    yield HEAD
    for section, group in groupby(
        (one for one in settings() if one.section), key=lambda one: one.section
    ):
        yield f"[{section}]"
        for setting in group:
            yield f"# {setting.help}{choices(setting)}"
            yield f"{setting.path.rpartition('.')[2]} = {literal(setting)}"
        yield ""


def example() -> str:
    """The whole file."""
    return "\n".join(lines()).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(example())
