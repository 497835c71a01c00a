-- A catalog of schema 2 with what a gateway of that time put into it.
BEGIN TRANSACTION;
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
INSERT INTO "buckets" VALUES('bucket',1700000000001000000,'us-east-1','somebody','ENABLED',0,'[]','{}');
CREATE TABLE completions (  -- what Complete answered, for a client that asks again
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    upload_id TEXT NOT NULL,
    initiated_ns INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (bucket, key, upload_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "completions" VALUES('bucket',X'77686F6C65','17979cfe36c296800000000000000005',1700000000010000000,'{"size_bytes": 6, "etag": "composed-2", "modified_ns": 1700000000015000000, "attributes": "", "checksums": "", "checksum_type": "FULL_OBJECT", "version_id": "uMWuwhBj7jJKUf27M4RHQnTapY25085Q", "owner": "", "parts": [[1, 3, "f97c5d29941bfb1b2fdab0874906ab82", 1700000000012000000, ""], [2, 3, "b8a9f715dbb64fd5c56e7783c6820a61", 1700000000014000000, ""]]}');
CREATE TABLE heartbeat (  -- one row, for the readiness check
    id INTEGER PRIMARY KEY CHECK (id = 1),
    beaten_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE history (  -- what no listing of objects meets: older versions, and delete markers
    
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

    PRIMARY KEY (bucket, key, rank)
) STRICT, WITHOUT ROWID;
INSERT INTO "history" VALUES('bucket',X'68696464656E','fffffffffffffffe','81xUEzM_rr9LGohqVyNOUunArqnm7wnx',NULL,0,'',1700000000008000000,'','','FULL_OBJECT','');
INSERT INTO "history" VALUES('bucket',X'68696464656E','ffffffffffffffff','-usia23cXfzijLfIhvtAOp8W7dcuTIc0','17979cfe36858d800000000000000004',6,'9da3be8f92c0bbfd7a7d6d6ec0b3fad3',1700000000007000000,'','','FULL_OBJECT','');
INSERT INTO "history" VALUES('bucket',X'6B6579','ffffffffffffffff','PfIbXAwOFQTMumvFj-667Wd4v48OA61-','17979cfe364884800000000000000002',5,'8b04d5e3775d298e78455efc5ca404d5',1700000000003000000,'','','FULL_OBJECT','');
CREATE TABLE objects (  -- what keys alone name, clustered: a page of a listing is one range
    
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

    PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "objects" VALUES('bucket',X'6B6579','fffffffffffffffe','tZXK38URKgJXVrOaKiFfgtas7QJ2Ye4m','17979cfe366709000000000000000003',6,'a9f0e61a137d86aa9db53465e0801612',1700000000005000000,'{"headers": {"content-type": "text/plain"}, "metadata": {"a": "b"}, "tags": [["k", "v"]], "storage_class": "STANDARD", "grants": [], "retention": null, "legal_hold": false}','','FULL_OBJECT','');
INSERT INTO "objects" VALUES('bucket',X'77686F6C65','ffffffffffffffff','uMWuwhBj7jJKUf27M4RHQnTapY25085Q','17979cfe36c296800000000000000005',6,'composed-2',1700000000015000000,'','','FULL_OBJECT','');
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
INSERT INTO "pieces" VALUES('17979cfe364884800000000000000002',0,'17979cfe364884800000000000000002',5,'8b04d5e3775d298e78455efc5ca404d5',1700000000003000000,'');
INSERT INTO "pieces" VALUES('17979cfe366709000000000000000003',0,'17979cfe366709000000000000000003',6,'a9f0e61a137d86aa9db53465e0801612',1700000000005000000,'');
INSERT INTO "pieces" VALUES('17979cfe36858d800000000000000004',0,'17979cfe36858d800000000000000004',6,'9da3be8f92c0bbfd7a7d6d6ec0b3fad3',1700000000007000000,'');
INSERT INTO "pieces" VALUES('17979cfe36c296800000000000000005',1,'17979cfe36d1d8c00000000000000006',3,'f97c5d29941bfb1b2fdab0874906ab82',1700000000012000000,'');
INSERT INTO "pieces" VALUES('17979cfe36c296800000000000000005',2,'17979cfe36f05d400000000000000007',3,'b8a9f715dbb64fd5c56e7783c6820a61',1700000000014000000,'');
INSERT INTO "pieces" VALUES('17979cfe372d66400000000000000008',1,'17979cfe373ca8800000000000000009',4,'f4c9385f1902f7334b00b9b4ecd164de',1700000000019000000,'');
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
INSERT INTO "uploads" VALUES('bucket',X'6F70656E','17979cfe372d66400000000000000008',1700000000017000000,'',NULL,NULL,'');
CREATE UNIQUE INDEX history_by_id ON history (bucket, key, version_id);
CREATE INDEX uploads_by_age ON uploads (initiated_ns);
CREATE INDEX completions_by_age ON completions (initiated_ns);
COMMIT;
