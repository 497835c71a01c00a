"""Bytes on their way upstream: a window, and who empties it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.errors import InternalError
from gateway.storage import rules
from gateway.storage.port import ObjectDraft, PassingStaged
from gateway.storage.upstream.carriers import PartsCarrier, WholeCarrier
from gateway.storage.upstream.window import Window

Carrier = PartsCarrier | WholeCarrier


class UpstreamStaged(PassingStaged):
    """The upstream's `PassingStaged`.

    Args:
        carrier: None where the destination is told with the commit only.
        most_bytes: without a carrier, no more than this may come.
        released: called once, when nothing is held any more.
    """

    def __init__(
        self,
        window: Window,
        carrier: Carrier | None,
        most_bytes: int,
        released: Callable[[], None],
    ) -> None:
        self.window = window
        self.carrier = carrier
        self._most_bytes = most_bytes
        self._released = released
        self._length_bytes = 0
        self._usable = True
        self._held = True

    def fileno(self) -> int:
        self._require_usable()
        return self.window.fd

    def written(self, length_bytes: int) -> None:
        self._length_bytes += length_bytes
        if self.carrier is not None:
            self.carrier.arrived(self._length_bytes)
        elif self._length_bytes > self._most_bytes:
            raise InternalError(
                f"more than {self._most_bytes} bytes were staged without a destination"
            )

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self._require_usable()
        view = memoryview(data).cast("B")
        self.window.put(view, self._length_bytes)
        self.written(len(view))
        await self.room()

    async def room(self) -> None:
        if self.carrier is not None:
            await self.carrier.room()

    async def discard(self) -> None:
        if self._usable:
            self._usable = False
            await self.release()

    async def release(self) -> None:
        """Leave nothing behind, upstream or here; idempotent."""
        if not self._held:
            return
        self._held = False
        try:
            if self.carrier is not None:
                await self.carrier.cancel()
        finally:
            self.window.close()
            self._released()

    def seal(self, draft: ObjectDraft) -> None:
        """End the writing. Raises InternalError where it was ended, or the length differs."""
        self._require_usable()
        self._usable = False
        rules.require_length(self._length_bytes, draft)

    def _require_usable(self) -> None:
        if not self._usable:
            raise InternalError("a staged place was used after its commit or discard")
