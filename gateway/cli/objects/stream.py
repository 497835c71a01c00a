"""Standard input and standard output as the ends of a transfer."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from dataclasses import replace

from gateway.cli.options import S3Url
from gateway.client import Client, Transfer, TransferError
from gateway.client import checksum as crc
from gateway.client.download import Progress
from gateway.client.parallel import both
from gateway.rdma.aio import to_the_end


async def from_stdin(
    client: Client, target: S3Url, content_type: str | None, progress: Progress
) -> Transfer:
    """Store what comes: a file that stands behind it as a file, a pipe part by part."""
    fd = sys.stdin.fileno()
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return await client.put_file(
            target.bucket,
            target.key,
            f"/proc/self/fd/{fd}",
            content_type=content_type,
            progress=progress,
        )

    async def read(piece: memoryview) -> int:
        return await to_the_end(asyncio.to_thread(os.readv, fd, [piece]))

    return await client.put_stream(
        target.bucket, target.key, read, content_type=content_type, progress=progress
    )


async def to_stdout(
    client: Client, url: S3Url, version_id: str | None, window_bytes: int, progress: Progress
) -> Transfer:
    """Write an object out in order: while one window of it is written the next one is fetched.

    Raises:
        TransferError: it was replaced meanwhile, or what was written is not the object.
    """
    started_s = time.perf_counter()
    head = await client.head(url.bucket, url.key, version_id)
    size_bytes = head.size_bytes
    buffers = [bytearray(min(window_bytes, size_bytes)) for _ in range(2)]

    async def fetch(offset_bytes: int) -> tuple[memoryview, Transfer]:
        buffer = buffers[offset_bytes // window_bytes % 2]
        view = memoryview(buffer)[: size_bytes - offset_bytes]
        done = await client.get_into(
            url.bucket, url.key, view, offset_bytes, len(view), version_id=version_id
        )
        if done.etag != head.etag:
            raise TransferError("the object was replaced while it was read: get it again")
        progress(len(view), size_bytes)
        return view, done

    progress(0, size_bytes)
    view, done = await fetch(0)
    total = crc.continued(0, view)
    for offset_bytes in range(window_bytes, size_bytes, window_bytes):
        (fetched, done), _ = await both(fetch(offset_bytes), _write(view))
        view, total = fetched, crc.continued(total, fetched)
    await _write(view)
    if head.crc64nvme not in {None, total}:
        raise TransferError("the bytes that were written are not the object's: CRC64NVME differs")
    return replace(done, bytes=size_bytes, seconds=max(time.perf_counter() - started_s, 1e-9))


async def _write(view: memoryview) -> None:
    await to_the_end(asyncio.to_thread(_write_all, view))


def _write_all(view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += os.write(sys.stdout.fileno(), view[done:])
