"""Many clients at one key at once: exactly one of them may win."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from gateway_process import GatewayProcess
from signed_http import session, signed

RACERS = 64
ROUNDS = 100
CONNECTIONS = 16


@pytest.mark.timeout(300)
async def test_put_if_none_match__64_at_once_100_rounds__exactly_one_wins_each(
    served: GatewayProcess, s3: Any, bucket: str
) -> None:
    """seaweedfs#8800, versitygw#2288: up to 32 of 32 won there."""
    async with session(CONNECTIONS) as client:

        async def race(key: str, racer: int) -> int:
            body = b"%d" % racer
            headers = {"If-None-Match": "*"}
            put = signed(client, served, "PUT", f"/{bucket}/{key}", body, headers)
            async with put as answer:
                await answer.read()
                return int(answer.status)

        for number in range(ROUNDS):
            key = f"lock-{number}"
            statuses = await asyncio.gather(*(race(key, racer) for racer in range(RACERS)))
            assert Counter(statuses) == {200: 1, 412: RACERS - 1}
            (winner,) = (racer for racer, status in enumerate(statuses) if status == 200)
            assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"%d" % winner
