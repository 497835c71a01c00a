"""Bytes on their way into an object: stage, pour, and give up cleanly unless they are committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.config import MIB
from gateway.errors import ClientError, S3Code
from gateway.s3.access import expect_owner
from gateway.s3.body import Poured
from gateway.s3.context import Context
from gateway.s3.digest import Digester
from gateway.s3.operations import CopySource, GetObject
from gateway.storage.port import Destination, ObjectReader, Staged, Storage, StreamedReader
from gateway.wire.checksums import Algorithm
from gateway.wire.conditional import Outcome, evaluate
from gateway.wire.extent import Extent

_NS_PER_S = 1_000_000_000
_COPY_CHUNK_BYTES = MIB
_INLINE_BYTES = 64 * 1024  # hashing less than this is cheaper than a trip to a thread


@asynccontextmanager
async def staged_bytes(
    storage: Storage,
    bucket: str,
    size_hint_bytes: int | None,
    destination: Destination | None = None,
) -> AsyncIterator[Staged]:
    """A place for bytes; discarded at the end, which after a commit does nothing."""
    staged = await storage.stage(bucket, size_hint_bytes, destination)
    try:
        yield staged
    finally:
        await staged.discard()


@asynccontextmanager
async def opened_source(source: CopySource, context: Context) -> AsyncIterator[ObjectReader]:
    """A copy's source, if the requester may read it and its preconditions hold (else 412)."""
    await context.authorise(GetObject(source.bucket, source.key, source.version_id))
    await expect_owner(source.bucket, source.expected_owner, context.storage)
    reader = await context.storage.open_object(source.bucket, source.key, source.version_id)
    try:
        info = reader.info
        outcome = evaluate(source.conditions, info.etag, info.modified_ns // _NS_PER_S)
        if outcome is not Outcome.PROCEED:
            raise ClientError(S3Code.PRECONDITION_FAILED)
        yield reader
    finally:
        await reader.close()


class SourceBody:
    """An extent of a stored object as the body of a write (``s3.body.Body``)."""

    def __init__(self, reader: ObjectReader, extent: Extent) -> None:
        self._reader = reader
        self._extent = extent

    @property
    def length_bytes(self) -> int:
        """Always known."""
        return self._extent.length_bytes

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        """Copy chunk by chunk, hashing one in a thread while it is written."""
        digester = Digester(also or {Algorithm.CRC64NVME})
        if isinstance(self._reader, StreamedReader):
            self._reader.expect(self._extent.offset_bytes, self._extent.length_bytes)
        offset_bytes = self._extent.offset_bytes
        while offset_bytes < self._extent.end_bytes:
            length_bytes = min(_COPY_CHUNK_BYTES, self._extent.end_bytes - offset_bytes)
            chunk = await self._reader.read(offset_bytes, length_bytes)
            if length_bytes <= _INLINE_BYTES:
                digester.update(chunk)
                await staged.write(chunk)
            else:
                await asyncio.gather(staged.write(chunk), asyncio.to_thread(digester.update, chunk))
            offset_bytes += length_bytes
        return Poured(digester.size_bytes, digester.md5, digester.checksums)

    async def read(self, limit_bytes: int) -> bytes:
        """All of it at once, for the port's sake. MaxMessageLengthExceeded over the limit."""
        if self.length_bytes > limit_bytes:
            raise ClientError(S3Code.MAX_MESSAGE_LENGTH_EXCEEDED)
        return await self._reader.read(self._extent.offset_bytes, self.length_bytes)
