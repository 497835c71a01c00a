"""Trying again where the server is busy: bounded, with growing and jittered pauses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.client.errors import S3Error
from gateway.config.client import ClientLimits

T = TypeVar("T")

BUSY = 503


async def while_busy(
    attempt: Callable[[], Awaitable[T]],
    limits: ClientLimits,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Run `attempt` until it is answered with something other than 503.

    A 503 says that nothing was done, so every request may be repeated after it. The pause is what
    the server asked for (``Retry-After``) and a random part of a doubling one, so that clients
    turned away together don't come back together.

    Raises:
        S3Error: the last 503, after `limits.attempts`; any other error at once.
    """
    pause_s = limits.backoff_s
    for _ in range(limits.attempts - 1):
        try:
            return await attempt()
        except S3Error as error:
            if error.status != BUSY:
                raise
            asked_s = min(error.retry_after_s, limits.max_backoff_s)
        await sleep(asked_s + random.uniform(0.0, pause_s))  # noqa: S311 - jitter, no secret
        pause_s = min(2 * pause_s, limits.max_backoff_s)
    return await attempt()
