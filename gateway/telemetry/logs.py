"""The log: lines as text or JSON; never a secret, a signature or an rkey.

Every line that a request causes carries its id, and that of its RDMA session or connection.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import TextIO

from gateway.telemetry.record import RequestRecord
from gateway.telemetry.trail import trail

_requests = logging.getLogger("gateway.request")

# Presigned URLs carry these; whoever reads the log could use the URL until it expires.
_SECRET_PARAMETER = re.compile(
    r"((?:^|[?&])(?:X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|Signature)=)[^&]*",
    re.IGNORECASE,
)
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


def log_request(record: RequestRecord) -> None:
    """One line at level info."""
    if not _requests.isEnabledFor(logging.INFO):
        return
    known = record.trail
    values = {
        "method": record.method,
        "target": redact(record.target),
        "status": record.status,
        "received_bytes": record.received_bytes,
        "sent_bytes": record.sent_bytes,
        "moved_bytes": known.moved_bytes,
        "seconds": round(record.seconds, 6),
        "operation": known.operation,
        "error": known.error,
        "carrier": known.path,
        "peer": record.peer,
    }
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
    logging.getLogger().handlers[:] = [handler]
    # No line shows any of this, and each costs all of them (Logging HOWTO, "Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    set_level(level)


def set_level(level: str) -> None:
    """Say more or less from now on.

    Others' libraries are never asked for more than level info: at debug botocore tells signatures.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger("gateway").setLevel(number)
    logging.getLogger().setLevel(max(number, logging.INFO))


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_moment(record)} {record.levelname:<7} {record.name.removeprefix('gateway.')}"
        current = trail()
        if current.request_id:
            whose = "/".join(filter(None, (current.request_id, current.session)))
            text += f" [{whose}]"
        text += f" {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        current = trail()
        line: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": current.request_id,
            "session": current.session,
        }
        fields = getattr(record, "fields", None)
        line |= fields if fields is not None else {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def _moment(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03}Z"


@lru_cache(maxsize=2)
def _second(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
