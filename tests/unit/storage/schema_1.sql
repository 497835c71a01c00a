-- The catalog of the first gateway, as it was made then.
CREATE TABLE buckets (
    name TEXT PRIMARY KEY,
    created_ns INTEGER NOT NULL,
    region TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE objects (  -- clustered by key, so that a page of a listing is one range
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,  -- UTF-8: BLOBs compare byte by byte, S3's order
    version_id TEXT NOT NULL,
    content TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    etag TEXT NOT NULL,
    modified_ns INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    checksums TEXT NOT NULL,
    checksum_type TEXT NOT NULL,
    PRIMARY KEY (bucket, key, version_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE uploads (  -- only those in progress: an upload ends by losing its row
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    upload_id TEXT NOT NULL,  -- also the content of its parts
    initiated_ns INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    checksum_algorithm TEXT,
    checksum_type TEXT,
    PRIMARY KEY (bucket, key, upload_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_by_age ON uploads (initiated_ns);

CREATE TABLE completions (  -- what Complete answered, for a client that asks again
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    upload_id TEXT NOT NULL,
    initiated_ns INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (bucket, key, upload_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX completions_by_age ON completions (initiated_ns);

CREATE TABLE pieces (
    content TEXT NOT NULL,
    number INTEGER NOT NULL,  -- 0 of a plain object, else the part's
    file TEXT NOT NULL UNIQUE,
    size_bytes INTEGER NOT NULL,
    etag TEXT NOT NULL,
    modified_ns INTEGER NOT NULL,
    checksums TEXT NOT NULL,
    PRIMARY KEY (content, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE heartbeat (  -- one row, for the readiness check
    id INTEGER PRIMARY KEY CHECK (id = 1),
    beaten_ns INTEGER NOT NULL
) STRICT;

PRAGMA application_id = 1395872324;
PRAGMA user_version = 1;
