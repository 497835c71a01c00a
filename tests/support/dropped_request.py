"""A signed request whose HTTP connection can be cut at any moment, as when its client dies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

from raw_hipobj import signed
from rc_client import UNSIGNED_PAYLOAD, Desk


@dataclass(frozen=True)
class DroppedRequest:
    """One that was sent."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    @classmethod
    async def begin(cls, desk: Desk, method: str, path: str, token: str) -> DroppedRequest:
        headers = UNSIGNED_PAYLOAD | {"x-amz-rdma-token": token, "content-length": "0"}
        every = signed(method, desk.endpoint + path, headers, desk.key)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in every.items())]
        where = urlsplit(desk.endpoint)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        return cls(reader, writer)

    async def answered(self, within_s: float) -> bool:
        """Whether an answer began to come by then."""
        try:
            async with asyncio.timeout(within_s):
                return bool(await self._reader.readline())
        except (TimeoutError, ConnectionError):
            return False

    def drop(self) -> None:
        """Cut the connection: RST, as for a process that was killed with data unread."""
        self._writer.transport.abort()
