"""Progress bars, where someone can see them: one for the whole, one for each object under way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from gateway.cli import remote
from gateway.cli.objects.tasks import Item
from gateway.client.download import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


class Board(Protocol):
    """Told of what is to be done and what is under way."""

    def found(self, item: Item) -> None:
        """It will be done."""

    def shown(self, item: Item) -> AbstractContextManager[Progress]:
        """While it is done: lends whom to tell of (done, total) bytes."""


class NoBoard:
    """Nobody looks."""

    def found(self, item: Item) -> None:
        pass

    @contextmanager
    def shown(self, item: Item) -> Iterator[Progress]:
        yield lambda _done_bytes, _total_bytes: None


class BarBoard:
    """Bars by rich, with rate and time left; of the whole, and of each object under way."""

    def __init__(self, bars: Bars, verb: str) -> None:
        self._bars = bars
        self._verb = verb
        self._whole = bars.add_task(verb, total=None)
        self._total_bytes = 0
        self._objects = 0
        self._done = 0

    def found(self, item: Item) -> None:
        self._objects += 1
        self._grow(item.size_bytes)

    @contextmanager
    def shown(self, item: Item) -> Iterator[Progress]:
        bar = self._bars.add_task(remote.printable(str(item)), total=item.size_bytes or None)
        told_bytes = item.size_bytes

        def progress(done_bytes: int, total_bytes: int) -> None:
            nonlocal told_bytes
            self._grow(total_bytes - told_bytes)
            told_bytes = total_bytes
            self._bars.update(bar, advance=done_bytes, total=total_bytes)
            self._bars.update(self._whole, advance=done_bytes)

        try:
            yield progress
        finally:
            self._bars.remove_task(bar)
            self._done += 1
            self._grow(0)

    def _grow(self, more_bytes: int) -> None:
        """The whole became longer: an object was found, or turned out to be longer than told."""
        self._total_bytes += more_bytes
        description = f"{self._verb} {self._done}/{self._objects}"
        self._bars.update(self._whole, total=self._total_bytes, description=description)


@contextmanager
def board(verb: str, *, wanted: bool) -> Iterator[Board]:
    """Lend a board. Nothing is drawn unless it is wanted and standard error is a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield NoBoard()
        return
    # Here, so that programs without a terminal start faster.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column  # noqa: PLC0415

    # A description is a key, or a file's name: no markup in it, and not so much of it.
    name = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
    )
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bars:
        yield BarBoard(bars, verb)
