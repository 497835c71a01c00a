"""What systemd is told: sd_notify(3), and the watchdog (sd_watchdog_enabled(3)).

Nothing happens where no service manager asked for it (NOTIFY_SOCKET, WATCHDOG_USEC).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Mapping

_log = logging.getLogger(__name__)


class ServiceManager:
    """The service manager's socket. Its messages are small and never wait.

    Args:
        environ: the process's variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the NUL of the abstract namespace (unix(7)).
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        watched = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        period_us = environ.get("WATCHDOG_USEC", "") if watched else ""
        self.beat_interval_s = int(period_us) / 2e6 if period_us.isdecimal() else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """It serves; `status` is the line that `systemctl status` shows."""
        self._notify("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Settings are read again; `ready` tells the end of it (Type=notify-reload)."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._notify("STOPPING=1", "STATUS=finishing what runs")

    def beat(self) -> None:
        """The process is alive."""
        self._notify("WATCHDOG=1")

    def watch(self) -> None:
        """Beat from the running loop from now on, twice in each period; a stuck loop does not."""
        if self.beat_interval_s:
            self.beat()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.beat_interval_s, self.watch)

    def unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _notify(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            _log.warning("the service manager does not hear: %s", error.strerror)
