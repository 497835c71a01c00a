"""PUT of bytes whose number nobody knows before they end: part after part, as they come."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gateway.client import checksum as crc
from gateway.client.address import address
from gateway.client.begun import Ask
from gateway.client.carrier import PreferredCarrier, Stored
from gateway.client.download import Progress
from gateway.client.errors import TooLargeError
from gateway.client.multipart import Multipart
from gateway.client.parallel import workers
from gateway.config.client import ClientLimits

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

Read = Callable[[memoryview], Awaitable[int]]
"""Fills the beginning of a buffer; how many bytes it had, 0 at the end of them."""


class StreamMemory:
    """Room for as many parts as are under way at once."""

    def __init__(self, limits: ClientLimits) -> None:
        anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        length_bytes = limits.part_bytes * limits.concurrency
        self.memory = memoryview(mmap.mmap(-1, length_bytes, flags=anonymous))
        self.pieces = [
            self.memory[start : start + limits.part_bytes]
            for start in range(0, length_bytes, limits.part_bytes)
        ]


@dataclass(slots=True)
class StreamedUpload:
    """What is to be stored, while it comes.

    Args:
        headers: the object's own: Content-Type, ``x-amz-meta-*``.
        read: asked for the next bytes, never twice at once.
        progress: told of each part when it is stored; the whole is as long as is known.

    Attributes:
        size_bytes: how much has come.
    """

    bucket: str
    key: str
    headers: Mapping[str, str]
    read: Read
    memory: StreamMemory
    progress: Progress
    size_bytes: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _number: int = 0
    _ended: bool = False

    async def begin(self) -> int:
        """Wait for the first part, or for all of it; how many bytes have come."""
        return await self._fill(self.memory.pieces[0])

    async def run(self, carrier: PreferredCarrier, ask: Ask, limits: ClientLimits) -> Stored:
        """Store what was begun, and what comes after it: in one piece where one part holds it.

        Raises:
            ValueError: more than `max_parts` parts came.
        """
        if self._ended:
            whole = self.memory.pieces[0][: self.size_bytes]
            where = address(self.bucket, self.key)
            stored, _ = await self._put(carrier, where, whole, self.headers)
            return stored
        multipart = Multipart(self.bucket, self.key, ask, limits)
        upload_id = await multipart.create(self.headers)
        async with multipart.or_aborted(upload_id):
            return await self._send_all(carrier, multipart, upload_id)

    async def _send_all(
        self, carrier: PreferredCarrier, multipart: Multipart, upload_id: str
    ) -> Stored:
        """All parts; as many workers as there are pieces of memory."""
        pieces = iter(self.memory.pieces)
        etags: dict[int, str] = {}
        sums: dict[int, tuple[int, int]] = {}
        first, first_bytes = self.memory.pieces[0], self.size_bytes
        self._number = 1

        async def worker() -> None:
            piece = next(pieces)
            number, length_bytes = (1, first_bytes) if piece is first else await self._next(piece)
            while length_bytes:
                if number > multipart.limits.max_parts:
                    raise ValueError(
                        f"more than {multipart.limits.max_parts} parts came: make them longer"
                    )
                data = piece[:length_bytes]
                where = multipart.part_address(upload_id, number)
                stored, checksum = await self._put(carrier, where, data)
                etags[number], sums[number] = stored.etag, (checksum, length_bytes)
                number, length_bytes = await self._next(piece)

        await workers(worker, len(self.memory.pieces))
        order = sorted(etags)
        whole = crc.joined(sums[number] for number in order)
        return await multipart.complete(upload_id, [etags[number] for number in order], whole)

    async def _next(self, piece: memoryview) -> tuple[int, int]:
        """The next part's number and length, in bytes; 0 where there is none."""
        async with self._turn:
            length_bytes = await self._fill(piece)
            self._number += 1
            return self._number, length_bytes

    async def _fill(self, piece: memoryview) -> int:
        """As much as comes, at most a piece."""
        length_bytes = 0
        while not self._ended and length_bytes < len(piece):
            count = await self.read(piece[length_bytes:])
            self._ended = count == 0
            length_bytes += count
        self.size_bytes += length_bytes
        return length_bytes

    async def _put(
        self,
        carrier: PreferredCarrier,
        where: str,
        data: memoryview,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> tuple[Stored, int]:
        """Store bytes; returns their checksum, too.

        What no session of the server's can carry goes by HTTP, and the rest with it.
        """
        checksum = await crc.crc64nvme(data)
        try:
            stored = await carrier.put(where, data, checksum, headers)
        except TooLargeError as error:
            carrier.give_up(error)
            stored = await carrier.put(where, data, checksum, headers)
        self.progress(len(data), self.size_bytes)
        return stored, checksum
