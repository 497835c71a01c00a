"""The read cache before a service that counts: an epoch reads each object from upstream once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from faulty_s3 import BUCKET, faulty_site
from s3_servers import S3Server
from upstream_contract import upstream_config

from gateway.config import MIB
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.storage import UpstreamStorage

EPOCHS, READERS = 3, 4
BARE = Abilities(versioning=False, object_tagging=False, acl=False, documents=frozenset())


async def read(storage: UpstreamStorage, key: str) -> bytes:
    reader = await storage.open_object(BUCKET, key, None)
    try:
        size_bytes = reader.info.size_bytes
        assert reader.extents(0, size_bytes) is not None  # RDMA sends from the file
        return await reader.read(0, size_bytes)
    finally:
        await reader.close()


async def test_epochs__many_readers__each_object_is_fetched_once_until_it_changes(
    tmp_path: Path,
) -> None:
    async with faulty_site() as site:
        server = S3Server("counting", site.endpoint, "access", "secret")
        config = upstream_config(server, cache_bytes=64 * MIB, cache_dir=tmp_path / "cache")
        storage = UpstreamStorage(
            config, own_id="0" * 64, region="us-east-1", secrets=lambda _: None, abilities=BARE
        )
        await storage.start()
        site.objects = {f"sample-{n}": os.urandom(100_000 + n) for n in range(5)}
        for _ in range(EPOCHS):
            wanted = [*site.objects] * READERS
            found = await asyncio.gather(*(read(storage, key) for key in wanted))
            assert found == [site.objects[key] for key in wanted]
        assert site.seen["GetObject"] == len(site.objects)
        site.objects["sample-0"] = os.urandom(99)
        assert await read(storage, "sample-0") == site.objects["sample-0"]
        assert site.seen["GetObject"] == len(site.objects) + 1
        await storage.stop()
