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
from gateway.client.carrier import Carrier, PreferredCarrier, RdmaChoice
from gateway.client.connection import Connection
from gateway.client.download import Download, Progress
from gateway.client.errors import S3Error, UnsupportedError
from gateway.client.fabric import FabricDoor, check_reach
from gateway.client.files import incoming, outgoing
from gateway.client.http_carrier import HttpCarrier
from gateway.client.many import Item, each
from gateway.client.memory import Borrowed, BufferMemory, FileSink, FileSource, Tensor, borrow
from gateway.client.models import Bucket, Listing, ObjectHead, Outcome, RdmaMode, Transfer
from gateway.client.rc_carrier import RcCarrier
from gateway.client.rc_link import LinkKeeper
from gateway.client.rdma_carrier import RdmaCarrier, probe
from gateway.client.service import Service
from gateway.client.signing import Signer, load_signer
from gateway.client.upload import Upload, longest_part
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Fabric
from gateway.wire.extent import Extent
from gateway.wire.rdma_headers import MAX_SIZE_BYTES

DEFAULT_LIMITS = ClientLimits()


def silent(_done_bytes: int, _total_bytes: int) -> None:
    """Progress that nobody watches."""


class Client:
    """Transfers with one endpoint. An async context manager; belongs to one event loop.

    A buffer lent to a method must not be resized, and for a GET not be read, until it returns; then
    neither the device nor the gateway can reach it any more, also when it raises.

    Args:
        endpoint_url: ``http://HOST:PORT``.
        region_name / credentials / profile_name: what botocore's chain finds, where None.
        rdma: "auto" (plain HTTP where RDMA can't be, and the result says why), "never", "require".
        device: the RDMA device's name; "" takes the first that can be used.
        limits: sizes, counts and deadlines.

    Raises:
        ValueError: the endpoint, mode or limits are malformed.

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
        rdma: str | RdmaMode = RdmaMode.AUTO,
        device: str = "",
        limits: ClientLimits = DEFAULT_LIMITS,
    ) -> None:
        if not 0 < limits.part_bytes <= MAX_SIZE_BYTES:
            raise ValueError(f"part_bytes must be 1 to {MAX_SIZE_BYTES}")
        self._endpoint = parse_endpoint(endpoint_url)
        self._identity = (credentials, region_name, profile_name)
        self._mode = RdmaMode(rdma)
        self._limits = limits
        self._many = limits.many_concurrency
        self._door = FabricDoor(device)
        self._signer: Signer
        self._connection: Connection
        self._service: Service
        self._keeper: LinkKeeper

    async def __aenter__(self) -> Self:
        self._signer = await asyncio.to_thread(load_signer, *self._identity)
        self._connection = Connection(self._endpoint, self._signer, self._limits)
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
                buffer protocol, a numpy array, or a torch tensor in the CPU's memory.
            offset: where the range begins in the object, bytes.
            length: of the range, bytes; None is "to the end".
            version_id: None is the current version.
            progress: told of each part that has arrived.
        """
        borrowed = borrow(buffer, writable=True)
        view = borrowed.view
        started_s = time.perf_counter()
        head = None
        if length is None or not 0 < length <= self._limits.part_bytes:
            head = await self.head(bucket, key, version_id)
        extent = _extent(head, offset, length)
        if extent.length_bytes > len(view):
            raise ValueError(
                f"the buffer has {len(view)} bytes and {extent.length_bytes} are to be fetched"
            )
        download = Download(bucket, key, version_id, extent, head, BufferMemory(view), progress)
        async with self._keeper.holding(borrowed):
            return await self._fetch(download, started_s)

    async def get_file(
        self,
        bucket: str,
        key: str,
        path: str | Path,
        *,
        version_id: str | None = None,
        progress: Progress = silent,
    ) -> Transfer:
        """Fetch an object into a file, which appears or replaces another only when it is whole."""
        started_s = time.perf_counter()
        head = await self.head(bucket, key, version_id)
        with incoming(Path(path), head.size_bytes) as fd:
            sink = FileSink(fd, *self._pieces(head.size_bytes))
            extent = Extent(0, head.size_bytes)
            download = Download(bucket, key, version_id, extent, head, sink, progress)
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
        headers = _object_headers(metadata, content_type)
        upload = Upload(bucket, key, len(view), headers, BufferMemory(view), progress)
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
        progress: Progress = silent,
    ) -> Transfer:
        """Store a file as an object; memory stays bounded, whatever its size."""
        headers = _object_headers(metadata, content_type)
        with outgoing(Path(path)) as (fd, size_bytes):
            source = FileSource(fd, *self._pieces(size_bytes))
            upload = Upload(bucket, key, size_bytes, headers, source, progress)
            async with self._keeper.holding(Borrowed(source.memory)):
                return await self._store(upload)

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

    async def head(self, bucket: str, key: str, version_id: str | None = None) -> ObjectHead:
        """What there is to know of an object without its bytes."""
        return await self._service.head(bucket, key, version_id)

    async def list_objects(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", token: str | None = None
    ) -> Listing:
        """One page of a bucket, at most 1000 keys; `token` is the page before's `next_token`."""
        return await self._service.list_objects(bucket, prefix, delimiter, token)

    async def list_buckets(self) -> tuple[Bucket, ...]:
        """The buckets of these credentials."""
        return await self._service.list_buckets()

    async def create_bucket(self, bucket: str) -> None:
        """Make a bucket in the client's region."""
        await self._service.create_bucket(bucket, self._signer.region)

    async def delete_object(self, bucket: str, key: str) -> None:
        """Remove an object; one that does not exist is no error, as S3 has it."""
        await self._service.delete_object(bucket, key)

    async def copy_object(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        """Copy an object of at most 5 GiB within the server; both are (bucket, key)."""
        await self._service.copy_object(source, target)

    async def check_server(self) -> None:
        """Ask whether the server takes RDMA sessions from these credentials, now.

        Raises:
            UnsupportedError: it does not; the text says why.
        """
        await probe(self._connection)

    async def _fetch(self, download: Download, started_s: float) -> Transfer:
        size_bytes = download.extent.length_bytes
        carrier = await self._carrier(size_bytes)
        if size_bytes:
            etag = await download.run(carrier, self._limits)
        else:
            etag = download.head.etag if download.head else ""
        return self._finished(carrier, size_bytes, started_s, etag, download.version_id)

    async def _store(self, upload: Upload) -> Transfer:
        started_s = time.perf_counter()
        carrier = await self._carrier(upload.size_bytes)
        stored = await upload.run(carrier, self._connection, self._limits)
        return self._finished(carrier, upload.size_bytes, started_s, stored.etag, stored.version_id)

    async def _carrier(self, size_bytes: int) -> PreferredCarrier:
        """RDMA where this host can and the caller wants it, with plain HTTP behind it."""
        http = HttpCarrier(self._connection, self._limits)
        if not size_bytes:
            return PreferredCarrier(http, "there are no bytes to move")
        if self._mode is RdmaMode.NEVER:
            return PreferredCarrier(http, "RDMA is turned off for this client")
        required = self._mode is RdmaMode.REQUIRE
        try:
            fabric = await self._door.fabric()
            check_reach(fabric.info, self._endpoint)
        except UnsupportedError as error:
            if required:
                raise
            return PreferredCarrier(http, str(error))
        choice = RdmaChoice(await self._by_rdma(fabric), fabric.info.device)
        return PreferredCarrier(http, choice, required=required)

    async def _by_rdma(self, fabric: Fabric) -> Carrier:
        """A connection where the server makes them, else a session for each transfer."""
        try:
            await self._keeper.linked(fabric)
        except UnsupportedError:
            return RdmaCarrier(self._connection, fabric, self._limits)
        return RcCarrier(self._connection, fabric, self._keeper, self._limits)

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
        )

    def _pieces(self, size_bytes: int) -> tuple[int, int]:
        """How much of a file is in memory at a time: of what length, and how many of them."""
        part_bytes = max(1, min(size_bytes, longest_part(size_bytes, self._limits)))
        return part_bytes, max(1, min(self._limits.concurrency, -(-size_bytes // part_bytes)))


def _extent(head: ObjectHead | None, offset_bytes: int, length_bytes: int | None) -> Extent:
    """The range asked for, held against the object where its size is known."""
    if offset_bytes < 0 or (length_bytes is not None and length_bytes < 0):
        raise ValueError("offset and length must not be negative")
    if head is not None:
        rest_bytes = head.size_bytes - offset_bytes
        length_bytes = rest_bytes if length_bytes is None else length_bytes
        if not 0 <= length_bytes <= rest_bytes:
            raise S3Error(
                "InvalidRange", 416, f"the object has {head.size_bytes} bytes, not as many as asked"
            )
    return Extent(offset_bytes, length_bytes or 0)


def _object_headers(metadata: Mapping[str, str] | None, content_type: str | None) -> dict[str, str]:
    own = {f"x-amz-meta-{name.lower()}": text for name, text in (metadata or {}).items()}
    return own | ({"Content-Type": content_type} if content_type else {})
