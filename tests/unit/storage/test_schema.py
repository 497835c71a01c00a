"""Which databases are taken for the catalog."""

import sqlite3
from pathlib import Path

import pytest

from gateway.config import Durability
from gateway.errors import InternalError
from gateway.storage import lookup
from gateway.storage.schema import open_catalog


@pytest.mark.parametrize("exists", [True, False])
def test_open_catalog__nothing_there_but_data__refused(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "catalog.db"
    if exists:
        path.touch()
    with pytest.raises(InternalError) as caught:
        open_catalog(path, Durability.NONE, may_be_new=lambda: False)
    assert "missing or empty" in caught.value.cause
    assert "restore the catalog" in caught.value.cause
    open_catalog(path, Durability.NONE, may_be_new=lambda: True).close()


def test_open_catalog__crash_while_it_was_made__made_again(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    half = sqlite3.connect(path, isolation_level=None)
    half.execute("PRAGMA journal_mode = WAL")
    half.execute("BEGIN")
    half.execute("CREATE TABLE buckets (name TEXT)")
    half.close()
    made = open_catalog(path, Durability.FULL, may_be_new=lambda: True)
    tables = made.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    made.close()
    assert {name for (name,) in tables} >= {"buckets", "objects", "uploads", "pieces"}


def test_open_catalog__path_cannot_be_opened__says_which(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as caught:
        open_catalog(tmp_path / "absent" / "catalog.db", Durability.NONE, may_be_new=lambda: True)
    assert "absent/catalog.db" in caught.value.cause


def plan(connection: sqlite3.Connection, statement: str, *values: object) -> list[str]:
    """What SQLite would read, step by step."""
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def test_page_of_a_listing__query_plan__one_range_of_a_clustered_key(tmp_path: Path) -> None:
    made = open_catalog(tmp_path / "catalog.db", Durability.NONE, may_be_new=lambda: True)
    objects = plan(made, lookup._OBJECTS_FROM, "b", b"k")
    assert objects == ["SEARCH objects USING PRIMARY KEY (bucket=? AND key>?)"]
    uploads = plan(made, lookup._UPLOADS_FROM, "b", b"k", "")
    assert uploads == ["SEARCH uploads USING PRIMARY KEY (bucket=? AND (key,upload_id)>(?,?))"]
    range_ = "USING PRIMARY KEY (bucket=? AND (key,rank)>(?,?))"
    versions = plan(made, lookup._VERSIONS_FROM, "b", b"k", "")
    assert [step for step in versions if "SEARCH" in step] == [
        f"SEARCH objects {range_}",
        f"SEARCH history {range_}",
    ]
    assert versions[0] == "MERGE (UNION ALL)"
    assert not [step for step in versions if "SCAN" in step or "B-TREE" in step]
    made.close()


def test_one_version__query_plan__by_its_id(tmp_path: Path) -> None:
    made = open_catalog(tmp_path / "catalog.db", Durability.NONE, may_be_new=lambda: True)
    steps = plan(made, f"{lookup._HISTORY} AND version_id = ?", "b", b"k", "v")
    assert steps == [
        "SEARCH history USING INDEX history_by_id (bucket=? AND key=? AND version_id=?)"
    ]
    made.close()
