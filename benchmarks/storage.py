"""PUT and GET by each storage, beside the plain calls that a file system needs for the same.

    python benchmarks/storage.py [--drivers store,tree,upstream] [--root DIRECTORY] [--rounds N]

Durability is on. Plain is: an unnamed file, written, fdatasync, linked to its name, fsync of its
directory; and to read, open and pread. What is told is the median of the rounds, in which all take
turns, and its ratio to plain: of one client, and of many at once, for which plain has as many
threads. The storages are asked through their port, without HTTP; the upstream is another gateway on
this host, over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from hashlib import md5
from itertools import count
from pathlib import Path
from statistics import median

from gateway_process import gateway_process

from gateway.app.storages import open_storage
from gateway.config import KIB, MIB
from gateway.config.load import load
from gateway.storage.port import BucketInfo, ObjectDraft, Storage

BUCKET = "bench"
PIECE_BYTES = MIB


@dataclass(frozen=True, slots=True)
class Case:
    """So many objects of one size at once."""

    size_bytes: int
    at_once: int

    def __str__(self) -> str:
        unit, size = ("MiB", MIB) if self.size_bytes >= MIB else ("KiB", KIB)
        return f"{self.size_bytes // size} {unit}, {self.at_once} at once"


CASES = (Case(4 * KIB, 1), Case(4 * KIB, 32), Case(64 * MIB, 1))

Move = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Way:
    """How an object of the case's size goes in and comes back, by its key."""

    name: str
    put: Move
    get: Move


class Plain:
    """Files by the calls themselves, in threads."""

    def __init__(self, directory: Path, threads: int) -> None:
        self._directory = directory
        self._threads = ThreadPoolExecutor(threads)

    def way(self, data: bytes) -> Way:
        async def put(key: str) -> None:
            await self._run(lambda: self._put(key, data))

        async def get(key: str) -> None:
            await self._run(lambda: self._get(key, len(data)))

        return Way("plain", put, get)

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _put(self, key: str, data: bytes) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        fd = os.open(self._directory, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            for start in range(0, len(data), PIECE_BYTES):
                os.pwrite(fd, data[start : start + PIECE_BYTES], start)
            os.fdatasync(fd)
            os.link(f"/proc/self/fd/{fd}", key, dst_dir_fd=directory, follow_symlinks=True)
            os.fsync(directory)
        finally:
            os.close(fd)
            os.close(directory)

    def _get(self, key: str, size_bytes: int) -> None:
        fd = os.open(self._directory / key, os.O_RDONLY)
        try:
            for start in range(0, size_bytes, PIECE_BYTES):
                os.pread(fd, min(PIECE_BYTES, size_bytes - start), start)
        finally:
            os.close(fd)


def storage_way(name: str, storage: Storage, data: bytes) -> Way:
    """By a storage's port."""
    draft = ObjectDraft(len(data), md5(data, usedforsecurity=False).hexdigest())

    async def put(key: str) -> None:
        staged = await storage.stage(BUCKET, len(data))
        for start in range(0, len(data), PIECE_BYTES):
            await staged.write(memoryview(data)[start : start + PIECE_BYTES])
        await storage.commit_object(staged, BUCKET, key, draft)

    async def get(key: str) -> None:
        reader = await storage.open_object(BUCKET, key, None)
        for start in range(0, len(data), PIECE_BYTES):
            await reader.read(start, min(PIECE_BYTES, len(data) - start))
        await reader.close()

    return Way(name, put, get)


async def measure(ways: list[Way], case: Case, rounds: int) -> None:
    """Print a line for each way."""
    puts_s: dict[str, list[float]] = {way.name: [] for way in ways}
    gets_s: dict[str, list[float]] = {way.name: [] for way in ways}
    numbers = count()
    for _ in range(rounds + 1):  # the first one warms up
        for way in ways:
            keys = [
                f"{case.size_bytes}-{case.at_once}-{next(numbers)}" for _ in range(case.at_once)
            ]
            puts_s[way.name].append(await _timed(way.put, keys))
            gets_s[way.name].append(await _timed(way.get, keys))
    for way in ways:
        row = f"{case!s:<22}{way.name:<10}"
        for took_s in (puts_s, gets_s):
            own_s, plain_s = (median(took_s[name][1:]) for name in (way.name, "plain"))
            row += f"{own_s / case.at_once * 1000:>12.3f} ms{own_s / plain_s:>8.2f}"
        print(row)


async def _timed(move: Move, keys: list[str]) -> float:
    started_s = time.perf_counter()
    await asyncio.gather(*map(move, keys))
    return time.perf_counter() - started_s


@contextmanager
def settings(driver: str, home: Path) -> Iterator[dict[str, str]]:
    """What the driver needs, as flags; for the upstream, while its gateway runs."""
    if driver != "upstream":
        root = home / driver
        root.mkdir()
        yield {"storage.driver": driver, f"{driver}.root": str(root)}
        return
    with gateway_process(home / "upstream", "--rdma-fabric", "off") as process:
        yield {
            "storage.driver": driver,
            "upstream.endpoint": process.endpoint,
            "upstream.access_key": process.access_key,
            "upstream.secret_key": process.secret_key,
        }


async def compare(drivers: list[str], home: Path, rounds: int) -> None:
    """All cases, with all drivers and plain files on one file system."""
    async with AsyncExitStack() as stack:
        storages = {}
        for driver in drivers:
            flags = stack.enter_context(settings(driver, home))
            storage, _ = open_storage(load(flags=flags))
            await storage.start()
            stack.push_async_callback(storage.stop)
            await storage.create_bucket(BucketInfo(BUCKET, 0, "us-east-1"))
            storages[driver] = storage
        (home / "plain").mkdir()
        print(f"{'':<32}{'PUT of each':>15}{'ratio':>8}{'GET of each':>15}{'ratio':>8}")
        for case in CASES:
            data = os.urandom(case.size_bytes)
            ways = [Plain(home / "plain", case.at_once).way(data)]
            ways += [storage_way(name, storage, data) for name, storage in storages.items()]
            few = rounds if case.size_bytes < MIB else max(1, rounds // 5)
            await measure(ways, case, few)


def main() -> None:
    """Read the options and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--drivers", default="store,tree,upstream", help="comma-separated")
    parser.add_argument("--root", type=Path, help="where files are made; a temporary directory")
    parser.add_argument("--rounds", type=int, default=25, help="of small objects; fewer of large")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.root) as home:
        asyncio.run(compare(options.drivers.split(","), Path(home), options.rounds))


if __name__ == "__main__":
    main()
