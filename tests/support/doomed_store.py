"""A store that writes as fast as it can until it is killed: the victim of test_store_crash.py.

Run as a program: ``doomed_store.py ROOT ROUND``. Every object's ETag is the MD5 of all its bytes,
so a torn one shows. Each line on stdout was acknowledged by the store before it was printed.
"""

import asyncio
import random
import sys
from pathlib import Path

from storing import draft, etag, initiate, new_bucket, put_part, stage

from gateway.config import Durability, StoreConfig
from gateway.storage.port import ObjectDraft
from gateway.storage.store import Store

WRITERS = 100
SIZES_BYTES = (0, 1, 4096, 70_000, 300_000)


async def write(store: Store, key: str, data: bytes) -> None:
    staged = await stage(store, data)
    await store.commit_object(staged, "bucket", key, draft(data))


async def write_multipart(store: Store, key: str, data: bytes) -> None:
    upload_id = await initiate(store, key)
    half = len(data) // 2
    bodies = (data[:half], data[half:])
    parts = [await put_part(store, key, upload_id, n, body) for n, body in enumerate(bodies, 1)]
    whole = ObjectDraft(len(data), etag(data))
    await store.complete_upload("bucket", key, upload_id, parts, whole)


async def work(store: Store, name: str) -> None:
    """New keys, one key that is replaced again and again, and multipart uploads, in turn."""
    chance = random.Random(name)
    for number in range(1_000_000):
        data = chance.randbytes(chance.choice(SIZES_BYTES))
        kind = ("new", "replaced", "multipart")[number % 3]
        key = f"{name}/{kind}" if kind == "replaced" else f"{name}/{kind}/{number}"
        await (write_multipart if kind == "multipart" else write)(store, key, data)
        print(key, etag(data), flush=True)


async def main(root: Path, round_: str) -> None:
    store = Store(StoreConfig(root=root, durability=Durability.FULL))
    await store.start()
    if not await store.list_buckets():
        await store.create_bucket(new_bucket("bucket"))
    await asyncio.gather(*(work(store, f"{round_}-{number}") for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
