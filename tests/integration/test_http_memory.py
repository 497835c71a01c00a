"""The gateway's memory under a crowd: bounded, whatever the clients do."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from boto3_client import boto3_client
from gateway_process import gateway_process
from signed_http import session, signed

LIMIT_BYTES = 150 * 1024 * 1024  # beside the RDMA staging, of which there is none here
CLIENTS = 100
PUT_BYTES = 3_000_000
GET_BYTES = 16_000_000


async def test_memory__many_uploads_and_readers_that_stop__stays_within_150_mib(
    tmp_path: Path,
) -> None:
    with gateway_process(tmp_path, "--rdma-fabric", "off") as process:
        s3 = boto3_client(process)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="big", Body=bytes(GET_BYTES))
        body = bytes(range(256)) * (PUT_BYTES // 256)
        async with session(CLIENTS) as client:

            async def put(number: int) -> str:
                async with signed(client, process, "PUT", f"/bucket/{number}", body) as reply:
                    return str(reply.headers["ETag"])

            etags = await asyncio.gather(*(put(number) for number in range(CLIENTS)))
        assert set(etags) == {f'"{hashlib.md5(body).hexdigest()}"'}

        async with session(CLIENTS) as client:

            async def begin(_: int) -> Any:
                """A reader that takes the first bytes and then stops."""
                reply = await signed(client, process, "GET", "/bucket/big")
                assert await reply.content.readexactly(1000) == bytes(1000)
                return reply

            stopped = await asyncio.gather(*map(begin, range(CLIENTS)))
            assert len(s3.get_object(Bucket="bucket", Key="big")["Body"].read()) == GET_BYTES
            peak_bytes = process.peak_rss_bytes()
            for reply in stopped:
                reply.close()
        s3.close()
        assert peak_bytes < LIMIT_BYTES, f"{peak_bytes / 2**20:.0f} MiB"
