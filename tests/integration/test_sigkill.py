"""SIGKILL in the middle of 100 concurrent PUTs: what was acknowledged is whole, nothing else is."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
from contextlib import closing
from pathlib import Path

import aiohttp
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from signed_http import session, signed

WRITERS = 100
ACKNOWLEDGED_BEFORE_THE_KILL = 40
OBJECT_BYTES = 300_000  # several reads and writes each, so that the kill finds them half-way


def content(key: str) -> bytes:
    return random.Random(key).randbytes(OBJECT_BYTES)


async def put(client: aiohttp.ClientSession, process: GatewayProcess, key: str) -> bool:
    """Whether the gateway acknowledged it."""
    try:
        async with signed(client, process, "PUT", f"/bucket/{key}", content(key)) as reply:
            return reply.status == 200
    except aiohttp.ClientError:
        return False


async def write_until_killed(process: GatewayProcess) -> set[str]:
    """100 writers at once, each object after object, until the gateway is gone."""
    acknowledged: set[str] = set()

    async def writer(client: aiohttp.ClientSession, number: int) -> None:
        turn = 0
        while await put(client, process, key := f"{number:03}/{turn}"):
            acknowledged.add(key)
            turn += 1
            if len(acknowledged) == ACKNOWLEDGED_BEFORE_THE_KILL:
                os.kill(process.pid, signal.SIGKILL)

    async with session(WRITERS) as client:
        await asyncio.gather(*(writer(client, number) for number in range(WRITERS)))
    return acknowledged


async def test_sigkill__during_100_puts__every_acknowledged_object_is_whole_and_no_half_is_seen(
    tmp_path: Path,
) -> None:
    with gateway_process(tmp_path, "--rdma-fabric", "off") as process:
        with closing(boto3_client(process)) as s3:
            s3.create_bucket(Bucket="bucket")
        acknowledged = await write_until_killed(process)
    assert len(acknowledged) >= ACKNOWLEDGED_BEFORE_THE_KILL

    with (
        gateway_process(tmp_path, "--rdma-fabric", "off") as process,
        closing(boto3_client(process)) as s3,
    ):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bucket")
        visible = {entry["Key"] for page in pages for entry in page.get("Contents", ())}
        assert acknowledged <= visible
        for key in visible:
            got = s3.get_object(Bucket="bucket", Key=key)
            body = got["Body"].read()
            assert got["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
            assert body == content(key)
        # Committed, but the reply was still on its way: at most the one of each writer.
        assert len(visible - acknowledged) <= WRITERS
    assert not list((tmp_path / "store" / "staging").iterdir())
