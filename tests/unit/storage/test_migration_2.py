"""A store of schema 2, as a gateway of that time left it, is opened by this one."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from storing import complete, get, put

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage.port import ObjectAttributes, VersionQuery
from gateway.storage.schema import APPLICATION_ID, open_catalog
from gateway.storage.store import Store
from gateway.storage.tables import SCHEMA_VERSION

SCHEMA_2 = (Path(__file__).parent / "schema_2.sql").read_text()
FILES = {
    "17979cfe364884800000000000000002": b"first",
    "17979cfe366709000000000000000003": b"second",
    "17979cfe36858d800000000000000004": b"behind",
    "17979cfe36d1d8c00000000000000006": b"one",
    "17979cfe36f05d400000000000000007": b"two",
    "17979cfe373ca8800000000000000009": b"part",
}
OPEN = "17979cfe372d66400000000000000008"


@pytest.fixture
def old(root: Path) -> Path:
    """Versions behind an object and behind a marker, a finished upload, and one in progress."""
    for name, data in FILES.items():
        directory = root / "objects" / name[-2:]
        directory.mkdir(parents=True)
        (directory / name).write_bytes(data)
    with sqlite3.connect(root / "catalog.db") as db:
        db.executescript(SCHEMA_2)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 2")
    db.close()
    return root


async def test_start__schema_2__every_version_and_upload_is_there(
    old: Path, make_store: Callable[..., Store], data_files: Callable[[], list[Path]]
) -> None:
    store = make_store()
    await store.start()
    versions = (await store.list_versions(VersionQuery("bucket"))).versions
    assert [(info.key, info.etag, info.delete_marker) for info in versions] == [
        ("hidden", "", True),
        ("hidden", "9da3be8f92c0bbfd7a7d6d6ec0b3fad3", False),
        ("key", "a9f0e61a137d86aa9db53465e0801612", False),
        ("key", "8b04d5e3775d298e78455efc5ca404d5", False),
        ("whole", "composed-2", False),
    ]
    plain = ObjectAttributes({"content-type": "text/plain"}, {"a": "b"}, (("k", "v"),))
    assert versions[2].attributes == plain
    assert await get(store, "key") == b"second"
    assert await get(store, "whole") == b"onetwo"
    behind = await store.open_object("bucket", "hidden", versions[1].version_id)
    assert await behind.read(1, 3) == b"ehi"
    await behind.verify(0, 6)
    await behind.close()
    parts, _ = await store.list_parts("bucket", "open", OPEN, 0, 10)
    await complete(store, "open", OPEN, parts)
    assert await get(store, "open") == b"part"
    assert len(data_files()) == len(FILES)


async def test_start__schema_2_in_use_by_an_older_gateway__refused_and_left_alone(
    old: Path, tmp_path: Path
) -> None:
    with pytest.raises(InternalError) as caught:
        open_catalog(old / "catalog.db", Durability.NONE, lambda: False, alone=False)
    assert "stop the gateways that use it" in caught.value.cause
    with sqlite3.connect(old / "catalog.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


async def test_start__schema_2__small_objects_go_into_the_catalog_from_now_on(
    old: Path, make_store: Callable[..., Store], data_files: Callable[[], list[Path]]
) -> None:
    store = make_store(inline_max_bytes=8192)
    await store.start()
    await put(store, "small", b"few")
    assert await get(store, "small") == b"few"
    assert len(data_files()) == len(FILES)
    with sqlite3.connect(old / "catalog.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
