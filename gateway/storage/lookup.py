"""Reads of the catalog: each function is one question, on a connection of the calling thread.

Those that take several statements say so: run them inside a transaction for one snapshot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.storage import rules
from gateway.storage.listing import Position, page, version_page
from gateway.storage.port import (
    BucketInfo,
    ListPage,
    ListQuery,
    ObjectInfo,
    PartInfo,
    UploadInfo,
    UploadPage,
    Versioning,
    VersionPage,
    VersionQuery,
)
from gateway.storage.rows import (
    BUCKET_COLUMNS,
    PART_COLUMNS,
    PIECE_COLUMNS,
    UPLOAD_COLUMNS,
    VERSION_COLUMNS,
    Piece,
    Row,
    Version,
    decode_bucket,
    decode_part,
    decode_piece,
    decode_result,
    decode_upload,
    decode_version,
)

_BUCKET = f"SELECT {BUCKET_COLUMNS} FROM buckets"  # noqa: S608 - names of columns, from rows.py
_OBJECT = f"SELECT {VERSION_COLUMNS} FROM objects WHERE bucket = ? AND key = ?"  # noqa: S608 - as above
_HISTORY = f"SELECT {VERSION_COLUMNS} FROM history WHERE bucket = ? AND key = ?"  # noqa: S608 - as above
_PIECES = f"SELECT {PIECE_COLUMNS} FROM pieces WHERE content = ? ORDER BY number"  # noqa: S608 - as above
_PARTS = (
    f"SELECT {PART_COLUMNS} FROM pieces WHERE content = ? AND number > ? ORDER BY number LIMIT ?"  # noqa: S608 - as above
)
_UPLOAD = f"SELECT {UPLOAD_COLUMNS} FROM uploads WHERE bucket = ? AND key = ? AND upload_id = ?"  # noqa: S608 - as above
_OBJECTS_FROM = f"SELECT {VERSION_COLUMNS} FROM objects WHERE bucket = ? AND key >= ? ORDER BY key"  # noqa: S608 - as above
_VERSIONS_FROM = " UNION ALL ".join(
    f"SELECT {VERSION_COLUMNS} FROM {table} WHERE bucket = ?1 AND (key, rank) >= (?2, ?3)"  # noqa: S608 - as above
    for table in ("objects", "history")
)
_VERSIONS_FROM += " ORDER BY key, rank"
_UPLOADS_FROM = (
    f"SELECT {UPLOAD_COLUMNS} FROM uploads WHERE bucket = ? AND (key, upload_id) >= (?, ?) "  # noqa: S608 - as above
    "ORDER BY key, upload_id"
)

NO_LIMIT = -1
"""As a LIMIT, SQLite's word for none."""


@dataclass(frozen=True, slots=True)
class Located:
    """A version that has bytes, and where they are.

    Attributes:
        version: its info has its parts. A version that was replaced has another content.
        pieces: in order; their sizes add up to the object's.
    """

    version: Version
    pieces: tuple[Piece, ...]

    @property
    def info(self) -> ObjectInfo:
        return self.version.info

    @property
    def content(self) -> str:
        """The identity of the bytes."""
        return str(self.version.content)


def heartbeat(connection: sqlite3.Connection) -> int:
    """When the readiness check last wrote, in POSIX nanoseconds."""
    (beaten_ns,) = connection.execute("SELECT beaten_ns FROM heartbeat").fetchone()
    return int(beaten_ns)


def bucket_info(connection: sqlite3.Connection, bucket: str) -> BucketInfo:
    """Raises NoSuchBucket."""
    row = connection.execute(f"{_BUCKET} WHERE name = ?", (bucket,)).fetchone()
    if row is None:
        raise rules.no_such_bucket(bucket)
    return decode_bucket(row)


def versioning(connection: sqlite3.Connection, bucket: str) -> Versioning:
    """What a write has to know of its bucket. Raises NoSuchBucket."""
    row = connection.execute("SELECT versioning FROM buckets WHERE name = ?", (bucket,)).fetchone()
    if row is None:
        raise rules.no_such_bucket(bucket)
    return Versioning[row[0]]


def buckets(connection: sqlite3.Connection) -> tuple[BucketInfo, ...]:
    """All, by name."""
    return tuple(map(decode_bucket, connection.execute(f"{_BUCKET} ORDER BY name")))


def visible(connection: sqlite3.Connection, bucket: str, key: str) -> Version | None:
    """What the key alone names, None where that is nothing or a delete marker."""
    row = connection.execute(_OBJECT, (bucket, key.encode())).fetchone()
    return decode_version(bucket, row, latest=True) if row else None


def newest_hidden(connection: sqlite3.Connection, bucket: str, key: str) -> Version | None:
    """The newest of a key's older versions and markers; the latest of all if nothing is visible."""
    row = connection.execute(f"{_HISTORY} ORDER BY rank LIMIT 1", (bucket, key.encode())).fetchone()
    return decode_version(bucket, row, latest=True) if row else None


def latest(connection: sqlite3.Connection, bucket: str, key: str) -> Version | None:
    """What the key alone names, be it a delete marker; None where it has no versions."""
    return visible(connection, bucket, key) or newest_hidden(connection, bucket, key)


def version(
    connection: sqlite3.Connection, bucket: str, key: str, version_id: str
) -> Version | None:
    """The version of that id, None where there is none.

    Inside a transaction: it may go from one table to the other.
    """
    place = (bucket, key.encode(), version_id)
    row = connection.execute(f"{_OBJECT} AND version_id = ?", place).fetchone()
    if row:
        return decode_version(bucket, row, latest=True)
    row = connection.execute(f"{_HISTORY} AND version_id = ?", place).fetchone()
    return decode_version(bucket, row, latest=False) if row else None


def readable(
    connection: sqlite3.Connection, bucket: str, key: str, version_id: str | None
) -> Version:
    """The version named, or the latest, if it has bytes. Inside a transaction.

    Raises NoSuchBucket, NoSuchKey, NoSuchVersion, MethodNotAllowed as the port says.
    """
    if version_id is None:
        found = visible(connection, bucket, key)
    else:
        found = version(connection, bucket, key, version_id)
    if found is None:
        bucket_info(connection, bucket)
        if version_id is not None:
            raise rules.no_such_version(key, version_id)
        marker = newest_hidden(connection, bucket, key)
        raise rules.hidden_by_marker(marker.info) if marker else rules.no_such_key(key)
    if found.info.delete_marker:
        raise rules.marker_has_no_bytes(found.info)
    return found


def locate(
    connection: sqlite3.Connection, bucket: str, key: str, version_id: str | None
) -> Located:
    """Inside a transaction. Raises as `readable`."""
    found = readable(connection, bucket, key, version_id)
    pieces = content_pieces(connection, str(found.content))
    numbered = tuple(piece.part for piece in pieces if piece.part.number > 0)
    return Located(replace(found, info=replace(found.info, parts=numbered)), pieces)


def full_object(
    connection: sqlite3.Connection, bucket: str, key: str, version_id: str | None
) -> ObjectInfo | None:
    """The version of that id, without its parts; None where there is none, or none was named."""
    if version_id is None:
        return None
    found = version(connection, bucket, key, version_id)
    return found.info if found else None


def content_pieces(connection: sqlite3.Connection, content: str) -> tuple[Piece, ...]:
    """In order of their numbers."""
    return tuple(map(decode_piece, connection.execute(_PIECES, (content,))))


def content_is_gone(connection: sqlite3.Connection, content: str) -> bool:
    """Whether no piece belongs to it any more."""
    one = "SELECT 1 FROM pieces WHERE content = ? LIMIT 1"
    return connection.execute(one, (content,)).fetchone() is None


def parts(
    connection: sqlite3.Connection, upload_id: str, after_number: int = -1, limit: int = NO_LIMIT
) -> tuple[PartInfo, ...]:
    """What an upload has, in order of the numbers."""
    return tuple(map(decode_part, connection.execute(_PARTS, (upload_id, after_number, limit))))


def list_objects(connection: sqlite3.Connection, query: ListQuery) -> ListPage:
    """Inside a transaction, so that the page is one snapshot."""
    bucket_info(connection, query.bucket)

    def seek(start: Position) -> Iterator[tuple[Position, Row]]:
        for row in connection.execute(_OBJECTS_FROM, (query.bucket, start[0])):
            yield (row[0], ""), row

    found = page(seek, query)
    return ListPage(
        objects=tuple(decode_version(query.bucket, row, latest=True).info for row in found.rows),
        prefixes=tuple(found.prefixes),
        next_after=found.next_key,
    )


def list_versions(connection: sqlite3.Connection, query: VersionQuery) -> VersionPage:
    """Inside a transaction."""
    bucket_info(connection, query.bucket)

    def seek(start: Position) -> Iterator[tuple[Position, ObjectInfo]]:
        for row in connection.execute(_VERSIONS_FROM, (query.bucket, *start)):
            yield (row[0], row[1]), decode_version(query.bucket, row, latest=True).info

    marker = version(connection, query.bucket, query.after_key, query.after_version)
    return version_page(seek, query, marker.rank if marker else "")


def list_uploads(
    connection: sqlite3.Connection, query: ListQuery, after_upload_id: str
) -> UploadPage:
    """Inside a transaction. `query.after` is the key marker."""
    bucket_info(connection, query.bucket)

    def seek(start: Position) -> Iterator[tuple[Position, Row]]:
        for row in connection.execute(_UPLOADS_FROM, (query.bucket, *start)):
            yield (row[0], row[1]), row

    found = page(seek, query, after_upload_id or None)
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
    found = parts(connection, upload_id, after_number, limit + 1)
    return found[:limit], limit > 0 and len(found) > limit


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
    """Raises BucketNotEmpty while an object, an old version or a delete marker remains."""
    for table in ("objects", "history"):
        one = f"SELECT 1 FROM {table} WHERE bucket = ? LIMIT 1"  # noqa: S608 - as above
        if connection.execute(one, (bucket,)).fetchone():
            raise rules.bucket_not_empty(bucket)


def known_files(connection: sqlite3.Connection, names: list[str]) -> set[str]:
    """Which of these data files a piece refers to."""
    marks = ",".join("?" * len(names))
    rows = connection.execute(f"SELECT file FROM pieces WHERE file IN ({marks})", names)  # noqa: S608 - question marks only
    return {file for (file,) in rows}
