"""A client that gives up root before it moves a byte: ``other_user_client.py USER BUCKET SIZE...``.

Puts and gets an object of each size by RDMA, and prints a JSON list of what carried each transfer
and of the SHA-256 of what came back. Where the gateway is, and its keys, is in the environment.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import os
import pwd
import random
import sys

import gateway.dataplane.engine  # noqa: F401 - the client opens it late; nobody may not read it then
from gateway.client import Client

PR_SET_DUMPABLE = 4  # prctl(2)


def become(user: str) -> None:
    """As a program that this user has started: also in what others may ask of the process."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    assert ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0


async def round_trip(client: Client, bucket: str, size: int) -> dict[str, object]:
    data, received = random.Random(size).randbytes(size), bytearray(size)
    stored = await client.put_from(bucket, f"size-{size}", data)
    fetched = await client.get_into(bucket, f"size-{size}", received)
    return {
        "carriers": [stored.carrier, fetched.carrier],
        "sha256": hashlib.sha256(received).hexdigest(),
    }


async def main(user: str, bucket: str, *sizes: str) -> None:
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    async with Client(endpoint_url=endpoint, rdma="require", device="soft") as client:
        await client.create_bucket(bucket)  # so that all that is loaded late has been
        become(user)
        done = [await round_trip(client, bucket, int(size)) for size in sizes]
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
