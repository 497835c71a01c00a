"""The same client for programs without an event loop: every method waits for its answer."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop
from botocore.credentials import Credentials
from typing_extensions import Buffer

from gateway.client.client import DEFAULT_LIMITS, Client, silent
from gateway.client.download import Progress
from gateway.client.many import Item
from gateway.client.memory import Tensor
from gateway.client.models import (
    Bucket,
    DeleteFailure,
    Deletion,
    Listing,
    ObjectHead,
    Outcome,
    RdmaMode,
    RdmaProtocol,
    Transfer,
    VersionListing,
)
from gateway.client.streamed import Read
from gateway.client.trust import Verify
from gateway.config.client import ClientLimits

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="s3rdma", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; interrupted, it has ended before the interruption is raised.

        Until then the device may still write into the caller's buffer.
        """
        ended = threading.Event()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        def stop() -> None:
            tasks[0].cancel()

        self._loop.call_soon_threadsafe(start)
        try:
            ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(stop)  # behind `start`
            ended.wait()
            raise
        return tasks[0].result()

    @contextmanager
    def entered(self, context: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """An async context of the loop's, around the body here."""

        async def leave() -> None:
            await context.__aexit__(None, None, None)

        async def enter() -> T:
            return await context.__aenter__()

        entered = self.run(enter())
        try:
            yield entered
        finally:
            self.run(leave())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class SyncClient:
    """`Client`, with the same arguments, results and errors. A context manager.

    Several threads may share one; their transfers run side by side.
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
        self._client = Client(
            endpoint_url=endpoint_url,
            region_name=region_name,
            credentials=credentials,
            profile_name=profile_name,
            verify=verify,
            rdma=rdma,
            device=device,
            protocol=protocol,
            limits=limits,
        )
        self._thread: LoopThread

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self._thread.run(self._client.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._thread.run(self._client.__aexit__(kind, error, trace))
        finally:
            self._thread.stop()

    def get_into(
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
        """See `Client.get_into`; `progress` is called in the client's thread."""
        return self._thread.run(
            self._client.get_into(
                bucket, key, buffer, offset, length, version_id=version_id, progress=progress
            )
        )

    def put_from(
        self,
        bucket: str,
        key: str,
        buffer: Buffer | Tensor,
        *,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        progress: Progress = silent,
    ) -> Transfer:
        """See `Client.put_from`; `progress` is called in the client's thread."""
        return self._thread.run(
            self._client.put_from(
                bucket,
                key,
                buffer,
                metadata=metadata,
                content_type=content_type,
                progress=progress,
            )
        )

    def get_file(
        self,
        bucket: str,
        key: str,
        path: str | Path,
        *,
        version_id: str | None = None,
        resume: bool = False,
        progress: Progress = silent,
    ) -> Transfer:
        """See `Client.get_file`; `progress` is called in the client's thread."""
        return self._thread.run(
            self._client.get_file(
                bucket, key, path, version_id=version_id, resume=resume, progress=progress
            )
        )

    def put_file(
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
        """See `Client.put_file`; `progress` is called in the client's thread."""
        return self._thread.run(
            self._client.put_file(
                bucket,
                key,
                path,
                metadata=metadata,
                content_type=content_type,
                resume=resume,
                progress=progress,
            )
        )

    def put_stream(
        self,
        bucket: str,
        key: str,
        read: Read,
        *,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        progress: Progress = silent,
    ) -> Transfer:
        """See `Client.put_stream`; `read` and `progress` are called in the client's thread."""
        return self._thread.run(
            self._client.put_stream(
                bucket,
                key,
                read,
                metadata=metadata,
                content_type=content_type,
                progress=progress,
            )
        )

    @contextmanager
    def registered(self, buffer: Buffer | Tensor) -> Iterator[memoryview]:
        """See `Client.registered`."""
        with self._thread.entered(self._client.registered(buffer)) as view:
            yield view

    def get_many(
        self, items: Iterable[Item], *, bucket: str = "", concurrency: int | None = None
    ) -> list[Outcome]:
        """See `Client.get_many`; `items` are taken in the client's thread."""
        return self._thread.run(
            self._client.get_many(items, bucket=bucket, concurrency=concurrency)
        )

    def put_many(
        self, items: Iterable[Item], *, bucket: str = "", concurrency: int | None = None
    ) -> list[Outcome]:
        """See `Client.put_many`; `items` are taken in the client's thread."""
        return self._thread.run(
            self._client.put_many(items, bucket=bucket, concurrency=concurrency)
        )

    def head(self, bucket: str, key: str, version_id: str | None = None) -> ObjectHead:
        """See `Client.head`."""
        return self._thread.run(self._client.head(bucket, key, version_id))

    def list_objects(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", token: str | None = None
    ) -> Listing:
        """See `Client.list_objects`."""
        return self._thread.run(
            self._client.list_objects(bucket, prefix, delimiter=delimiter, token=token)
        )

    def list_versions(
        self,
        bucket: str,
        prefix: str = "",
        *,
        delimiter: str = "",
        marker: tuple[str, str] | None = None,
    ) -> VersionListing:
        """See `Client.list_versions`."""
        return self._thread.run(
            self._client.list_versions(bucket, prefix, delimiter=delimiter, marker=marker)
        )

    def list_buckets(self) -> tuple[Bucket, ...]:
        """See `Client.list_buckets`."""
        return self._thread.run(self._client.list_buckets())

    def create_bucket(self, bucket: str) -> None:
        """See `Client.create_bucket`."""
        self._thread.run(self._client.create_bucket(bucket))

    def delete_bucket(self, bucket: str) -> None:
        """See `Client.delete_bucket`."""
        self._thread.run(self._client.delete_bucket(bucket))

    def delete_object(self, bucket: str, key: str, version_id: str | None = None) -> None:
        """See `Client.delete_object`."""
        self._thread.run(self._client.delete_object(bucket, key, version_id))

    def delete_objects(
        self, bucket: str, deletions: Sequence[Deletion]
    ) -> tuple[DeleteFailure, ...]:
        """See `Client.delete_objects`."""
        return self._thread.run(self._client.delete_objects(bucket, deletions))

    def copy_object(
        self, source: tuple[str, str], target: tuple[str, str], *, version_id: str | None = None
    ) -> str:
        """See `Client.copy_object`."""
        return self._thread.run(self._client.copy_object(source, target, version_id=version_id))

    def token_reply(self, bucket: str, key: str, token: str) -> str:
        """See `Client.token_reply`."""
        return self._thread.run(self._client.token_reply(bucket, key, token))

    def server_time(self) -> datetime:
        """See `Client.server_time`."""
        return self._thread.run(self._client.server_time())

    def check_server(self) -> None:
        """See `Client.check_server`."""
        self._thread.run(self._client.check_server())


def finally_do(owner: object, close: Callable[[], None]) -> Callable[[], object]:
    """Call `close` once: when what is returned is called, or the owner dies, or at exit.

    At exit deregistering can have no thread any more; the kernel does it then, and this is silent.
    """

    def ending() -> None:
        with suppress(RuntimeError):
            close()

    return weakref.finalize(owner, ending)
