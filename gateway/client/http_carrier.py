"""Object bytes by plain HTTP: the path that works with every S3 server."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.client import checksum as crc
from gateway.client import replies
from gateway.client.carrier import Fetched, Stored
from gateway.client.connection import Call, Connection
from gateway.client.errors import TransferError
from gateway.client.retry import while_busy
from gateway.config.client import ClientLimits
from gateway.wire.extent import Extent


class HttpCarrier:
    """Keeps the port ``carrier.Carrier``."""

    def __init__(self, connection: Connection, limits: ClientLimits) -> None:
        self._connection = connection
        self._limits = limits

    async def get(
        self, address: str, extent: Extent, into: memoryview, headers: Mapping[str, str]
    ) -> Fetched:
        last = extent.end_bytes - 1
        call = Call("GET", address, {**headers, "Range": f"bytes={extent.offset_bytes}-{last}"})
        return await while_busy(lambda: self._receive(call, into), self._limits)

    async def _receive(self, call: Call, into: memoryview) -> Fetched:
        """Copy the body into `into`; it must fit exactly."""
        position = 0
        async with self._connection.stream(call) as response:
            async for chunk in response.content.iter_any():
                end = position + len(chunk)
                if end > len(into):
                    raise TransferError(
                        f"the server sent more than the {len(into)} bytes asked for"
                    )
                into[position:end] = chunk
                position = end
            etag = replies.etag(response.headers)
        if position != len(into):
            raise TransferError(f"the server sent {position} of {len(into)} bytes")
        return Fetched(etag)

    async def put(
        self, address: str, data: memoryview, checksum: int | None, headers: Mapping[str, str]
    ) -> Stored:
        call = Call("PUT", address, {**headers, **crc.declared(checksum)}, data)
        reply = await while_busy(lambda: self._connection.fetch(call), self._limits)
        return Stored(replies.etag(reply.headers), reply.headers.get("x-amz-version-id"))
