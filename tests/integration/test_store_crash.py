"""SIGKILL in the middle of a hundred writers: what was acknowledged is whole, nothing is torn."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import doomed_store
from storing import etag, get

from gateway.config import StoreConfig
from gateway.storage.port import ListQuery, ObjectInfo
from gateway.storage.store import Store

ROUNDS = 3
ACKNOWLEDGED = 150
"""How many commits each victim may report before it is killed."""


def run_and_kill(root: Path, round_: int) -> list[tuple[str, str]]:
    """(key, ETag) of all that was acknowledged, in order."""
    command = [sys.executable, doomed_store.__file__, str(root), str(round_)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as victim:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(ACKNOWLEDGED)]
        victim.send_signal(signal.SIGKILL)
        lines += victim.stdout.readlines()
    assert victim.returncode == -signal.SIGKILL
    whole = (line.split() for line in lines if line.endswith("\n"))
    return [(key, tag) for key, tag in whole]


async def list_all(store: Store) -> list[ObjectInfo]:
    found: list[ObjectInfo] = []
    after: str | None = ""
    while after is not None:
        page = await store.list_objects(ListQuery("bucket", after=after))
        found += page.objects
        after = page.next_after
    return found


def referred_files(root: Path) -> set[str]:
    with sqlite3.connect(root / "catalog.db") as connection:
        rows = connection.execute("SELECT file FROM pieces WHERE file IS NOT NULL").fetchall()
    connection.close()
    return {file for (file,) in rows}


async def test_store__killed_among_100_writers__acknowledged_objects_whole_nothing_torn_or_left(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    acknowledged: dict[str, list[str]] = defaultdict(list)
    for round_ in range(ROUNDS):
        for key, tag in run_and_kill(root, round_):
            acknowledged[key].append(tag)
    store = Store(StoreConfig(root=root))
    await store.start()
    await store.swept()
    try:
        found = {info.key: info.etag for info in await list_all(store)}
        for key, tag in found.items():
            assert etag(await get(store, key)) == tag
    finally:
        await store.stop()
    assert len(acknowledged) > ROUNDS * doomed_store.WRITERS
    assert acknowledged.keys() <= found.keys()
    for key, tags in acknowledged.items():
        if key.endswith("/replaced"):  # the next replacement may have been on its way
            assert found[key] not in tags[:-1]
        else:
            assert [found[key]] == tags
    on_disk = {path.name for path in root.glob("objects/*/*")}
    assert on_disk == referred_files(root)
    assert list(root.glob("staging/*")) == []
