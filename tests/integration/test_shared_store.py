"""Several processes on one store under mixed load, one of them killed: nobody harms anybody."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import sharing_store
from storing import etag, get, new_bucket, put

from gateway.config import StoreConfig
from gateway.storage.fsck import check
from gateway.storage.store import Store

PROCESSES, ROUNDS = 3, 8
LINES_BEFORE_THE_KILL = 60


def started(root: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, sharing_store.__file__, str(root), name, str(rounds)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def run_together(root: Path) -> tuple[dict[str, list[str]], int]:
    """All ETags that were acknowledged, by key, in order; and how often the counter was raised."""
    with ExitStack() as stack:
        victim = stack.enter_context(started(root, "victim", 1000))
        others = [stack.enter_context(started(root, f"p{n}", ROUNDS)) for n in range(PROCESSES)]
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(LINES_BEFORE_THE_KILL)]
        victim.send_signal(signal.SIGKILL)
        lines += victim.stdout.readlines()
        late = stack.enter_context(started(root, "late", 2))  # starts beside what the victim left
        for process in (*others, late):
            told = process.communicate(timeout=100)[0].splitlines(keepends=True)
            assert process.returncode == 0, process.args
            assert told.pop() == "done\n"
            lines += told
    acknowledged: dict[str, list[str]] = {}
    for line in lines:
        if line.endswith("\n"):
            key, told_etag = line.split()
            acknowledged.setdefault(key, []).append(told_etag)
    return acknowledged, len(acknowledged.pop("counted"))


async def test_store__four_processes_and_one_killed__nothing_lost_torn_or_left(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    store = Store(StoreConfig(root=root))
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    await put(store, "counter", b"0")
    await store.stop()
    acknowledged, counted = run_together(root)

    store = Store(StoreConfig(root=root))
    await store.start()
    await store.swept()
    for key, etags in acknowledged.items():
        found = etag(await get(store, key))
        if key.startswith("victim"):  # its next one may have been committed, but not told
            assert found not in etags[:-1]
        else:
            assert found == etags[-1]
    victims = sharing_store.TASKS  # each of its tasks may have counted once more, untold
    assert counted <= int(await get(store, "counter")) <= counted + victims
    await store.stop()
    with sqlite3.connect(root / "catalog.db") as connection:
        rows = connection.execute("SELECT file FROM pieces WHERE file IS NOT NULL").fetchall()
    connection.close()
    on_disk = {path.name for path in (*root.glob("objects/*/*"), *root.glob("staging/*"))}
    assert on_disk == {file for (file,) in rows}
    assert check(root).exit_code == 0
