"""What all objects under way may hold of memory together."""

from __future__ import annotations

from gateway.errors import BusyError


class Budget:
    """Bytes that are lent and given back. One event loop.

    Args:
        total_bytes: `upstream.buffer_bytes`.
    """

    def __init__(self, total_bytes: int) -> None:
        self._left_bytes = total_bytes

    @property
    def left_bytes(self) -> int:
        return self._left_bytes

    def take(self, length_bytes: int) -> None:
        """Raises BusyError where so much is not left."""
        if length_bytes > self._left_bytes:
            raise BusyError("The gateway's buffers are all in use (upstream.buffer_bytes).")
        self._left_bytes -= length_bytes

    def give(self, length_bytes: int) -> None:
        """What was taken, back."""
        self._left_bytes += length_bytes
