"""The tables of the catalog, and what brings those of an older gateway up to date.

Terms: a *content* is the bytes of one object or one upload, cut into *pieces*, one data file each.
A plain object's content is one piece with number 0; an upload's content is its parts, and Complete
points the object at that content without moving or copying anything. No file belongs to two pieces.
The piece of a small object has no file: its bytes are in its row.

A key's versions are in two tables. `objects` has the one that the key alone names, unless that is
a delete marker; `history` has all others. So a listing of objects reads one range and skips
nothing, however many versions and markers lie behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gateway.storage.rules import FIRST_RANK

SCHEMA_VERSION = 3

_VERSION = """
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,  -- UTF-8: BLOBs compare byte by byte, S3's order
    rank TEXT NOT NULL,  -- what orders a key's versions, the newest first (rules.py)
    version_id TEXT NOT NULL,  -- opaque, or the word "null"
    content TEXT,  -- NULL of a delete marker
    size_bytes INTEGER NOT NULL,
    etag TEXT NOT NULL,
    modified_ns INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    checksums TEXT NOT NULL,
    checksum_type TEXT NOT NULL,
    owner TEXT NOT NULL,
"""

_BUCKETS = """
CREATE TABLE buckets (
    name TEXT PRIMARY KEY,
    created_ns INTEGER NOT NULL,
    region TEXT NOT NULL,
    owner TEXT NOT NULL,
    versioning TEXT NOT NULL,
    object_lock INTEGER NOT NULL,
    grants TEXT NOT NULL,
    settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_VERSIONS = f"""
CREATE TABLE objects (  -- what keys alone name, clustered: a page of a listing is one range
    {_VERSION}
    PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (  -- what no listing of objects meets: older versions, and delete markers
    {_VERSION}
    PRIMARY KEY (bucket, key, rank)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX history_by_id ON history (bucket, key, version_id);
"""

_UPLOADS = """
CREATE TABLE uploads (  -- only those in progress: an upload ends by losing its row
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    upload_id TEXT NOT NULL,  -- also the content of its parts
    initiated_ns INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    checksum_algorithm TEXT,
    checksum_type TEXT,
    owner TEXT NOT NULL,
    PRIMARY KEY (bucket, key, upload_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_by_age ON uploads (initiated_ns);
"""

_PIECES = """
CREATE TABLE pieces (
    content TEXT NOT NULL,
    number INTEGER NOT NULL,  -- 0 of a plain object, else the part's
    file TEXT,  -- NULL where the bytes are in `data`
    size_bytes INTEGER NOT NULL,
    etag TEXT NOT NULL,
    modified_ns INTEGER NOT NULL,
    checksums TEXT NOT NULL,
    summed INTEGER NOT NULL,  -- whether the bytes have their sums behind them (blocks.py)
    damage TEXT,  -- why fsck took it out of service; NULL while it is whole
    data BLOB,  -- last, so that nothing else lies behind its overflow pages
    PRIMARY KEY (content, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX pieces_by_file ON pieces (file) WHERE file IS NOT NULL;
"""

_REST = """
CREATE TABLE completions (  -- what Complete answered, for a client that asks again
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    upload_id TEXT NOT NULL,
    initiated_ns INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (bucket, key, upload_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX completions_by_age ON completions (initiated_ns);

CREATE TABLE heartbeat (  -- one row, for the readiness check
    id INTEGER PRIMARY KEY CHECK (id = 1),
    beaten_ns INTEGER NOT NULL
) STRICT;
"""

TABLES = _BUCKETS + _VERSIONS + _UPLOADS + _PIECES + _REST

# Schema 1 knew one version of each key, and no owners.
_FROM_1 = f"""
ALTER TABLE buckets RENAME TO buckets_1;
ALTER TABLE objects RENAME TO objects_1;
ALTER TABLE uploads RENAME TO uploads_1;
DROP INDEX uploads_by_age;
{_BUCKETS} {_VERSIONS} {_UPLOADS}
INSERT INTO buckets SELECT name, created_ns, region, '', 'OFF', 0, '[]', '{{}}' FROM buckets_1;
INSERT INTO objects SELECT
    bucket, key, '{FIRST_RANK}', version_id, content, size_bytes, etag, modified_ns,
    attributes, checksums, checksum_type, ''
FROM objects_1;
INSERT INTO uploads SELECT
    bucket, key, upload_id, initiated_ns, attributes, checksum_algorithm, checksum_type, ''
FROM uploads_1;
DROP TABLE buckets_1;
DROP TABLE objects_1;
DROP TABLE uploads_1;
"""  # noqa: S608 - statements of this file

# Schema 2 kept all bytes in files, without sums.
_FROM_2 = f"""
ALTER TABLE pieces RENAME TO pieces_2;
{_PIECES}
INSERT INTO pieces SELECT
    content, number, file, size_bytes, etag, modified_ns, checksums, 0, NULL, NULL
FROM pieces_2;
DROP TABLE pieces_2;
"""  # noqa: S608 - as above

MIGRATIONS: Mapping[int, str] = MappingProxyType({1: _FROM_1, 2: _FROM_2})
"""By the schema that is found: the statements that make the next one of it."""
