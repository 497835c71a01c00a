"""The log."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import setting


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log, on standard error, and the access log."""

    level: str = setting("info", "least level", choices=("debug", "info", "warning", "error"))
    format: str = setting("text", "of the lines", choices=("text", "json"))
    access: str = setting("", "access log in S3's own format: a file, or syslog; empty for none")
