"""A catalog of schema 1, made by the statements that made it then, is opened by this gateway."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storing import complete, get, put, raises

from gateway.config import Durability
from gateway.errors import InternalError, S3Code
from gateway.storage import tables
from gateway.storage.port import ListQuery, ObjectAttributes, Versioning, VersionQuery
from gateway.storage.schema import open_catalog
from gateway.storage.store import Store
from gateway.wire.checksums import Algorithm, ChecksumType

NOW_NS = 1_700_000_000_000_000_000
SCHEMA_1 = (Path(__file__).parent / "schema_1.sql").read_text()
ATTRIBUTES_1 = json.dumps(
    {
        "headers": {"content-type": "text/plain"},
        "metadata": {"a": "b"},
        "tags": [["k", "v"]],
        "storage_class": "GLACIER",
    }
)
ATTRIBUTES = ObjectAttributes({"content-type": "text/plain"}, {"a": "b"}, (("k", "v"),), "GLACIER")
FILES = {name * 32: body for name, body in (("a", b"plain"), ("b", b"one"), ("c", b"two"))}
OPEN, DONE = "d" * 32, "e" * 32


@pytest.fixture
def old(root: Path) -> Path:
    """A store as the first gateway left it: two objects, an upload in progress, one completed."""
    root.mkdir()
    for name, body in FILES.items():
        directory = root / "objects" / name[-2:]
        directory.mkdir(parents=True)
        (directory / name).write_bytes(body)
    db = sqlite3.connect(root / "catalog.db")
    db.executescript(SCHEMA_1)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("INSERT INTO buckets VALUES ('bucket', ?, 'eu-west-1')", (NOW_NS,))
    objects = (
        ("bucket", b"plain", "null", "a" * 32, 5, _md5(b"plain"), NOW_NS, ATTRIBUTES_1, "", ""),
        ("bucket", b"\xf0\x9f\x98\x80", "null", DONE, 3, "x-1", NOW_NS, "", "CRC32=AAAAAA==", ""),
    )
    kind = ("FULL_OBJECT", "COMPOSITE")
    rows = [(*row[:9], name) for row, name in zip(objects, kind, strict=True)]
    db.executemany("INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    uploads = ("bucket", b"open", OPEN, NOW_NS, ATTRIBUTES_1, "SHA256", "COMPOSITE")
    db.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?, ?)", uploads)
    for content, number, file in ((*("a" * 32, 0), "a"), (OPEN, 1, "b"), (DONE, 1, "c")):
        body = FILES[file * 32]
        piece = (content, number, file * 32, len(body), _md5(body), NOW_NS, "")
        db.execute("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?)", piece)
    result = {
        "size_bytes": 3,
        "etag": "x-1",
        "modified_ns": NOW_NS,
        "attributes": "",
        "checksums": "CRC32=AAAAAA==",
        "checksum_type": "COMPOSITE",
        "version_id": "null",
        "parts": [[1, 3, _md5(b"two"), NOW_NS, ""]],
    }
    completion = ("bucket", "\U0001f600".encode(), DONE, NOW_NS, json.dumps(result))
    db.execute("INSERT INTO completions VALUES (?, ?, ?, ?, ?)", completion)
    db.commit()
    db.close()
    return root


def _md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


async def test_start__schema_1__everything_is_there(
    old: Path, make_store: Callable[..., Store], data_files: Callable[[], list[Path]]
) -> None:
    store = make_store()
    await store.start()
    assert len(data_files()) == 3
    bucket = await store.head_bucket("bucket")
    assert (bucket.name, bucket.created_ns, bucket.region) == ("bucket", NOW_NS, "eu-west-1")
    assert (bucket.owner, bucket.versioning) == ("", Versioning.OFF)
    assert (bucket.object_lock, bucket.grants, bucket.settings) == (False, (), {})
    plain, multipart = (await store.list_objects(ListQuery("bucket"))).objects
    assert (plain.key, plain.etag, plain.attributes) == ("plain", _md5(b"plain"), ATTRIBUTES)
    assert (plain.version_id, plain.owner, plain.modified_ns) == ("null", "", NOW_NS)
    assert multipart.checksums == {Algorithm.CRC32: "AAAAAA=="}
    assert multipart.checksum_type is ChecksumType.COMPOSITE
    assert (await store.list_versions(VersionQuery("bucket"))).versions == (plain, multipart)
    assert await get(store, "plain") == b"plain"
    assert await get(store, "\U0001f600") == b"two"
    upload = await store.head_upload("bucket", "open", OPEN)
    assert (upload.attributes, upload.owner) == (ATTRIBUTES, "")
    parts, _ = await store.list_parts("bucket", "open", OPEN, 0, 10)
    await complete(store, "open", OPEN, parts)
    assert await get(store, "open") == b"one"
    known = await store.completed_upload("bucket", "\U0001f600", DONE)
    assert known is not None
    assert known.etag == "x-1"


async def test_start__schema_1__versions_from_now_on(
    old: Path, make_store: Callable[..., Store]
) -> None:
    store = make_store()
    await store.start()

    def enable(info: Any) -> Any:
        return type(info)(info.name, 0, info.region, versioning=Versioning.ENABLED)

    await store.update_bucket("bucket", enable)
    new = await put(store, "plain", b"new")
    found = (await store.list_versions(VersionQuery("bucket", prefix="plain"))).versions
    assert [info.version_id for info in found] == [new.version_id, "null"]
    await store.delete_object("bucket", "plain", new.version_id)
    assert await get(store, "plain") == b"plain"


async def test_migration__done__the_same_tables_as_a_new_catalog(old: Path, tmp_path: Path) -> None:
    migrated = open_catalog(old / "catalog.db", Durability.NONE, may_be_new=lambda: False)
    new = open_catalog(tmp_path / "new.db", Durability.NONE, may_be_new=lambda: True)
    schemas = []
    for connection in (migrated, new):
        query = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
        schemas.append(connection.execute(query).fetchall())
        assert connection.execute("PRAGMA user_version").fetchone() == (tables.SCHEMA_VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
    assert schemas[0] == schemas[1]


async def test_migration__fails_half_way__the_old_catalog_is_unharmed(
    old: Path, make_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        statements = tables.MIGRATIONS[1] + "SELECT * FROM absent;"
        broken.setattr("gateway.storage.schema.MIGRATIONS", {1: statements})
        with pytest.raises(InternalError):
            await make_store().start()
    with sqlite3.connect(old / "catalog.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM objects").fetchone() == (2,)
    db.close()
    store = make_store()
    await store.start()
    assert await get(store, "plain") == b"plain"
    with raises(S3Code.NO_SUCH_KEY):
        await get(store, "absent")
