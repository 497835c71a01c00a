"""The log."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import setting


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log, on standard error."""

    level: str = setting("info", "least level", choices=("debug", "info", "warning", "error"))
    format: str = setting("text", "of the lines", choices=("text", "json"))
