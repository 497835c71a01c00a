"""Buffers registered for a gateway: each once, however often it is used, while it is there.

Registering pins pages, at 0.1 ms per MiB: as long as the transfer itself on a fast device. So a
registration is shared by everything that uses its buffer, and ends with

- the *hold* that somebody has on the buffer: a transfer, for all its parts, or the caller of
  ``Client.registered``;
- its *owner*, where that is an array or tensor: it may be used again, so it stays registered until
  it dies, or until `max_registrations` or `max_registered_bytes` need its place.

An owner must not be kept alive by its registration, so that one borrows the owner's addresses, not
the owner. That is sound because the memory outlives the registration all the same: a weak
reference's callback runs before numpy and torch free what the object holds, and it deregisters
there and then, in whatever thread that is; no transfer is under way then, for each holds the owner
itself; and numpy refuses to resize an array that has a weak reference. A tensor can be given other
storage while it lives (``resize_``, ``set_``); the old one's pages stay pinned then, and no request
names them any more.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from gateway.client.errors import UnsupportedError
from gateway.client.memory import Borrowed, address_of, memory_at
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Domain, Registration, RemoteBuffer
from gateway.errors import GatewayError
from gateway.rdma.aio import to_the_end


@dataclass(slots=True, eq=False)
class Span:
    """A buffer as a run of addresses; `holders` use it as long as there are any."""

    borrowed: Borrowed
    addr: int
    holders: int = 0

    @classmethod
    def of(cls, borrowed: Borrowed) -> Span:
        return cls(borrowed, address_of(borrowed.view))

    @property
    def length_bytes(self) -> int:
        return len(self.borrowed.view)

    def covers(self, addr: int, length_bytes: int) -> bool:
        return self.addr <= addr and addr + length_bytes <= self.addr + self.length_bytes


class Holds:
    """The buffers that are in use, whichever link their bytes go by."""

    def __init__(self) -> None:
        self._spans: list[Span] = []

    @contextmanager
    def holding(self, borrowed: Borrowed) -> Iterator[Span]:
        """Until this is left, parts of the buffer share one registration of all of it."""
        span = Span.of(borrowed)
        span.holders += 1
        self._spans.append(span)
        try:
            yield span
        finally:
            span.holders -= 1
            self._spans.remove(span)

    def covering(self, view: memoryview) -> tuple[Span, int]:
        """The first hold that `view` lies in, or itself; and where in that it begins, bytes."""
        addr = address_of(view)
        for span in self._spans:
            if span.covers(addr, len(view)):
                return span, addr - span.addr
        return Span(Borrowed(view), addr), 0


@dataclass(slots=True, eq=False)
class _Entry:
    """One registration, perhaps still being made.

    Attributes:
        span: while somebody holds the buffer; not longer, for it keeps the owner alive.
        users: requests that name it now.
        finalizer: what ends it when the owner dies; None where it has none.
    """

    making: asyncio.Task[Registration]
    length_bytes: int
    span: Span | None
    users: int = 0
    ended: bool = False
    finalizer: weakref.finalize[..., object] | None = None

    @property
    def held(self) -> bool:
        return self.span is not None and self.span.holders > 0

    def owner_died(self, registration: Registration) -> None:
        """In any thread, before the owner's memory is freed."""
        self.ended = True
        registration.end()

    async def close(self) -> None:
        if self.finalizer is not None:
            self.finalizer.detach()
        (made,) = await asyncio.gather(self.making, return_exceptions=True)
        if not isinstance(made, BaseException):
            await made.close()


class Registrations:
    """All of one domain, in the order of their use. One event loop."""

    def __init__(self, domain: Domain, limits: ClientLimits) -> None:
        self._domain = domain
        self._limits = limits
        self._entries: OrderedDict[tuple[int, int, bool], _Entry] = OrderedDict()

    @asynccontextmanager
    async def lent(self, span: Span, *, remote_write: bool) -> AsyncIterator[RemoteBuffer]:
        """The span, registered.

        Raises:
            UnsupportedError: the device did not take the memory; the text names the remedy.
        """
        entry = self._entry(span, remote_write=remote_write)
        entry.users += 1
        try:
            yield (await self._made(entry, span.borrowed.owner)).buffer
        finally:
            entry.users -= 1
            await self.settle()

    async def settle(self) -> None:
        """Close what nobody wants, and the longest unused of what there is too much of.

        To the end, also where it is cancelled.
        """
        if unwanted := self._unwanted():
            await to_the_end(_closed(unwanted))

    def _unwanted(self) -> list[_Entry]:
        """Taken out of the table at once: another task may look there while they are closed."""
        limits = self._limits
        total_bytes = sum(entry.length_bytes for entry in self._entries.values())
        unwanted = []
        for key, entry in list(self._entries.items()):
            if entry.users or entry.held:
                continue
            entry.span = None
            fits = (
                len(self._entries) <= limits.max_registrations
                and total_bytes <= limits.max_registered_bytes
            )
            if entry.finalizer is None or entry.ended or not fits:
                unwanted.append(self._entries.pop(key))
                total_bytes -= entry.length_bytes
        return unwanted

    def _entry(self, span: Span, *, remote_write: bool) -> _Entry:
        key = span.addr, span.length_bytes, remote_write
        entry = self._entries.get(key)
        if entry is None or entry.ended:
            making = asyncio.ensure_future(self._make(span, remote_write=remote_write))
            self._entries[key] = entry = _Entry(making, span.length_bytes, span)
        elif not entry.held:
            entry.span = span
        self._entries.move_to_end(key)
        return entry

    async def _make(self, span: Span, *, remote_write: bool) -> Registration:
        borrowed = span.borrowed
        memory = borrowed.view
        if borrowed.owner is not None:
            memory = memory_at(span.addr, span.length_bytes)  # which keeps no owner alive
        return await self._domain.register(memory, remote_write=remote_write)

    async def _made(self, entry: _Entry, owner: object | None) -> Registration:
        try:
            made = entry.making.done()
            registration = entry.making.result() if made else await asyncio.shield(entry.making)
        except GatewayError as error:
            entry.ended = True
            raise UnsupportedError(
                f"this host's RDMA device did not take the memory: {error.message}"
            ) from error
        if owner is not None and entry.finalizer is None:
            entry.finalizer = weakref.finalize(owner, entry.owner_died, registration)
            entry.finalizer.atexit = False
        return registration


async def _closed(entries: list[_Entry]) -> None:
    for entry in entries:
        await entry.close()
