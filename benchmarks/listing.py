"""How long a page of a listing takes in a large bucket, as a ratio to one in a small bucket.

    python benchmarks/listing.py [--keys N] [--small N] [--pages N] [--root DIRECTORY]

A listing reads one range of an index for each page, so the ratio is 1 however many keys there are:
also where each key is hidden behind a delete marker, or rolled up into one of 1,000 common
prefixes. The rows are put into the catalog directly, with the store's own statements; the pages are
asked of the store. What counts is CPU time, of all threads: the pages come from memory.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from gateway.config import Durability, StoreConfig
from gateway.storage import rules
from gateway.storage.pieces import Pieces
from gateway.storage.port import (
    NULL_VERSION,
    BucketInfo,
    ListQuery,
    ObjectDraft,
    ObjectInfo,
    Versioning,
    VersionQuery,
)
from gateway.storage.schema import open_catalog
from gateway.storage.store import Store
from gateway.storage.versions import Versions

PAGE = 1000
DIRECTORIES = 1000
BATCH = 10_000
NOW_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to list.

    Attributes:
        delimiter: "/" rolls all keys up into DIRECTORIES prefixes.
        hidden: every key is behind a delete marker, but for PAGE of them at the end.
        versions: all versions are listed, not the objects.
    """

    name: str
    delimiter: str = ""
    hidden: bool = False
    versions: bool = False


KINDS = (
    Kind("objects"),
    Kind("objects, delimiter", delimiter="/"),
    Kind("objects behind markers", hidden=True),
    Kind("versions", versions=True),
    Kind("versions, delimiter", delimiter="/", versions=True),
)


def keys(count: int) -> Iterator[str]:
    """In byte order, the same number in each of DIRECTORIES."""
    for number in range(count):
        yield key_of(number, count)


def key_of(number: int, count: int) -> str:
    """One of `count` keys."""
    return f"{number * DIRECTORIES // count:04}/{number:09}"


def fill(root: Path, bucket: str, count: int, *, hidden: bool) -> None:
    """Give a bucket so many keys, as `Versions` would one by one, in few transactions."""
    catalog = open_catalog(root / "catalog.db", Durability.NONE, may_be_new=lambda: True)
    versions = Versions(catalog, Pieces(catalog))
    for number, key in enumerate(keys(count)):
        if number % BATCH == 0:
            catalog.execute("BEGIN")
        versions.add(_object(bucket, key), content=f"{bucket}{number}")
        if hidden and number < count - PAGE:
            marker = rules.delete_marker(bucket, key, f"m{number}", "", NOW_NS)
            versions.add(marker, content=None)
        if number % BATCH == BATCH - 1 or number == count - 1:
            catalog.execute("COMMIT")
    catalog.close()


def _object(bucket: str, key: str) -> ObjectInfo:
    return rules.published(bucket, key, NULL_VERSION, ObjectDraft(1, "0" * 32), NOW_NS)


async def page_ms(store: Store, bucket: str, kind: Kind, pages: int) -> float:
    """The median of `pages` pages of a walk through the bucket, again from the start at its end."""
    took_ms = []
    after = ("", "")
    for _ in range(pages):
        started_s = time.process_time()
        if kind.versions:
            query = VersionQuery(bucket, "", kind.delimiter, *after, limit=PAGE)
            versions = await store.list_versions(query)
            after = (versions.next_key or "", versions.next_version or "")
        else:
            objects = await store.list_objects(
                ListQuery(bucket, "", kind.delimiter, after[0], PAGE)
            )
            after = (objects.next_after or "", "")
        took_ms.append((time.process_time() - started_s) * 1000)
    return median(took_ms)


async def compare(root: Path, small: int, large: int, pages: int) -> None:
    """Print a line for each kind."""
    store = Store(StoreConfig(root=root, durability=Durability.NONE))
    await store.start()
    wanted = BucketInfo("", 0, "us-east-1", versioning=Versioning.ENABLED)
    sizes = {"small": (small, False), "large": (large, False)}
    sizes |= {f"{name}-hidden": (count, True) for name, (count, _) in sizes.items()}
    for name in sizes:
        await store.create_bucket(replace(wanted, name=name))
    for name, (count, hidden) in sizes.items():
        await asyncio.to_thread(fill, root, name, count, hidden=hidden)
    print(f"{'a page of 1,000':<24}{small:>12,} keys{large:>14,} keys{'ratio':>8}")
    for kind in KINDS:
        end = "-hidden" if kind.hidden else ""
        await page_ms(store, f"large{end}", kind, 2)  # warms the cache
        small_ms = await page_ms(store, f"small{end}", kind, pages)
        large_ms = await page_ms(store, f"large{end}", kind, pages)
        print(f"{kind.name:<24}{small_ms:>14.2f} ms{large_ms:>16.2f} ms{large_ms / small_ms:>8.2f}")
    await store.stop()


def main() -> None:
    """Read the options and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000, help="in the large bucket")
    parser.add_argument("--small", type=int, default=2_000, help="in the small bucket")
    parser.add_argument("--pages", type=int, default=60, help="to measure of each")
    parser.add_argument("--root", type=Path, help="where the store is made, and left")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.root or Path(temporary)
        asyncio.run(compare(root, options.small, options.keys, options.pages))


if __name__ == "__main__":
    main()
