"""The fabric really tried: a few bytes from one lane of the arena into another, by its device."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.dataplane.port import Fabric, Lane, Need
from gateway.errors import BusyError, TransportError
from gateway.rdma.aio import to_the_end

_LENGTH_BYTES = 64
_NOBODY = ""  # no access key: what it leaves is overwritten before a client gets the lane


async def try_fabric(fabric: Fabric, timeout_s: float) -> None:
    """Move some bytes, and see that they are the same.

    Two lanes are lent for it. Where none is free the fabric is at work already, and only its
    health is looked at.

    Args:
        fabric: opened with an arena.
        timeout_s: for each half of the transfer.

    Raises:
        TransportError: the port is down, or the bytes did not arrive.
    """
    if not fabric.healthy:
        raise TransportError(f"RDMA port {fabric.info.device}/{fabric.info.port} is down.")
    try:
        async with _leased(fabric, Need.RECEIVE) as receiver, _leased(fabric, Need.SEND) as sender:
            await _exchange(receiver, sender, timeout_s)
    except BusyError:
        return


@asynccontextmanager
async def _leased(fabric: Fabric, need: Need) -> AsyncIterator[Lane]:
    lane = fabric.lease(need, _LENGTH_BYTES)
    try:
        yield lane
    finally:
        await to_the_end(lane.close())


async def _exchange(receiver: Lane, sender: Lane, timeout_s: float) -> None:
    for lane in (receiver, sender):
        await lane.dedicate(_NOBODY)
    receiver.post_receive()
    receiver.connect(sender.local)
    sender.connect(receiver.local)
    cookie, said = secrets.randbits(32), secrets.token_bytes(_LENGTH_BYTES)
    sender.memory[:_LENGTH_BYTES] = said
    await sender.write(_LENGTH_BYTES, receiver.buffer, cookie, timeout_s)
    await receiver.received(cookie, _LENGTH_BYTES, timeout_s)
    if receiver.memory[:_LENGTH_BYTES] != said:
        raise TransportError("The fabric moved other bytes than it was given.")
