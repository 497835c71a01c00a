"""SIGHUP: what may change while the gateway runs is read again; no connection notices."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Callable, Iterator

from gateway.app.errors import StartError
from gateway.app.systemd import ServiceManager
from gateway.config import Config
from gateway.config.load import ConfigError
from gateway.telemetry.catalogue import RELOADS
from gateway.telemetry.measures import Sample

_log = logging.getLogger(__name__)

Apply = Callable[[Config], None]
"""Takes over what it cares for; the rest of the new settings waits for a restart."""


class Reload:
    """Reads the settings again at SIGHUP, and hands them to whoever can change. One event loop.

    Args:
        read: all settings anew, this process's share; raises ConfigError, StartError.
        manager: told of the beginning and the end.
    """

    def __init__(self, read: Callable[[], Config], manager: ServiceManager) -> None:
        self._read = read
        self._manager = manager
        self._applies: list[Apply] = []
        self._count = Counter(done=0, refused=0)

    def on_reload(self, apply: Apply) -> None:
        self._applies.append(apply)

    def listen(self) -> None:
        """From now on SIGHUP does it."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)

    def reload(self) -> None:
        """Do it now. Settings that can't be used change nothing, and are logged."""
        self._manager.reloading()
        try:
            config = self._read()
        except (ConfigError, StartError) as error:
            _log.error("the old settings stay: %s", error)
            self._count["refused"] += 1
        else:
            for apply in self._applies:
                apply(config)
            self._count["done"] += 1
            _log.info("read again: keys, certificates, log.level and [limits]")
        self._manager.ready("serving")

    def metrics(self) -> Iterator[Sample]:
        for outcome, count in self._count.items():
            yield RELOADS.sample(count, outcome)
