"""Many tasks: planned ahead, so many at once, each with an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from gateway.cli import remote
from gateway.cli.objects.tasks import Row, SkippedError, Status, Task
from gateway.cli.progress import Board
from gateway.client import ConnectError, CredentialsError, S3Error, S3RdmaError
from gateway.client.parallel import both, workers

PLANNED_AHEAD = 10_000
"""So many tasks wait at most: enough for a total that means something, and no more memory."""

_HOPELESS = frozenset(
    {"InvalidAccessKeyId", "InvalidBucketName", "NoSuchBucket", "SignatureDoesNotMatch"}
)
"""What S3 says of one object and means of all."""

UNANSWERED = 4
"""After so many objects in a row that the endpoint did not answer, it is not asked any more."""

LARGE_AT_ONCE = 2
"""Objects of several parts that are under way at once: their parts already are."""


@dataclass(slots=True)
class Batch:
    """Runs tasks.

    Args:
        jobs: how many at once, > 0.
        large_bytes: an object longer than this goes in parts.
        dry_run: say what would be done, and do nothing.
        tell: called with each outcome.
        board: shows what is under way.
    """

    jobs: int
    large_bytes: int
    dry_run: bool
    tell: Callable[[Row], None]
    board: Board
    _hopeless: bool = False
    _untried: bool = False
    _unanswered: int = 0
    _waiting: asyncio.Queue[Task | None] = field(init=False)
    _large: asyncio.Semaphore = field(init=False)

    async def run(self, tasks: AsyncIterator[Task]) -> None:
        """All of them, as long as there is hope for one. Raises an error of `tasks`."""
        self._waiting = asyncio.Queue(PLANNED_AHEAD)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        await both(self._plan(tasks), workers(self._work, self.jobs))
        if self._untried:
            remote.complain("given up: the others would fare no better")

    async def _plan(self, tasks: AsyncIterator[Task]) -> None:
        async for task in tasks:
            if self._hopeless:
                self._untried = True
                break
            self.board.found(task.item)
            await self._waiting.put(task)
        for _ in range(self.jobs):
            await self._waiting.put(None)

    async def _work(self) -> None:
        while (task := await self._waiting.get()) is not None:
            if self._hopeless:
                self._untried = True
                continue
            if self.dry_run:
                self.tell(Row(task.item, Status.PLANNED))
            elif task.item.size_bytes > self.large_bytes:
                async with self._large:
                    self.tell(await self._outcome(task))
            else:
                self.tell(await self._outcome(task))

    async def _outcome(self, task: Task) -> Row:
        with self.board.shown(task.item) as progress:
            try:
                row = Row(task.item, Status.DONE, await task.work(progress))
            except SkippedError as reason:
                row = Row(task.item, Status.SKIPPED, reason=str(reason))
            except (S3RdmaError, OSError, ValueError) as error:
                self._weigh(error)
                return Row(task.item, Status.FAILED, reason=remote.reason(error))
        self._unanswered = 0
        return row

    def _weigh(self, error: Exception) -> None:
        """Whether what ended one task will end all others, too."""
        match error:
            case S3Error(code=code):
                self._unanswered = 0
                self._hopeless |= code in _HOPELESS
            case ConnectError():
                self._unanswered += 1
                self._hopeless |= self._unanswered >= UNANSWERED
            case CredentialsError():
                self._hopeless = True
