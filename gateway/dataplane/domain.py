"""A client's protection domain: ends of connections, and buffers that their peers may reach.

Each gateway has one of its own, so that its connections open no buffer that was registered for
another's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from typing_extensions import Buffer

from gateway.dataplane import binding
from gateway.dataplane.failures import not_pinned
from gateway.dataplane.lane import EngineLane
from gateway.dataplane.port import RemoteBuffer
from gateway.errors import TransportError

log = logging.getLogger("gateway.dataplane")


class EngineRegistration:
    """A region in C over a Python buffer; keeps the contract of ``port.Registration``."""

    __slots__ = ("_borrowed", "_buffer", "_closing", "_ended", "_ending", "_region")

    def __init__(self, region: Any, borrowed: Any, length_bytes: int) -> None:
        self._region = region
        self._borrowed = borrowed
        self._closing: asyncio.Task[None] | None = None
        self._ending = threading.RLock()  # a finalizer may come in the middle of anything
        self._ended = False
        self._buffer = RemoteBuffer(
            binding.address(borrowed), binding.region_rkey(region), length_bytes
        )

    @property
    def buffer(self) -> RemoteBuffer:
        return self._buffer

    @property
    def ended(self) -> bool:
        return self._ended

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        with self._ending:
            if not self._ended:
                self._ended = True
                binding.region_close(self._region)
                binding.release(self._borrowed)


class EngineDomain:
    """A protection domain in C; keeps the contract of ``port.Domain``."""

    def __init__(self, handle: Any, dial: Callable[[Any], EngineLane]) -> None:
        self._handle = handle
        self._dial = dial
        self._links: list[EngineLane] = []
        self._registered: list[EngineRegistration] = []
        self._closing: asyncio.Task[None] | None = None

    @property
    def closed(self) -> bool:
        return self._closing is not None and self._closing.done()

    def dial(self) -> EngineLane:
        self._check_open()
        link = self._dial(self._handle)
        self._links = [*(other for other in self._links if not other.gone), link]
        return link

    async def register(self, buffer: Buffer, *, remote_write: bool) -> EngineRegistration:
        self._check_open()
        access = binding.ACCESS_REMOTE_WRITE if remote_write else binding.ACCESS_REMOTE_READ
        borrowed = binding.borrow(buffer, writable=remote_write)
        length_bytes = memoryview(buffer).nbytes
        pinning = asyncio.ensure_future(
            asyncio.to_thread(binding.region_open, self._handle, borrowed, length_bytes, access)
        )
        try:
            region = await asyncio.shield(pinning)
        except asyncio.CancelledError:
            pinning.add_done_callback(lambda done: _undo(done, borrowed))
            raise
        except OSError as error:
            binding.release(borrowed)
            raise not_pinned(error) from error
        registration = EngineRegistration(region, borrowed, length_bytes)
        self._registered = [*(kept for kept in self._registered if not kept.ended), registration]
        return registration

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))
        for registration in self._registered:
            await registration.close()
        try:
            await asyncio.to_thread(binding.domain_close, self._handle)
        except OSError as error:  # a registration is still being made; the fabric's close ends both
            log.warning("a protection domain stays: %s", error.strerror)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise TransportError("The RDMA session is closed.")


def _undo(pinning: asyncio.Future[Any], borrowed: Any) -> None:
    """The caller left before its registration was there."""
    if pinning.exception() is None:
        binding.region_close(pinning.result())
    binding.release(borrowed)
