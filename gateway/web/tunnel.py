"""Bytes both ways between an open transport and a socket, with backpressure, until either ends."""

from __future__ import annotations

import asyncio
import socket


class _End(asyncio.Protocol):
    """One end: what comes in goes out at the other."""

    def __init__(self) -> None:
        self.out: asyncio.Transport | None = None

    def data_received(self, data: bytes) -> None:
        if self.out is not None:
            self.out.write(data)

    def eof_received(self) -> None:
        self._close()  # closes this one, too: half a connection carries no reply

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()

    def pause_writing(self) -> None:
        if self.out is not None:
            self.out.pause_reading()

    def resume_writing(self) -> None:
        if self.out is not None and not self.out.is_closing():
            self.out.resume_reading()

    def _close(self) -> None:
        if self.out is not None:
            self.out.close()  # after what is still to be written


async def tunnel(transport: asyncio.Transport, sock: socket.socket) -> None:
    """Join an open transport, whose reading is paused, and a connected stream socket.

    Returns at once; the tunnel lives until either side ends. `transport` has another protocol
    afterwards, and `sock` is the tunnel's.
    """
    near, far = _End(), _End()
    made, _ = await asyncio.get_running_loop().create_connection(lambda: far, sock=sock)
    near.out, far.out = made, transport
    transport.set_protocol(near)
    transport.resume_reading()
