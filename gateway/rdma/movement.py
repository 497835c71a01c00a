"""An object's bytes through a lane: into a staged file (PUT), out of an open object (GET).

Both ways are bounded in memory by the lane and in time by one deadline for the whole data phase.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from gateway.dataplane.failures import DamagedError
from gateway.dataplane.port import Lane, RemoteBuffer
from gateway.errors import InternalError, S3Code, TransportError
from gateway.rdma.aio import to_the_end
from gateway.s3.body import Poured
from gateway.s3.digest import Digester
from gateway.s3.integrity import Declared
from gateway.storage.port import ObjectReader, Staged, StreamedReader
from gateway.telemetry.traces import span
from gateway.wire.checksums import Algorithm
from gateway.wire.extent import Extent, FileExtent

CHUNK_BYTES = 1024 * 1024  # of what passes through Python, where a storage has no files


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, on the clock it was made with."""

    clock: Callable[[], float]
    at_s: float

    @classmethod
    def after(cls, clock: Callable[[], float], delay_s: float) -> Deadline:
        return cls(clock, clock() + delay_s)

    def left_s(self) -> float:
        """Seconds, > 0. Raises TransportError (RDMATransferTimeout) once it has passed."""
        left_s = self.at_s - self.clock()
        if left_s <= 0:
            raise TransportError(code=S3Code.RDMA_TRANSFER_TIMEOUT)
        return left_s


class LaneBody:
    """The body of a PUT whose peer writes it into a lane: keeps ``s3.body.Body``.

    Args:
        lane: connected, with its receive posted; not closed here.
        size_bytes: what was announced; nothing shorter or longer is accepted.
        cookie: the immediate that ends the write.
        declared: the digests that the client signed for.
        deadline: of the data phase.
        arrived: called once when every byte is in the lane.
    """

    def __init__(
        self,
        lane: Lane,
        size_bytes: int,
        cookie: int,
        declared: Declared,
        *,
        deadline: Deadline,
        arrived: Callable[[], None],
    ) -> None:
        self._lane = lane
        self._size_bytes = size_bytes
        self._cookie = cookie
        self._declared = declared
        self._deadline = deadline
        self._arrived = arrived
        self.crc64nvme: str | None = None

    @property
    def length_bytes(self) -> int:
        return self._size_bytes

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        """Wait for the peer's write, then hash and store it at once, each in its own thread.

        Raises:
            TransportError: it did not arrive, or not as announced.
            ClientError: BadDigest.
        """
        with span("data", path="rdma"):
            await self._lane.received(self._cookie, self._size_bytes, self._deadline.left_s())
        self._arrived()
        return await to_the_end(self._keep(staged, also))

    async def _keep(self, staged: Staged, also: frozenset[Algorithm]) -> Poured:
        named = also | self._declared.checksums.keys()
        digester = Digester(named | {Algorithm.CRC64NVME})
        with self._lane.memory[: self._size_bytes] as data:
            outcomes = await asyncio.gather(
                asyncio.to_thread(digester.update, data),
                self._store(staged, data),
                return_exceptions=True,  # both have let go of lane and file before either is judged
            )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        self.crc64nvme = digester.checksums[Algorithm.CRC64NVME]
        return conclude(self._declared, digester, named)

    async def _store(self, staged: Staged, data: memoryview) -> None:
        fd = staged.fileno()
        if fd is not None:
            await self._lane.store(fd, 0, self._size_bytes)
            staged.written(self._size_bytes)
            return
        for piece in Extent(0, self._size_bytes).split(CHUNK_BYTES):
            await staged.write(data[piece.offset_bytes : piece.end_bytes])

    async def read(self, limit_bytes: int) -> bytes:
        """No operation with an XML body moves by RDMA."""
        raise InternalError(f"an RDMA body was read as a document of up to {limit_bytes} bytes")


def conclude(declared: Declared, digester: Digester, named: frozenset[Algorithm]) -> Poured:
    """What came, once all of it was hashed; at least CRC64NVME, as ``Poured`` has it.

    Raises:
        ClientError: BadDigest.
    """
    computed = digester.checksums
    declared.verify(digester.md5, computed)
    kept = {name: computed[name] for name in named or {Algorithm.CRC64NVME}}
    return Poured(digester.size_bytes, digester.md5, kept)


@asynccontextmanager
async def named(reader: ObjectReader, extent: Extent) -> AsyncIterator[None]:
    """Say which file is damaged, where the block found that the extent's bytes are.

    Raises InternalError, as the storage tells it.
    """
    try:
        yield
    except DamagedError:
        await reader.verify(extent.offset_bytes, extent.length_bytes)
        raise  # they are whole now: then it was not the file


async def deliver(
    lane: Lane,
    reader: ObjectReader,
    extent: Extent,
    to: RemoteBuffer,
    *,
    cookie: int,
    deadline: Deadline,
) -> None:
    """Send an extent of an open object into the peer's buffer; the last write carries `cookie`.

    On any failure, cancellation included, the lane is closed before this returns: only then is it
    certain that nothing reads the object's files any more.

    Args:
        lane: connected.
        reader: stays open until this returns.
        extent: inside the object, length > 0.
        to: at least as long as the extent.
        cookie: the immediate.
        deadline: of the data phase.

    Raises:
        TransportError: not all of it was acknowledged before the deadline.
        InternalError: it is not what was stored.
    """
    try:
        files = reader.extents(extent.offset_bytes, extent.length_bytes)
        if files is not None:
            async with named(reader, extent):
                await lane.send_extents(files, to, cookie, deadline.left_s())
        else:
            await _deliver_copied(lane, reader, extent, to, cookie=cookie, deadline=deadline)
    except BaseException:
        await to_the_end(lane.close())
        raise


async def _deliver_copied(
    lane: Lane,
    reader: ObjectReader,
    extent: Extent,
    to: RemoteBuffer,
    *,
    cookie: int,
    deadline: Deadline,
) -> None:
    """The same for a storage without files: piece by piece through anonymous ones."""
    if isinstance(reader, StreamedReader):
        pieces = windows_of(reader, extent)
    else:
        pieces = _copies_of(reader, extent)
    async with aclosing(pieces):
        try:
            async for files, piece in pieces:
                into = replace(
                    to,
                    addr=to.addr + piece.offset_bytes - extent.offset_bytes,
                    length_bytes=piece.length_bytes,
                )
                last = piece.end_bytes == extent.end_bytes
                await lane.send_extents(files, into, cookie if last else None, deadline.left_s())
        except BaseException:
            await to_the_end(lane.close())  # before the files that it may still read
            raise


Piece = tuple[Sequence[FileExtent], Extent]
"""Where a piece of an object lies for now, and which."""


async def windows_of(reader: StreamedReader, extent: Extent) -> AsyncGenerator[Piece, None]:
    """An extent in the windows that its storage fetches it through; each lasts until the next."""
    reader.expect(extent.offset_bytes, extent.length_bytes)
    left = extent
    while left.length_bytes:
        files = await reader.window(left.offset_bytes, left.length_bytes)
        piece = Extent(left.offset_bytes, sum(file.length_bytes for file in files))
        yield files, piece
        left = Extent(piece.end_bytes, left.end_bytes - piece.end_bytes)


async def _copies_of(reader: ObjectReader, extent: Extent) -> AsyncGenerator[Piece, None]:
    """An extent copied into a file of ours, piece by piece; each lasts until the next."""
    fd = os.memfd_create("rdma-get", os.MFD_CLOEXEC)
    try:
        for piece in extent.split(CHUNK_BYTES):
            data = await reader.read(piece.offset_bytes, piece.length_bytes)
            yield (FileExtent(fd, 0, os.pwrite(fd, data, 0)),), piece
    finally:
        os.close(fd)
