"""What fsck may find wrong with a store, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """What is wrong."""

    CATALOG = "the catalog is damaged"
    MISSING = "bytes are missing"
    DAMAGED = "bytes are damaged"
    LENGTH = "the pieces do not make the object"
    DANGLING = "rows belong to nothing"
    ORPHAN = "a file that no row names"
    LEFTOVER = "a file that was never whole"
    DISK = "the disk fails"


class State(Enum):
    """What became of it.

    QUARANTINED: it stays where it is and reads of it say so; nothing but a backup brings it back.
    """

    FOUND = "found"
    REPAIRED = "repaired"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        subject: an object (``bucket/key``, with its version where it has one), or a path.
        detail: one line.
    """

    kind: Kind
    subject: str
    detail: str
    state: State = State.FOUND


@dataclass(slots=True)
class Report:
    """What was looked at, and what was found.

    Attributes:
        objects: versions, and uploads in progress.
        sums_added: files of an older gateway that got sums behind their bytes.
    """

    objects: int = 0
    read_bytes: int = 0
    sums_added: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: nothing is wrong; 1: it was, and is repaired; 2: something still is."""
        if any(finding.state is not State.REPAIRED for finding in self.findings):
            return 2
        return 1 if self.findings else 0

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        for finding in self.findings:
            where = f"{finding.state.value}: {finding.subject}"
            yield f"{where}: {finding.kind.value}: {finding.detail}"
        added = f", sums added to {self.sums_added} files" if self.sums_added else ""
        yield (
            f"{self.objects} objects and uploads, {self.read_bytes} bytes read{added}: "
            f"{len(self.findings) or 'no'} finding{'s' * (len(self.findings) != 1)}"
        )
