"""A download that can be continued: what has arrived stays in a hidden file until all of it has.

Beside the bytes lies a journal: which object they are of, and each part that is there with its
CRC-64/NVME. A part counts as there only while the file's bytes still have that checksum, so neither
a crash in the middle of a write nor somebody else's hand in the file can get into the result.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from gateway.client import checksum as crc
from gateway.client.files import name_it, regular_target
from gateway.client.models import ObjectHead
from gateway.rdma.aio import to_the_end
from gateway.wire.extent import Extent

_READ_BYTES = 1024 * 1024


class Ledger:
    """The journal of one partial file.

    Args:
        fd: the partial file, open for reading and writing.
        path: the journal's.
        identity: what the bytes are of; a journal of something else is begun again.
    """

    def __init__(self, fd: int, path: Path, identity: str) -> None:
        self._fd = fd
        self._noted = _read_journal(path, identity)
        self.fresh = not self._noted
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._journal = os.open(path, flags | (os.O_TRUNC if self.fresh else 0), 0o600)
        if self.fresh:
            self._append([identity])

    async def known(self, piece: Extent) -> int | None:
        """The checksum of a part that is there and sound; None where it must be fetched."""
        noted = self._noted.get((piece.offset_bytes, piece.length_bytes))
        if noted is None:
            return None
        found = await to_the_end(asyncio.to_thread(_sum, self._fd, piece))
        return noted if found == noted else None

    def note(self, piece: Extent, checksum: int) -> None:
        """The part has been written."""
        self._append([piece.offset_bytes, piece.length_bytes, checksum])

    def close(self) -> None:
        os.close(self._journal)

    def _append(self, row: list[object]) -> None:
        """A line in one write: one that a crash cut short is no row, and is not read."""
        os.write(self._journal, json.dumps(row).encode() + b"\n")


@asynccontextmanager
async def continued(path: Path, head: ObjectHead) -> AsyncIterator[tuple[int, Ledger]]:
    """Lend the fd and the ledger of a partial file; it gets its name when the context ends well.

    After a failure it stays, for the next one that fetches the same object to the same place.

    Raises:
        OSError: it can't be written there.
        ValueError: something other than a regular file has that name, or another process is
            fetching it.
    """
    target = regular_target(path)
    stem = f".s3rdma-{sha256(os.fsencode(target.name)).hexdigest()[:16]}"
    hidden, journal = target.with_name(f"{stem}.part"), target.with_name(f"{stem}.journal")
    fd = _locked(hidden, path)
    try:
        # Without an ETag nobody could say that it is the same object.
        etag = head.etag or secrets.token_hex(8)
        ledger = Ledger(fd, journal, f"{head.size_bytes} {etag} {head.version_id}")
        try:
            if ledger.fresh:
                os.truncate(fd, 0)
            os.truncate(fd, head.size_bytes)
            yield fd, ledger
            await name_it(fd, hidden, target, head)
            journal.unlink(missing_ok=True)
        finally:
            ledger.close()
    finally:
        os.close(fd)


def _locked(hidden: Path, path: Path) -> int:
    """The partial file, for this process alone (flock(2): its end unlocks it, however it ends)."""
    while True:
        fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise ValueError(f"another process is fetching {path}") from error
        # Whoever held it may have renamed it between the two calls: then this is the whole file.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), hidden.stat()):
                return fd
        os.close(fd)


def _read_journal(path: Path, identity: str) -> dict[tuple[int, int], int]:
    """(offset, length) of each part to its checksum; nothing where it is another object's."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    rows = [_row(line) for line in lines]
    if not rows or rows[0] != [identity]:
        return {}
    return {(row[0], row[1]): row[2] for row in rows[1:] if len(row) == 3}


def _row(line: str) -> list[Any]:
    """A line of the journal; one that is none, as a crash may leave it, is an empty row."""
    try:
        row = json.loads(line)
    except ValueError:
        return []
    return row if isinstance(row, list) else []


def _sum(fd: int, piece: Extent) -> int | None:
    """The checksum of a run of the file; None where it ends before."""
    total, position = 0, piece.offset_bytes
    while position < piece.end_bytes:
        data = os.pread(fd, min(_READ_BYTES, piece.end_bytes - position), position)
        if not data:
            return None
        total = crc.continued(total, data)
        position += len(data)
    return total
