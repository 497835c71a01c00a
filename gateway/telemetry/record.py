"""A request that is over, whole: what the log, the access log and the metrics are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.telemetry.trail import Trail


@dataclass(slots=True)  # nobody changes one; freezing costs each request three times its making
class RequestRecord:
    """What is known of one request once its reply is out.

    Attributes:
        trail: what the rooms found out.
        target: path and query as sent: redact before anybody reads it.
        status: 0 where no reply left.
        received_bytes / sent_bytes: of the bodies, over HTTP.
        began_s: POSIX seconds.
        seconds: from the head's last byte to the reply's last.
        first_byte_s: to the reply's first byte; 0.0 where none left.
        host / referer / user_agent: header values as sent; "" where absent.
        tls_version / cipher: as OpenSSL names them; "" without TLS.
    """

    trail: Trail
    method: str
    target: str
    status: int
    received_bytes: int
    sent_bytes: int
    seconds: float
    peer: str
    began_s: float = 0.0
    first_byte_s: float = 0.0
    http_version: str = "HTTP/1.1"
    host: str = ""
    referer: str = ""
    user_agent: str = ""
    tls_version: str = ""
    cipher: str = ""


Recorder = Callable[[RequestRecord], None]


def every(recorders: Sequence[Recorder]) -> Recorder:
    """One recorder that tells them all."""

    def tell(record: RequestRecord) -> None:
        for recorder in recorders:
            recorder(record)

    return tell
