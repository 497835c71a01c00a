"""A store checked, byte by byte: every digest, every file, every row; and repaired where it can be.

Without `repair` nothing is changed and gateways may go on meanwhile: what looks wrong is looked up
again, in case it was replaced in between, and files without a row are not judged, since a gateway
may be about to publish them. With it, fsck has the store alone. It never removes bytes that a row
names: a damaged object is quarantined, so that a read says what happened to it, and a file that no
row names goes to ``lost+found``.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage import lookup
from gateway.storage.examine import Running, examine, total_bytes
from gateway.storage.faults import in_database
from gateway.storage.files import DataFiles
from gateway.storage.findings import Finding, Kind, Report, State
from gateway.storage.lock import StoreLock
from gateway.storage.repair import Repair
from gateway.storage.rows import Piece
from gateway.storage.schema import connect
from gateway.storage.sweep import orphans
from gateway.storage.tables import SCHEMA_VERSION
from gateway.wire.checksums import ChecksumType

Progress = Callable[[Report], None]

_PAGE = 1000
"""Rows at a time: a statement that stays open would see a store of long ago."""
_OWNERS = (
    "SELECT bucket, key, rank, version_id, content FROM objects "
    "WHERE (bucket, key, rank) > (?, ?, ?) ORDER BY bucket, key, rank LIMIT ?",
    "SELECT bucket, key, rank, version_id, content FROM history "
    "WHERE (bucket, key, rank) > (?, ?, ?) ORDER BY bucket, key, rank LIMIT ?",
    "SELECT bucket, key, upload_id, NULL, upload_id FROM uploads "
    "WHERE (bucket, key, upload_id) > (?, ?, ?) ORDER BY bucket, key, upload_id LIMIT ?",
)
_DANGLING = (
    "SELECT DISTINCT content FROM pieces WHERE content NOT IN ("
    "SELECT content FROM objects UNION ALL "
    "SELECT content FROM history WHERE content IS NOT NULL UNION ALL SELECT upload_id FROM uploads)"
)
_HOMELESS = (
    "SELECT bucket, key, upload_id FROM uploads WHERE bucket NOT IN (SELECT name FROM buckets)"
)


def check(
    root: Path, *, repair: bool = False, progress: Progress = lambda _: None, wait_s: float = 30.0
) -> Report:
    """Check everything below a store's root. Blocks.

    Args:
        root: of the store.
        repair: change what can be repaired; needs the store alone.
        progress: called after each object.
        wait_s: for a gateway that is starting.

    Raises:
        InternalError: there is no store, it is in use, or its catalog can't be read at all.
    """
    path = root / "catalog.db"
    if not path.exists():
        raise InternalError(f"there is no store in {root}: {path.name} is not there")
    with (
        _locked(root, repair=repair, wait_s=wait_s) as lock,
        in_database(path),
        closing(connect(path, Durability.FULL, read_only=not repair)) as db,
    ):
        _require_schema(db, path)
        files = DataFiles(root, Durability.FULL)
        found = _Check(db, files, Repair(db, files, root) if repair else None, progress)
        found.catalog()
        if lock.alone:
            found.files()
        if not repair:
            lock.share()  # the rest takes long
        found.contents()
        found.rows()
        return found.report


@contextmanager
def _locked(root: Path, *, repair: bool, wait_s: float) -> Iterator[StoreLock]:
    """A repair has the store alone; else it is had alone where nobody else has it."""
    lock = StoreLock(root / "lock")
    try:
        if not repair:
            lock.acquire(time.time_ns(), wait_s)
        elif not lock.acquire_alone(time.time_ns()):
            raise InternalError(f"{root} is in use: stop its gateways before it is repaired")
        yield lock
    finally:
        lock.release()


def _require_schema(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        raise InternalError(
            f"{path} has schema {version}, this program knows {SCHEMA_VERSION}: "
            "start a gateway of this version once, then check again"
        )


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose bytes a content is: an object's version, or an upload's parts."""

    bucket: str
    key: str
    version_id: str | None
    content: str

    def __str__(self) -> str:
        named = self.version_id not in (None, "null")
        return f"{self.bucket}/{self.key}" + (f" (version {self.version_id})" if named else "")


class _Check:
    """One pass over a store.

    Args:
        repair: what changes it; None to leave it as it is.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        files: DataFiles,
        repair: Repair | None,
        progress: Progress,
    ) -> None:
        self._db = db
        self._files = files
        self._repair = repair
        self._progress = progress
        self.report = Report()

    def catalog(self) -> None:
        """Ask SQLite whether its own structure is whole; indexes can be made anew."""
        problems = self._integrity()
        if problems and self._repair is not None:
            self._repair.reindex()
            left = self._integrity()
            for problem in problems:
                state = State.FOUND if problem in left else State.REPAIRED
                self._found(Kind.CATALOG, "catalog.db", problem, state)
            return
        for problem in problems:
            self._found(Kind.CATALOG, "catalog.db", problem)

    def contents(self) -> None:
        """Read every byte that a row names."""
        for statement in _OWNERS:
            for owner in self._owners(statement):
                self._content(owner)
                self.report.objects += 1
                self._progress(self.report)

    def rows(self) -> None:
        """Rows whose owner is gone."""
        for (content,) in self._db.execute(_DANGLING).fetchall():
            if self._repair is not None:
                self._repair.set_aside(content)
            self._found(Kind.DANGLING, f"content {content}", "nothing refers to it", self._done())
        for bucket, key, upload_id in self._db.execute(_HOMELESS).fetchall():
            if self._repair is not None:
                self._repair.end_upload(bucket, key, upload_id)
            subject = f"upload {upload_id} of {bucket}/{key.decode()}"
            self._found(Kind.DANGLING, subject, "its bucket is gone", self._done())

    def files(self) -> None:
        """Files whose row is gone, or never was. Nobody else may be using the store."""
        for name in self._files.staged():
            if self._repair is not None:
                self._files.remove((name,))
            self._found(Kind.LEFTOVER, f"staging/{name}", "a gateway left it", self._done())
        for names in orphans(self._db, self._files):
            for name in sorted(names):
                self._orphan(name)

    def _orphan(self, name: str) -> None:
        if self._repair is not None:
            self._repair.to_lost_and_found(name)
        subject = str(self._files.path(name))
        self._found(Kind.ORPHAN, subject, "nothing refers to it", self._done())

    def _owners(self, statement: str) -> Iterator[_Owner]:
        place: tuple[object, ...] = ("", b"", "")
        while page := self._db.execute(statement, (*place, _PAGE)).fetchall():
            for bucket, key, _, version_id, content in page:
                if content is not None:  # else it is a delete marker
                    yield _Owner(bucket, key.decode(), version_id, content)
            place = page[-1][:3]

    def _integrity(self) -> list[str]:
        rows = self._db.execute("PRAGMA integrity_check").fetchall()
        return [line for (text,) in rows if text != "ok" for line in text.splitlines()]

    def _content(self, owner: _Owner) -> None:
        pieces = lookup.content_pieces(self._db, owner.content)
        expected = lookup.full_object(self._db, owner.bucket, owner.key, owner.version_id)
        whole = Running(
            expected.checksums
            if expected is not None and expected.checksum_type is ChecksumType.FULL_OBJECT
            else {}
        )
        sound = [self._piece(owner, piece, whole) for piece in pieces]
        if expected is None:
            return
        if total_bytes(pieces) != expected.size_bytes or not pieces:
            detail = f"{total_bytes(pieces)} bytes in {len(pieces)} pieces"
            self._found(Kind.LENGTH, str(owner), f"{detail}, not {expected.size_bytes}")
        elif all(sound) and (wrong := whole.mismatch()):
            self._damaged(owner, pieces[0], Kind.DAMAGED, wrong)

    def _piece(self, owner: _Owner, piece: Piece, whole: Running) -> bool:
        """Read one; whether it is sound."""
        try:
            damage = examine(self._files, piece, whole)
        except OSError as error:
            self._found(Kind.DISK, str(owner), f"{piece.file}: {error.strerror or error}")
            return False
        self.report.read_bytes += piece.part.size_bytes
        if damage is None:
            if self._repair is not None:
                self._mend(self._repair, owner, piece)
            return True
        if piece.part.number:
            detail = f"part {piece.part.number}: {damage.detail}"
        else:
            detail = damage.detail
        kind = Kind.MISSING if damage.missing else Kind.DAMAGED
        if piece.file is not None:
            detail += f" ({self._files.path(piece.file)})"
        self._damaged(owner, piece, kind, detail)
        return False

    def _damaged(self, owner: _Owner, piece: Piece, kind: Kind, detail: str) -> None:
        if self._repair is not None:
            self._repair.quarantine(owner.content, piece.part.number, detail)
            self._found(kind, str(owner), detail, State.QUARANTINED)
        elif any(_same(piece, now) for now in lookup.content_pieces(self._db, owner.content)):
            self._found(kind, str(owner), detail)  # else it was replaced meanwhile

    def _mend(self, repair: Repair, owner: _Owner, piece: Piece) -> None:
        """A sound piece: back into service if it was restored, with sums if it has none."""
        if piece.damage is not None:
            repair.release(owner.content, piece.part.number)
            self._found(Kind.DAMAGED, str(owner), "it is whole again", State.REPAIRED)
        if not piece.summed:
            repair.add_sums(owner.content, piece)
            self.report.sums_added += 1

    def _done(self) -> State:
        return State.FOUND if self._repair is None else State.REPAIRED

    def _found(self, kind: Kind, subject: str, detail: str, state: State = State.FOUND) -> None:
        self.report.findings.append(Finding(kind, subject, detail, state))


def _same(piece: Piece, other: Piece) -> bool:
    return (piece.part.number, piece.file) == (other.part.number, other.file)
