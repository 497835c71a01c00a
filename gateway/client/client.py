"""The client: S3 objects into and out of any buffer or file, by RDMA where both sides can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from botocore.credentials import Credentials
from typing_extensions import Buffer

from gateway.client.address import parse_endpoint
from gateway.client.carrier import PreferredCarrier, RdmaChoice
from gateway.client.connection import Connection
from gateway.client.download import Download, Progress, requested
from gateway.client.errors import UnsupportedError
from gateway.client.fabric import FabricDoor, check_reach, check_touch
from gateway.client.files import incoming, outgoing
from gateway.client.http_carrier import HttpCarrier
from gateway.client.many import Item, each
from gateway.client.memory import (
    Borrowed,
    BufferMemory,
    FileSink,
    FileSource,
    Memory,
    Tensor,
    borrow,
)
from gateway.client.models import Outcome, RdmaMode, RdmaProtocol, Transfer
from gateway.client.partial import continued
from gateway.client.rc_carrier import RcCarrier
from gateway.client.rc_link import LinkKeeper
from gateway.client.rdma_carrier import RdmaCarrier, probe
from gateway.client.requests import Requests
from gateway.client.service import Service
from gateway.client.signing import Signer, load_signer
from gateway.client.streamed import Read, StreamedUpload, StreamMemory
from gateway.client.trust import Verify
from gateway.client.upload import Upload, longest_part, object_headers
from gateway.client.whole import WholeDownload
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Fabric
from gateway.wire.extent import Extent
from gateway.wire.rdma_headers import MAX_SIZE_BYTES

DEFAULT_LIMITS = ClientLimits()


def silent(_done_bytes: int, _total_bytes: int) -> None:
    """Progress that nobody watches."""


class Client(Requests):
    """Transfers with one endpoint. An async context manager; belongs to one event loop.

    A buffer lent to a method must not be resized, and for a GET not be read, until it returns; then
    neither the device nor the gateway can reach it any more, also when it raises.

    Args:
        endpoint_url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
        region_name / credentials / profile_name: what botocore's chain finds, where None.
        verify: whom an https endpoint's certificate must come from, as boto3 takes it: True for the
            system's authorities, the path of a PEM file, False for anybody; None for the file that
            AWS_CA_BUNDLE names, else as True.
        rdma: "auto" (plain HTTP where RDMA can't be, and the result says why), "never", "require".
        device: the RDMA device's name; "" takes the first that can be used.
        protocol: how RDMA is agreed on; None takes what the server has, a connection first.
        limits: sizes, counts and deadlines.

    Raises:
        ValueError: the endpoint, mode or limits are malformed, or, on entering, `verify` can't be
            used.

    Entering raises CredentialsError; the methods raise the errors of ``gateway.client.errors``,
    and ValueError or OSError for a buffer or file that can't be used.
    """

    def __init__(
        self,
        *,
        endpoint_url: str,
        region_name: str | None = None,
        credentials: Credentials | None = None,
        profile_name: str | None = None,
        verify: Verify = None,
        rdma: str | RdmaMode = RdmaMode.AUTO,
        device: str = "",
        protocol: str | RdmaProtocol | None = None,
        limits: ClientLimits = DEFAULT_LIMITS,
    ) -> None:
        if not 0 < limits.part_bytes <= MAX_SIZE_BYTES:
            raise ValueError(f"part_bytes must be 1 to {MAX_SIZE_BYTES}")
        self._endpoint = parse_endpoint(endpoint_url)
        self._identity = (credentials, region_name, profile_name)
        self._verify = verify
        self._mode = RdmaMode(rdma)
        self._protocol = None if protocol is None else RdmaProtocol(protocol)
        self._limits = limits
        self._many = limits.many_concurrency
        self._door = FabricDoor(device)
        self._signer: Signer
        self._connection: Connection
        self._service: Service
        self._keeper: LinkKeeper

    async def __aenter__(self) -> Self:
        self._signer = await asyncio.to_thread(load_signer, *self._identity)
        self._connection = Connection(self._endpoint, self._signer, self._limits, self._verify)
        self._region = self._signer.region
        self._service = Service(self._connection, self._limits)
        self._keeper = LinkKeeper(self._connection, self._limits)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with AsyncExitStack() as ending:  # each, whatever becomes of the others
            ending.push_async_callback(self._door.close)
            ending.push_async_callback(self._connection.close)
            ending.push_async_callback(self._keeper.close)

    async def get_into(
        self,
        bucket: str,
        key: str,
        buffer: Buffer | Tensor,
        offset: int = 0,
        length: int | None = None,
        *,
        version_id: str | None = None,
        progress: Progress = silent,
    ) -> Transfer:
        """Fill the beginning of `buffer` with an object, or with a range of it.

        Args:
            bucket: its name.
            key: 1 to 1024 bytes.
            buffer: writable, contiguous, at least as long as what is fetched: anything with the
                buffer protocol, a numpy array, a torch tensor (in a GPU: ``gateway.client.gpu``).
            offset: where the range begins in the object, bytes.
            length: of the range, bytes; None is "to the end".
            version_id: None is the current version.
            progress: told of each part that has arrived.
        """
        borrowed = borrow(buffer, writable=True)
        view = borrowed.view
        memory = BufferMemory(borrowed)
        started_s = time.perf_counter()
        carrier = None
        if length is None and not offset and 0 < len(view) <= self._limits.part_bytes:
            at_once = WholeDownload(bucket, key, version_id, memory, len(view), progress)
            async with self._keeper.holding(borrowed):
                carrier = await self._carrier(len(view), memory)
                if whole := await at_once.run(carrier):
                    return self._finished(carrier, whole.bytes, started_s, whole.etag, version_id)
        head = None
        if length is None or not 0 < length <= self._limits.part_bytes:
            head = await self.head(bucket, key, version_id)
        extent = requested(head, offset, length)
        if extent.length_bytes > len(view):
            raise ValueError(
                f"the buffer has {len(view)} bytes and {extent.length_bytes} are to be fetched"
            )
        async with self._keeper.holding(borrowed):
            download = Download(bucket, key, version_id, extent, head, memory, progress)
            return await self._fetch(download, started_s, carrier)

    async def get_file(
        self,
        bucket: str,
        key: str,
        path: str | Path,
        *,
        version_id: str | None = None,
        resume: bool = False,
        progress: Progress = silent,
    ) -> Transfer:
        """Fetch an object into a file, which appears or replaces another only when it is whole.

        With `resume` what had arrived when this failed, or when its process was killed, is kept in
        a hidden file beside it, and is not fetched again while the object is the same.
        """
        started_s = time.perf_counter()
        head = await self.head(bucket, key, version_id)
        async with AsyncExitStack() as stack:
            ledger = None
            if resume:
                fd, ledger = await stack.enter_async_context(continued(Path(path), head))
            else:
                fd = await stack.enter_async_context(incoming(Path(path), head))
            sink = FileSink(fd, *self._pieces(head.size_bytes))
            extent = Extent(0, head.size_bytes)
            download = Download(bucket, key, version_id, extent, head, sink, progress, ledger)
            async with self._keeper.holding(Borrowed(sink.memory)):
                return await self._fetch(download, started_s)

    async def put_from(
        self,
        bucket: str,
        key: str,
        buffer: Buffer | Tensor,
        *,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        progress: Progress = silent,
    ) -> Transfer:
        """Store the bytes of `buffer` as an object.

        Args:
            bucket: its name; it must exist.
            key: 1 to 1024 bytes.
            buffer: contiguous; read-only is fine.
            metadata: the user's own, without the ``x-amz-meta-`` prefix.
            content_type: None lets the server choose.
            progress: told of each part that is stored.
        """
        borrowed = borrow(buffer, writable=False)
        view = borrowed.view
        headers = object_headers(metadata, content_type)
        upload = Upload(bucket, key, len(view), headers, BufferMemory(borrowed), progress)
        async with self._keeper.holding(borrowed):
            return await self._store(upload)

    async def put_file(
        self,
        bucket: str,
        key: str,
        path: str | Path,
        *,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        resume: bool = False,
        progress: Progress = silent,
    ) -> Transfer:
        """Store a file as an object; memory stays bounded, whatever its size.

        With `resume` the parts of a long file that were stored when this failed, or when its
        process was killed, stay with the server, and those that still are the file's bytes are not
        sent again.
        """
        headers = object_headers(metadata, content_type)
        with outgoing(Path(path)) as (fd, size_bytes):
            source = FileSource(fd, *self._pieces(size_bytes))
            upload = Upload(bucket, key, size_bytes, headers, source, progress, resume)
            async with self._keeper.holding(Borrowed(source.memory)):
                return await self._store(upload)

    async def put_stream(
        self,
        bucket: str,
        key: str,
        read: Read,
        *,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        progress: Progress = silent,
    ) -> Transfer:
        """Store what `read` fills buffers with, part by part: it says how much, 0 at the end."""
        started_s = time.perf_counter()
        memory = StreamMemory(self._limits)
        headers = object_headers(metadata, content_type)
        upload = StreamedUpload(bucket, key, headers, read, memory, progress)
        borrowed = Borrowed(memory.memory)
        async with self._keeper.holding(borrowed):
            carrier = await self._carrier(await upload.begin(), BufferMemory(borrowed))
            stored = await upload.run(carrier, self._service.ask, self._limits)
        return self._finished(carrier, upload.size_bytes, started_s, stored.etag, stored.version_id)

    @asynccontextmanager
    async def registered(self, buffer: Buffer | Tensor) -> AsyncIterator[memoryview]:
        """Keep a buffer registered for many transfers, of it or of parts of it.

        Arrays and tensors stay registered by themselves while they live. This is for slices of
        them, and for buffers of any other kind, of which nobody could tell when they are freed.
        Registering happens at the first transfer; the view lent may be sliced, and used as long as
        this lasts.
        """
        borrowed = borrow(buffer, writable=False)
        async with self._keeper.holding(borrowed):
            yield borrowed.view

    async def get_many(
        self, items: Iterable[Item], *, bucket: str = "", concurrency: int | None = None
    ) -> list[Outcome]:
        """Fetch whole objects, each into a buffer of its own.

        Args:
            items: (bucket, key, buffer), or (key, buffer) of `bucket`; taken one by one.
            bucket: of items that name none.
            concurrency: how many at once, > 0; None is `many_concurrency`.

        Returns:
            What became of each item, in their order: one that fails doesn't end the others.
        """
        return await each(items, bucket, self.get_into, concurrency or self._many)

    async def put_many(
        self, items: Iterable[Item], *, bucket: str = "", concurrency: int | None = None
    ) -> list[Outcome]:
        """Store buffers as objects; otherwise as `get_many`."""
        return await each(items, bucket, self.put_from, concurrency or self._many)

    async def check_server(self) -> None:
        """Ask whether the server takes RDMA sessions from these credentials, now.

        Raises:
            UnsupportedError: it does not; the text says why.
        """
        await probe(self._connection)

    async def _fetch(
        self, download: Download, started_s: float, carrier: PreferredCarrier | None = None
    ) -> Transfer:
        size_bytes = download.extent.length_bytes
        if carrier is None or not size_bytes:
            carrier = await self._carrier(size_bytes, download.memory)
        if size_bytes:
            etag = await download.run(carrier, self._limits)
        else:
            etag = download.head.etag if download.head else ""
        return self._finished(carrier, size_bytes, started_s, etag, download.version_id)

    async def _store(self, upload: Upload) -> Transfer:
        started_s = time.perf_counter()
        carrier = await self._carrier(upload.size_bytes, upload.memory)
        stored = await upload.run(carrier, self._service.ask, self._limits)
        return self._finished(carrier, upload.size_bytes, started_s, stored.etag, stored.version_id)

    async def _carrier(self, size_bytes: int, memory: Memory) -> PreferredCarrier:
        """RDMA where this host can and the caller wants it, with plain HTTP behind it."""
        http = HttpCarrier(self._connection, self._limits)
        if not size_bytes:
            return PreferredCarrier(http, "there are no bytes to move")
        fallback = http if memory.on_host else None
        if self._mode is RdmaMode.NEVER:
            return PreferredCarrier(fallback, "RDMA is turned off for this client")
        required = self._mode is RdmaMode.REQUIRE
        try:
            fabric = await self._door.fabric()
            check_reach(fabric.info, self._endpoint)
            check_touch(fabric.info, on_host=memory.on_host)
            choice = await self._by_rdma(fabric)
        except UnsupportedError as error:
            if required:
                raise
            return PreferredCarrier(fallback, str(error))
        return PreferredCarrier(fallback, choice, required=required)

    async def _by_rdma(self, fabric: Fabric) -> RdmaChoice:
        """A connection where the server makes them, else a session for each transfer."""
        if self._protocol is not RdmaProtocol.HIPOBJ:
            try:
                await self._keeper.linked(fabric)
            except UnsupportedError:
                if self._protocol is RdmaProtocol.RC:
                    raise
            else:
                rc = RcCarrier(self._connection, fabric, self._keeper, self._limits)
                return RdmaChoice(rc, fabric.info.device, RdmaProtocol.RC)
        sessions = RdmaCarrier(self._connection, fabric, self._limits)
        return RdmaChoice(sessions, fabric.info.device, RdmaProtocol.HIPOBJ)

    def _finished(
        self,
        carrier: PreferredCarrier,
        size_bytes: int,
        started_s: float,
        etag: str,
        version_id: str | None,
    ) -> Transfer:
        if carrier.unreachable:
            self._door.shut(str(carrier.reason))
        return Transfer(
            bytes=size_bytes,
            seconds=max(time.perf_counter() - started_s, 1e-9),
            etag=etag,
            path=carrier.path,
            reason=carrier.reason,
            device=carrier.device,
            version_id=version_id,
            carrier=carrier.lane,
            protocol=carrier.protocol,
        )

    def _pieces(self, size_bytes: int) -> tuple[int, int]:
        """How much of a file is in memory at a time: of what length, and how many of them."""
        part_bytes = max(1, min(size_bytes, longest_part(size_bytes, self._limits)))
        return part_bytes, max(1, min(self._limits.concurrency, -(-size_bytes // part_bytes)))
