"""Bytes into the store: staged, put into their place, and then referred to by a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from typing import Any, TypeVar

from gateway.config import StoreConfig
from gateway.errors import BusyError, InternalError
from gateway.storage.catalog import Catalog
from gateway.storage.files import DataFiles, shard_of
from gateway.storage.pieces import Placed
from gateway.storage.placing import InlineStaged, Sealed, SealedBytes, place
from gateway.storage.port import ObjectDraft, Staged
from gateway.storage.staged import StagedFile
from gateway.storage.threads import settle
from gateway.storage.writer import UncertainError, Work, Writer, promise

T = TypeVar("T")


class Publisher:
    """Owns the threads that write and sync files.

    Args:
        clock: POSIX nanoseconds.
        removals: where files are unlinked.
    """

    def __init__(
        self,
        config: StoreConfig,
        files: DataFiles,
        clock: Callable[[], int],
        removals: ThreadPoolExecutor,
    ) -> None:
        self._config = config
        self._files = files
        self._clock = clock
        self._removals = removals
        self._places = Semaphore(config.max_staged)
        self.executor = ThreadPoolExecutor(config.io_threads, thread_name_prefix="store-write")

    def close(self) -> None:
        """End the threads. Blocks."""
        self.executor.shutdown()

    async def stage(self, size_hint_bytes: int | None) -> Staged:
        """A place for bytes: in memory for few, else a file. Raises BusyError, InternalError."""
        if not self._places.acquire(blocking=False):
            raise BusyError(f"{self._config.max_staged} uploads are under way (store.max_staged)")
        if size_hint_bytes is not None and size_hint_bytes <= self._config.inline_max_bytes:
            return InlineStaged(self._places.release)
        try:
            return await settle(
                self.executor, lambda: self._stage_file(size_hint_bytes or 0), undo=_abandon
            )
        except BaseException:
            self._places.release()
            raise

    def _stage_file(self, hint_bytes: int) -> StagedFile:
        fd, name = self._files.create(self._clock())
        staged = StagedFile(self._files, fd, name, self.executor, self._places.release)
        try:
            staged.preallocate(hint_bytes)
        except InternalError:
            _abandon(staged)
            raise
        return staged

    def seal(self, staged: Staged, *, inline: bool) -> Sealed:
        """Take over what was staged; `inline`: few bytes may go into the catalog.

        Raises InternalError where it was committed or discarded before.
        """
        match staged:
            case StagedFile():
                return staged.seal()
            case InlineStaged():
                data = staged.take()
                fits = inline and len(data) <= self._config.inline_max_bytes
                return SealedBytes(self._files, data, self._clock(), inline=fits)
        raise TypeError(f"{type(staged).__name__} was not staged by this store")

    async def publish(
        self,
        sealed: Sealed,
        draft: ObjectDraft,
        writer: Writer,
        apply: Callable[[Catalog, Placed], T],
    ) -> T:
        """Put the bytes into their place, then queue the change that refers to them.

        A cancelled caller stops neither: the file's fate is settled by the future's callback.
        """
        done = promise()
        done.add_done_callback(lambda ended: self._settle(sealed, ended))

        def publish() -> None:
            try:
                placed = place(self._files, sealed, draft)
            except Exception as error:  # noqa: BLE001 - it belongs to who waits, not to this thread
                done.set_exception(error)
                return
            shard = None if placed.file is None else shard_of(placed.file)
            writer.submit(Work(lambda catalog: apply(catalog, placed), done, shard))

        if isinstance(sealed, SealedBytes) and sealed.inline:
            publish()  # nothing in it blocks
        else:
            self.executor.submit(publish)
        result: T = await asyncio.wrap_future(done)
        return result

    def _settle(self, sealed: Sealed, ended: Future[Any]) -> None:
        """After a commit: give its place back, and remove the file of one that was refused."""
        sealed.release()
        error = ended.exception()
        if error is not None and not isinstance(error, UncertainError):
            self._removals.submit(self._files.remove, (sealed.name,))


def _abandon(staged: StagedFile) -> None:
    staged.seal().abandon()
