"""One line in the log for each transfer, whichever protocol it came by."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from urllib.parse import quote

from gateway.errors import GatewayError

log = logging.getLogger("gateway.rdma")

_SHOWN_ID_DIGITS = 8  # of a session or connection: enough to find it, too few to use it


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
        log.info(
            "rdma %s %s %d bytes %.3f s %.3f GB/s carrier=%s session=%s",
            self.verb,
            self.name,
            self.size_bytes,
            took_s,
            self.size_bytes / max(took_s, 1e-6) / 1e9,
            carrier,
            self.session[:_SHOWN_ID_DIGITS],
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
        log.warning(
            "rdma %s %s %d bytes failed after %.3f s: %s session=%s",
            self.verb,
            self.name,
            self.size_bytes,
            took_s,
            reason,
            self.session[:_SHOWN_ID_DIGITS],
        )
