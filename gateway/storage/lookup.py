"""Reads of the catalog: each function is one question, on a connection of the calling thread.

Those that take several statements say so: run them inside a transaction for one snapshot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.storage import rules
from gateway.storage.listing import Position, page
from gateway.storage.port import (
    NULL_VERSION,
    BucketInfo,
    ListPage,
    ListQuery,
    ObjectInfo,
    PartInfo,
    UploadInfo,
    UploadPage,
)
from gateway.storage.rows import (
    OBJECT_COLUMNS,
    PIECE_COLUMNS,
    UPLOAD_COLUMNS,
    Piece,
    Row,
    decode_bucket,
    decode_object,
    decode_piece,
    decode_result,
    decode_upload,
)

_OBJECT = f"SELECT {OBJECT_COLUMNS} FROM objects WHERE bucket = ? AND key = ? AND version_id = ?"  # noqa: S608 - names of columns, from rows.py
_PIECES = f"SELECT {PIECE_COLUMNS} FROM pieces WHERE content = ? AND number > ? ORDER BY number"  # noqa: S608 - as above
_UPLOAD = f"SELECT {UPLOAD_COLUMNS} FROM uploads WHERE bucket = ? AND key = ? AND upload_id = ?"  # noqa: S608 - as above
_OBJECTS_FROM = f"SELECT {OBJECT_COLUMNS} FROM objects WHERE bucket = ? AND key >= ? ORDER BY key"  # noqa: S608 - as above
_UPLOADS_FROM = (
    f"SELECT {UPLOAD_COLUMNS} FROM uploads WHERE bucket = ? AND (key, upload_id) >= (?, ?) "  # noqa: S608 - as above
    "ORDER BY key, upload_id"
)


@dataclass(frozen=True, slots=True)
class Located:
    """An object and where its bytes are.

    Attributes:
        content: its identity: an object that was replaced has another one.
        pieces: in order; their sizes add up to the object's.
    """

    info: ObjectInfo
    content: str
    pieces: tuple[Piece, ...]


def heartbeat(connection: sqlite3.Connection) -> int:
    """When the readiness check last wrote, in POSIX nanoseconds."""
    (beaten_ns,) = connection.execute("SELECT beaten_ns FROM heartbeat").fetchone()
    return int(beaten_ns)


def bucket_info(connection: sqlite3.Connection, bucket: str) -> BucketInfo:
    """Raises NoSuchBucket."""
    row = connection.execute(
        "SELECT name, created_ns, region FROM buckets WHERE name = ?", (bucket,)
    ).fetchone()
    if row is None:
        raise rules.no_such_bucket(bucket)
    return decode_bucket(row)


def buckets(connection: sqlite3.Connection) -> tuple[BucketInfo, ...]:
    """All, by name."""
    rows = connection.execute("SELECT name, created_ns, region FROM buckets ORDER BY name")
    return tuple(decode_bucket(row) for row in rows)


def locate(
    connection: sqlite3.Connection, bucket: str, key: str, version_id: str | None
) -> Located:
    """Raises NoSuchBucket, NoSuchKey, NoSuchVersion."""
    row = connection.execute(_OBJECT, (bucket, key.encode(), NULL_VERSION)).fetchone()
    if row is None or not rules.is_current(version_id):
        bucket_info(connection, bucket)
        rules.require_current(key, version_id)
        raise rules.no_such_key(key)
    content = row[-1]
    pieces = content_pieces(connection, content)
    parts = tuple(piece.part for piece in pieces if piece.part.number > 0)
    return Located(decode_object(bucket, row, parts), content, pieces)


def content_pieces(
    connection: sqlite3.Connection, content: str, after_number: int = -1
) -> tuple[Piece, ...]:
    """In order of their numbers."""
    return tuple(map(decode_piece, connection.execute(_PIECES, (content, after_number))))


def list_objects(connection: sqlite3.Connection, query: ListQuery) -> ListPage:
    """Inside a transaction, so that the page is one snapshot."""
    bucket_info(connection, query.bucket)

    def seek(start: Position) -> Iterator[tuple[Position, Row]]:
        for row in connection.execute(_OBJECTS_FROM, (query.bucket, start[0])):
            yield (row[0], ""), row

    found = page(seek, query)
    return ListPage(
        objects=tuple(decode_object(query.bucket, row) for row in found.rows),
        prefixes=tuple(found.prefixes),
        next_after=found.next_key,
    )


def list_uploads(
    connection: sqlite3.Connection, query: ListQuery, after_upload_id: str
) -> UploadPage:
    """Inside a transaction. `query.after` is the key marker."""
    bucket_info(connection, query.bucket)

    def seek(start: Position) -> Iterator[tuple[Position, Row]]:
        for row in connection.execute(_UPLOADS_FROM, (query.bucket, *start)):
            yield (row[0], row[1]), row

    found = page(seek, query, after_upload_id)
    return UploadPage(
        uploads=tuple(decode_upload(query.bucket, row) for row in found.rows),
        prefixes=tuple(found.prefixes),
        next_key=found.next_key,
        next_upload_id=found.next_id,
    )


def upload_info(
    connection: sqlite3.Connection, bucket: str, key: str, upload_id: str
) -> UploadInfo:
    """Raises NoSuchBucket, NoSuchUpload."""
    row = connection.execute(_UPLOAD, (bucket, key.encode(), upload_id)).fetchone()
    if row is None:
        bucket_info(connection, bucket)
        raise rules.no_such_upload(upload_id)
    return decode_upload(bucket, row)


def list_parts(
    connection: sqlite3.Connection,
    bucket: str,
    key: str,
    upload_id: str,
    after_number: int,
    limit: int,
) -> tuple[tuple[PartInfo, ...], bool]:
    """Inside a transaction."""
    upload_info(connection, bucket, key, upload_id)
    rows = connection.execute(f"{_PIECES} LIMIT ?", (upload_id, after_number, limit + 1))
    parts = tuple(decode_piece(row).part for row in rows)
    return parts[:limit], limit > 0 and len(parts) > limit


def completion(
    connection: sqlite3.Connection, bucket: str, key: str, upload_id: str
) -> ObjectInfo | None:
    """What Complete answered, while that is remembered."""
    row = connection.execute(
        "SELECT result FROM completions WHERE bucket = ? AND key = ? AND upload_id = ?",
        (bucket, key.encode(), upload_id),
    ).fetchone()
    return decode_result(bucket, key, row[0]) if row else None


def require_empty(connection: sqlite3.Connection, bucket: str) -> None:
    """Raises BucketNotEmpty while an object remains."""
    row = connection.execute("SELECT 1 FROM objects WHERE bucket = ? LIMIT 1", (bucket,)).fetchone()
    if row is not None:
        raise rules.bucket_not_empty(bucket)


def known_files(connection: sqlite3.Connection, names: list[str]) -> set[str]:
    """Which of these data files a piece refers to."""
    marks = ",".join("?" * len(names))
    rows = connection.execute(f"SELECT file FROM pieces WHERE file IN ({marks})", names)  # noqa: S608 - question marks only
    return {file for (file,) in rows}
