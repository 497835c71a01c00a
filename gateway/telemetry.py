"""Logs: one line per request, as text or JSON; never a secret, a signature or an rkey.

The request id travels in a context variable, so that whatever a room logs can be found by it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TextIO

request_id: ContextVar[str] = ContextVar("request_id", default="")

_requests = logging.getLogger("gateway.request")

# Presigned URLs carry these; whoever reads the log could use the URL until it expires.
_SECRET_PARAMETER = re.compile(
    r"((?:^|[?&])(?:X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|Signature)=)[^&]*",
    re.IGNORECASE,
)
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What the log says of one request.

    Attributes:
        target: path and query as sent; redacted here.
        received_bytes / sent_bytes: of the bodies, over HTTP.
        carrier: "http", or "rdma" where the request steers an RDMA transfer.
    """

    method: str
    target: str
    status: int
    received_bytes: int
    sent_bytes: int
    seconds: float
    carrier: str
    peer: str


_RECORD_FIELDS = tuple(field.name for field in fields(RequestRecord))


def log_request(record: RequestRecord) -> None:
    """One line at level info."""
    if not _requests.isEnabledFor(logging.INFO):
        return
    values = {name: getattr(record, name) for name in _RECORD_FIELDS}  # asdict takes 10 times it
    values |= {"target": redact(record.target), "seconds": round(record.seconds, 6)}
    _requests.info(
        "%(method)s %(target)s %(status)d in=%(received_bytes)d out=%(sent_bytes)d "
        "%(seconds).6fs %(carrier)s %(peer)s",
        values,
        extra={"fields": values},
    )


def redact(target: str) -> str:
    """A request target that may be logged: no signature, credential or token; one line."""
    shown = _SECRET_PARAMETER.sub(r"\1-", target)
    return _UNPRINTABLE.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", shown)


def set_up(level: str, form: str, stream: TextIO | None = None) -> None:
    """Point the root logger at a stream.

    Args:
        level: debug | info | warning | error.
        form: text | json.
        stream: where the lines go; standard error by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_moment(record)} {record.levelname:<7} {record.name.removeprefix('gateway.')}"
        if (current := request_id.get()) != "":
            text += f" [{current}]"
        text += f" {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": request_id.get(),
        }
        fields = getattr(record, "fields", None)
        line |= fields if fields is not None else {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
