"""Objects kept on this host's disk, so that an epoch of training reads each from upstream once.

A file's name is made of bucket, key, version and ETag. Each open asks the service first what the
object is now, so that a cached file is never older than its object; a replaced one is just not
found any more, and goes when it was not used for longest. What is read is a file: RDMA sends from
it.

Several gateways may share the directory: each counts what it knows of, and a file that is gone is
fetched anew.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from gateway.errors import InternalError
from gateway.storage import rules
from gateway.storage.faults import on_disk
from gateway.storage.port import ObjectInfo
from gateway.storage.upstream.ranges import Sink
from gateway.wire.extent import Extent, FileExtent

Fetch = Callable[[Extent, Sink], Awaitable[None]]

_UNFINISHED = ".part"
_LARGEST_SHARE = 4  # an object longer than this part of the cache would empty it for one reader


class ReadCache:
    """The cache of one process. One event loop.

    Args:
        directory: made where it is missing; nothing else may be in it.
        limit_bytes: of all files together.
        segment_bytes: the longest GET.
        concurrency: GETs of one object at once.
    """

    def __init__(
        self, directory: Path, limit_bytes: int, segment_bytes: int, concurrency: int
    ) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._segment_bytes = segment_bytes
        self._concurrency = concurrency
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._held_bytes = 0
        self._coming: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Take up what an earlier process kept, and remove what it did not finish.

        Raises InternalError.
        """
        with on_disk("opening the cache", self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            found = sorted(self._directory.iterdir(), key=lambda file: file.stat().st_mtime_ns)
            for file in found:
                if file.name.endswith(_UNFINISHED):
                    file.unlink(missing_ok=True)
                else:
                    self._keep(file.name, file.stat().st_size)

    def takes(self, info: ObjectInfo) -> bool:
        """Whether an object may be kept at all."""
        return 0 < info.size_bytes <= self._limit_bytes // _LARGEST_SHARE

    async def open(self, info: ObjectInfo, fetch: Fetch) -> CachedReader:
        """The object from its file, which is fetched where it is missing; by many at once, once.

        Raises what `fetch` raises, and InternalError.
        """
        name = _name(info)
        path = self._directory / name
        for _ in range(2):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                await self._fill(name, info, fetch)
                continue
            self._keep(name, info.size_bytes)
            return CachedReader(info, fd)
        raise InternalError(f"{path} went as soon as it came; raise upstream.cache_bytes")

    async def _fill(self, name: str, info: ObjectInfo, fetch: Fetch) -> None:
        if name not in self._coming:
            self._coming[name] = asyncio.create_task(self._download(name, info, fetch))
        await asyncio.shield(self._coming[name])

    async def _download(self, name: str, info: ObjectInfo, fetch: Fetch) -> None:
        unfinished = self._directory / f"{name}.{secrets.token_hex(4)}{_UNFINISHED}"
        try:
            with on_disk("writing", unfinished), _created(unfinished) as fd:
                await self._fetch_all(info.size_bytes, fetch, fd)
            with on_disk("keeping", unfinished):
                unfinished.rename(self._directory / name)
        finally:
            del self._coming[name]
            unfinished.unlink(missing_ok=True)
        self._keep(name, info.size_bytes)

    async def _fetch_all(self, size_bytes: int, fetch: Fetch, fd: int) -> None:
        turns = asyncio.Semaphore(self._concurrency)

        async def one(extent: Extent) -> None:
            place = extent.offset_bytes

            def sink(piece: bytes) -> None:
                nonlocal place
                place += os.pwrite(fd, piece, place)

            async with turns:
                await fetch(extent, sink)

        tasks = [
            asyncio.create_task(one(extent))
            for extent in Extent(0, size_bytes).split(self._segment_bytes)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:  # the file is closed only when nobody writes to it any more
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, name: str, size_bytes: int) -> None:
        """Count a file as used now, and make room for it."""
        self._held_bytes += size_bytes - self._sizes.pop(name, 0)
        self._sizes[name] = size_bytes
        while self._held_bytes > self._limit_bytes and len(self._sizes) > 1:
            oldest, freed_bytes = self._sizes.popitem(last=False)
            self._held_bytes -= freed_bytes
            (self._directory / oldest).unlink(missing_ok=True)


class CachedReader:
    """An open file of the cache: keeps ``ObjectReader``."""

    def __init__(self, info: ObjectInfo, fd: int) -> None:
        self._info = info
        self._fd: int | None = fd

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        return (FileExtent(self._open(), offset_bytes, length_bytes),) if length_bytes else ()

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        """The cache keeps no sums: its files were whole when they got their names."""

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        rules.require_inside(offset_bytes, length_bytes, self._info.size_bytes)
        data = await asyncio.to_thread(os.pread, self._open(), length_bytes, offset_bytes)
        if len(data) != length_bytes:
            raise InternalError("a file of the cache is shorter than its object: empty the cache")
        return data

    async def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            raise InternalError("an object was read after it was closed")
        return self._fd


@contextmanager
def _created(file: Path) -> Iterator[int]:
    """A new file, for writing."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _name(info: ObjectInfo) -> str:
    identity = "\0".join((info.bucket, info.key, info.version_id, info.etag))
    return sha256(identity.encode("utf-8")).hexdigest()
