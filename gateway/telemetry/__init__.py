"""What the gateway tells of itself: logs, access log, metrics, traces. Never a secret.

Rooms write what they learn of a request to its `trail()`; `web` makes a `RequestRecord` of it once
the reply is out; log, access log and metrics are made from that.
"""

from __future__ import annotations

from gateway.telemetry.logs import log_request, redact, set_level, set_up
from gateway.telemetry.record import Recorder, RequestRecord, every
from gateway.telemetry.trail import SHOWN_ID_DIGITS, Trail, begin, trail

__all__ = [
    "SHOWN_ID_DIGITS",
    "Recorder",
    "RequestRecord",
    "Trail",
    "begin",
    "every",
    "log_request",
    "redact",
    "set_level",
    "set_up",
    "trail",
]
