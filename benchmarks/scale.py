"""A store of a million objects beside one of ten thousand: what starting and listing costs.

    python benchmarks/scale.py [--keys N] [--small N] [--pages N] [--rounds N] [--root DIRECTORY]

Each store is opened by a process of its own, which tells how long the start took, the median time
of a page of 1,000 keys anywhere in the bucket, and its memory when all is listed and swept. Nothing
of it should grow with the number of objects. The two take turns, round after round, since a busy
host changes its pace meanwhile; the ratio is the median round's. What a start does in the
background, the sweep, looks at each file once: it is over before the pages are timed, and its time
for each object is told. Rows
are put into the catalog directly, with the store's own statements; each object has a data file,
which is a link to one of a few.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from listing import NOW_NS, PAGE, key_of, keys

from gateway.config import Durability, StoreConfig
from gateway.storage import rules
from gateway.storage.files import DataFiles
from gateway.storage.pieces import Pieces, Placed
from gateway.storage.port import NULL_VERSION, BucketInfo, ListQuery, ObjectDraft
from gateway.storage.schema import open_catalog
from gateway.storage.store import Store
from gateway.storage.versions import Versions

BUCKET = "bench"
BATCH = 10_000
STARTS = 5
LINKS_MAX = 60_000  # of one file; ext4 allows 65,000
DRAFT = ObjectDraft(1, "0" * 32)


def make(root: Path, count: int) -> None:
    """A store with so many objects, which nobody has open."""
    asyncio.run(_make_bucket(root))
    files = DataFiles(root, Durability.NONE)
    names = _make_files(files, count)
    catalog = open_catalog(root / "catalog.db", Durability.NONE, may_be_new=lambda: False)
    pieces = Pieces(catalog)
    versions = Versions(catalog, pieces)
    for number, (key, name) in enumerate(zip(keys(count), names, strict=True)):
        if number % BATCH == 0:
            catalog.execute("BEGIN")
        info = rules.published(BUCKET, key, NULL_VERSION, DRAFT, NOW_NS)
        pieces.insert(name, Placed(name), rules.published_part(0, DRAFT, NOW_NS))
        versions.add(info, content=name)
        if number % BATCH == BATCH - 1 or number == count - 1:
            catalog.execute("COMMIT")
    catalog.close()


async def _make_bucket(root: Path) -> None:
    store = Store(StoreConfig(root=root, durability=Durability.NONE))
    await store.start()
    await store.create_bucket(BucketInfo(BUCKET, 0, "us-east-1"))
    await store.stop()


def _make_files(files: DataFiles, count: int) -> Iterator[str]:
    """Names of data files that are there: a real one, then links to it, again and again."""
    files.prepare()
    for number in range(count):
        fd, name = files.create(NOW_NS + number)
        if number % LINKS_MAX == 0:
            os.pwrite(fd, b"x", 0)
            files.publish(fd, name)
            original = files.path(name)
        else:
            os.link(original, files.path(name))
        os.close(fd)
        yield name


async def measure(root: Path, count: int, pages: int) -> dict[str, float]:
    """What opening and listing it costs this process."""
    start_s = []
    for _ in range(STARTS):
        store = Store(StoreConfig(root=root))
        started_s = time.perf_counter()
        await store.start()
        start_s.append(time.perf_counter() - started_s)
        await store.stop()
    store = Store(StoreConfig(root=root))
    await store.start()
    began_s = time.perf_counter()
    await store.swept()
    sweep_s = time.perf_counter() - began_s
    chance = random.Random(count)
    ordered = list(range(0, count, PAGE))
    page_s = []
    for _ in range(pages):
        after = key_of(chance.choice(ordered), count)
        began_s = time.process_time()
        await store.list_objects(ListQuery(BUCKET, after=after, limit=PAGE))
        page_s.append(time.process_time() - began_s)
    memory_kb = resident_kb()
    await store.stop()
    return {
        "start_s": median(start_s),
        "page_s": median(page_s),
        "memory_kb": memory_kb,
        "sweep_s": sweep_s / count,
    }


def resident_kb() -> float:
    """What this process has in memory."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmRSS:")[2].split()[0])


def measured(root: Path, count: int, pages: int) -> dict[str, float]:
    """The same, by a fresh process."""
    argv = [sys.executable, __file__, "--measure", str(root), "--keys", str(count)]
    done = subprocess.run(
        [*argv, "--pages", str(pages)], check=True, capture_output=True, text=True, env=os.environ
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


def compare(root: Path, small: int, large: int, pages: int, rounds: int) -> None:
    """Print a line for each quantity."""
    counts = (small, large)
    for count in counts:
        make(root / str(count), count)
    told = [[measured(root / str(count), count, pages) for count in counts] for _ in range(rounds)]
    print(f"{'':<24}{small:>12,} keys{large:>14,} keys{'ratio':>8}")
    for name, unit, scale in (
        ("start_s", "ms", 1000.0),
        ("page_s", "ms", 1000.0),
        ("memory_kb", "MiB", 1 / 1024),
        ("sweep_s", "us", 1e6),
    ):
        few, many = (median(each[end][name] for each in told) * scale for end in (0, 1))
        ratio = median(each[1][name] / each[0][name] for each in told)
        row = f"{name.partition('_')[0]:<24}{few:>13.1f} {unit:<3}"
        print(f"{row}{many:>15.1f} {unit:<3}{ratio:>8.2f}")


def main() -> None:
    """Read the options and compare, or measure one store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000, help="in the large store")
    parser.add_argument("--small", type=int, default=10_000, help="in the small store")
    parser.add_argument("--pages", type=int, default=60, help="to measure of each")
    parser.add_argument("--rounds", type=int, default=7, help="in which the two take turns")
    parser.add_argument("--root", type=Path, help="where the stores are made, and removed")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asyncio.run(measure(options.measure, options.keys, options.pages))))
        return
    with tempfile.TemporaryDirectory(dir=options.root) as home:
        compare(Path(home), options.small, options.keys, options.pages, options.rounds)


if __name__ == "__main__":
    main()
