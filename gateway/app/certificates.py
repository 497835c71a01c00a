"""The listeners' TLS: loaded at start, and again when its files change or SIGHUP comes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator

from gateway.app.errors import StartError
from gateway.config import TlsConfig
from gateway.telemetry.catalogue import CERTIFICATE_EXPIRY
from gateway.telemetry.measures import Sample
from gateway.web.listener import Listener
from gateway.web.tls import Certificates, TlsError

_log = logging.getLogger(__name__)


class Tls:
    """The context that new connections get. One event loop.

    Args:
        config: the files; without a certificate there is no TLS.

    Raises:
        StartError: they can't be used.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._interval_s = config.look_interval_s
        self._certificates = Certificates(config) if config.certificate else None
        self._listeners: list[Listener] = []
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: set[asyncio.Task[None]] = set()
        try:
            self.context = self._certificates.load() if self._certificates else None
        except TlsError as error:
            raise StartError(str(error)) from error

    def keep(self, *listeners: Listener) -> None:
        """Give them new contexts from now on; look at the files from time to time."""
        self._listeners.extend(listeners)
        self._look_later()

    def look_again(self) -> None:
        """Read the files now (SIGHUP). What can't be used changes nothing, and is logged."""
        if self._certificates is None:
            return
        try:
            context = self._certificates.load()
        except TlsError as error:
            _log.error("the old certificate stays: %s", error)
            return
        task = asyncio.ensure_future(self._renew(context))
        self._renewing.add(task)
        task.add_done_callback(self._renewing.discard)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def metrics(self) -> Iterator[Sample]:
        if self._certificates is not None:
            yield CERTIFICATE_EXPIRY.sample(self._certificates.expires_s)

    def _look_later(self) -> None:
        if self._certificates is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval_s, self._look)

    def _look(self) -> None:
        if self._certificates is not None and self._certificates.changed():
            self.look_again()
        self._look_later()

    async def _renew(self, context: ssl.SSLContext) -> None:
        for listener in self._listeners:
            await listener.secure(context)
        _log.info("new connections get the certificate as it is now")
