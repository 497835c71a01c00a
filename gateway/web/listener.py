"""A listening socket, with or without TLS; what TLS is made of may change while it listens."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

_BACKLOG = 1024  # connections that the kernel completes before they are accepted


class Listener:
    """Listens for one protocol. Made and used inside the event loop.

    Args:
        protocol: makes what serves one connection.
        tls: None for plain TCP.
        handshake_timeout_s: of TLS; None without.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float | None = None,
    ) -> None:
        self._protocol = protocol
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s if tls is not None else None
        self._servers: list[asyncio.Server] = []

    @property
    def open(self) -> bool:
        return bool(self._servers)

    async def start(self, host: str, port: int, *, shared: bool = False) -> int:
        """Listen; returns the port. Raises OSError where the address is taken or not ours.

        Args:
            host: address or name.
            port: 0 takes a free one.
            shared: other processes may listen there, too (SO_REUSEPORT).
        """
        server = await self._listen(host=host, port=port, reuse_port=shared)
        self._servers.append(server)
        return cast(int, server.sockets[0].getsockname()[1])

    async def secure(self, tls: ssl.SSLContext) -> None:
        """Give new connections this context; those that are open keep theirs.

        The sockets stay the same ones, and with them whoever waits there to be accepted.
        """
        self._tls, old = tls, self._servers
        numbers = [sock.fileno() for server in old for sock in server.sockets]
        same = [socket.socket(fileno=os.dup(number)) for number in numbers]
        self._servers = [await self._listen(sock=sock) for sock in same]
        for server in old:
            server.close()

    def close(self) -> None:
        """Accept nothing more; what is open goes on."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def _listen(self, **where: Any) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._protocol,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=self._handshake_timeout_s,
            **where,
        )
