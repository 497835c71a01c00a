"""One object of a command's many: what is to be done with it, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from gateway.cli.options import S3Url
from gateway.client import Transfer
from gateway.client.download import Progress


class SkippedError(Exception):
    """There is nothing to do for this object; the text says why."""


class Status(Enum):
    """What became of an object."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    PLANNED = "planned"  # --dry-run


@dataclass(frozen=True, slots=True)
class Item:
    """One object.

    Attributes:
        verb: get, put, cp or rm.
        url: the object that errors name, and that is told in JSON.
        path: the other end: a file, or the URL of a copy's target; "" where there is none.
        size_bytes: as a listing told it; 0 where nobody did.
        version_id: where one was asked for.
    """

    verb: str
    url: S3Url
    path: str = ""
    size_bytes: int = 0
    version_id: str | None = None

    def __str__(self) -> str:
        """``get s3://bucket/key to file``."""
        ends = (self.path, str(self.url)) if self.verb == "put" else (str(self.url), self.path)
        version = f" version {self.version_id}" if self.version_id else ""
        return f"{self.verb} {' to '.join(filter(None, ends))}{version}"


@dataclass(frozen=True, slots=True)
class Task:
    """An item, and the work on it.

    `work` is given whom to tell of the bytes; it returns how they went, None where none passed
    through here. It raises SkippedError, the client's errors, OSError, ValueError.
    """

    item: Item
    work: Callable[[Progress], Awaitable[Transfer | None]]


@dataclass(frozen=True, slots=True)
class Row:
    """What became of an item; `reason` is why it was skipped or failed."""

    item: Item
    status: Status
    transfer: Transfer | None = None
    reason: str = ""

    @property
    def size_bytes(self) -> int:
        return self.transfer.bytes if self.transfer else self.item.size_bytes


def refused(item: Item, error: Exception) -> Task:
    """What was found impossible while it was planned; it fails in its turn, like any other."""

    async def work(_progress: Progress) -> None:
        raise error

    return Task(item, work)
