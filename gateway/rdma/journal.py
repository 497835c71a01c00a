"""One line in the log for each transfer, whichever protocol it came by."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from urllib.parse import quote

from gateway.errors import GatewayError
from gateway.telemetry import SHOWN_ID_DIGITS

log = logging.getLogger("gateway.rdma")


@dataclass(frozen=True, slots=True)
class Entry:
    """A transfer, as the log names it.

    Attributes:
        verb: GET or PUT.
        session: its session or connection, of which the first digits are shown.
    """

    verb: str
    bucket: str
    key: str
    size_bytes: int
    session: str

    @property
    def name(self) -> str:
        """bucket/key: printable ASCII without spaces."""
        return quote(f"{self.bucket}/{self.key}")

    def done(self, took_s: float, carrier: str) -> None:
        """It went well; `carrier` moved the bytes."""
        values = self._values(took_s) | {
            "outcome": "done",
            "gigabytes_per_s": round(self.size_bytes / max(took_s, 1e-6) / 1e9, 3),
            "carrier": carrier,
        }
        log.info(
            "rdma %(verb)s %(object)s %(size_bytes)d bytes %(seconds).3f s "
            "%(gigabytes_per_s).3f GB/s carrier=%(carrier)s session=%(session)s",
            values,
            extra={"fields": values},
        )

    def failed(self, took_s: float, error: BaseException) -> None:
        """It did not, for the reason that `error` gives."""
        match error:
            case GatewayError():
                reason = error.message
            case asyncio.CancelledError():
                reason = "cancelled"
            case _:
                reason = type(error).__name__
        values = self._values(took_s) | {"outcome": "failed", "reason": reason}
        log.warning(
            "rdma %(verb)s %(object)s %(size_bytes)d bytes failed after %(seconds).3f s: "
            "%(reason)s session=%(session)s",
            values,
            extra={"fields": values},
        )

    def _values(self, took_s: float) -> dict[str, object]:
        """The fields of its line, for machines."""
        return {
            "verb": self.verb,
            "object": self.name,
            "size_bytes": self.size_bytes,
            "seconds": round(took_s, 6),
            "session": self.session[:SHOWN_ID_DIGITS],
        }
