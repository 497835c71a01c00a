"""A progress bar, where someone can see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown(label: str, *, wanted: bool) -> Iterator[Callable[[int, int], None]]:
    """Lend a function to be told of the bytes that are done, and of how many there are.

    Nothing is drawn unless it is wanted and standard error is a terminal.
    """
    if not (wanted and sys.stderr.isatty()):
        yield lambda _done_bytes, _total_bytes: None
        return
    # Here, so that programs without a terminal start faster.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    # The label is a file's name: no markup in it.
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, advance=done, total=total)
