"""A gateway's store used by several processes at once: one of them, under mixed load.

Run as a program: ``sharing_store.py ROOT NAME ROUNDS``. It writes keys of its own, which only it
may ever change, and keys that all of them replace and delete. Each line on stdout is a key of its
own with the ETag that was acknowledged, or "done".
"""

import asyncio
import random
import sys
from pathlib import Path

from storing import complete, draft, etag, get, initiate, put, put_part, stage

from gateway.config import Durability, StoreConfig
from gateway.errors import ClientError, S3Code
from gateway.storage.store import Store
from gateway.wire.conditional import Conditions

TASKS = 8
SHARED_KEYS = 4
SIZES_BYTES = (16, 100, 9000, 70_000, 200_000)


async def work(store: Store, name: str, rounds: int) -> None:
    chance = random.Random(name)
    for number in range(rounds):
        data = chance.randbytes(chance.choice(SIZES_BYTES))
        await put(store, name, data)
        print(name, etag(data), flush=True)
        assert await get(store, name) == data
        shared = f"shared/{chance.randrange(SHARED_KEYS)}"
        match number % 4:
            case 0:
                await put(store, shared, data)
            case 1:
                await store.delete_object("bucket", shared, None)
            case 2:
                await multipart(store, shared, data)
            case 3:
                await count_up(store, "counter")
        await read_whole(store, shared)


async def multipart(store: Store, key: str, data: bytes) -> None:
    upload_id = await initiate(store, key)
    halves = data[: len(data) // 2], data[len(data) // 2 :]
    parts = [await put_part(store, key, upload_id, n, half) for n, half in enumerate(halves, 1)]
    await complete(store, key, upload_id, parts)


async def count_up(store: Store, key: str) -> None:
    """Add one to a number, by compare and swap: none may get lost, whoever else adds."""
    while True:
        reader = await store.open_object("bucket", key, None)
        number = int(await reader.read(0, reader.info.size_bytes))
        await reader.close()
        data = b"%d" % (number + 1)
        staged = await stage(store, data)
        same = Conditions(if_match=(reader.info.etag,))
        try:
            await store.commit_object(staged, "bucket", key, draft(data), same)
        except ClientError as error:
            if error.code is not S3Code.PRECONDITION_FAILED:
                raise
            continue
        print("counted 1", flush=True)
        return


async def read_whole(store: Store, key: str) -> None:
    """Read slowly, so that it is replaced meanwhile."""
    try:
        reader = await store.open_object("bucket", key, None)
    except ClientError as error:
        if error.code is not S3Code.NO_SUCH_KEY:
            raise
        return
    size = reader.info.size_bytes
    halves = [await reader.read(0, size // 2), await reader.read(size // 2, size - size // 2)]
    await reader.close()
    if reader.info.parts:
        assert [etag(half) for half in halves] == [part.etag for part in reader.info.parts]
    else:
        assert etag(b"".join(halves)) == reader.info.etag


async def main(root: Path, name: str, rounds: int) -> None:
    store = Store(StoreConfig(root=root, durability=Durability.FULL))
    await store.start()
    await asyncio.gather(*(work(store, f"{name}-{number}", rounds) for number in range(TASKS)))
    await store.stop()
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
