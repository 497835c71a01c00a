"""How a setting is declared: a dataclass field with its help, range and choices, written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import inf
from typing import TypeVar

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
_T = TypeVar("_T")


def setting(
    default: _T,
    text: str,
    *,
    low: float = 1,
    high: float = inf,
    choices: Sequence[str] = (),
    flag: bool = True,
    shown: bool = True,
) -> _T:
    """A field that is a setting.

    Args:
        default: the value where no source names another.
        text: one line of help.
        low: least value of a number; ignored for other types.
        high: greatest value of a number.
        choices: the words a text may be; () for any.
        flag: whether the command line may carry it (a secret must not: others read `ps`).
        shown: whether `repr` shows the value.
    """
    metadata = {"help": text, "low": low, "high": high, "choices": choices, "flag": flag}
    return field(default=default, metadata=metadata, repr=shown)


def format_size(length_bytes: int) -> str:
    """The shortest exact text: ``64MiB``, ``4097``."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if length_bytes and length_bytes % unit == 0:
            return f"{length_bytes // unit}{name}"
    return str(length_bytes)
