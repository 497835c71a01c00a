"""What packet loss leaves of the soft fabric's goodput over UDP, as ratios.

    python benchmarks/loss.py [--rounds N]

The first row is the measure: it loses one packet of a million, because with faults on, packets go
out one by one instead of in trains. Best of the rounds: on a busy host that says most.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from unittest.mock import patch

from gateway.config import MIB, LaneClass, RdmaConfig
from gateway.dataplane import binding
from gateway.dataplane.engine import open_fabric
from gateway.dataplane.fabric import EngineFabric
from gateway.dataplane.port import Lane, Need

LENGTH_BYTES = 64 * MIB
DEADLINE_S = 120.0
COOKIE = 1
LOSSES_PPM = (1, 1_000, 10_000, 50_000)
CONFIG = RdmaConfig(
    fabric="soft", soft_carrier="udp", lanes=(LaneClass(1, LENGTH_BYTES),), quarantine_s=0.0
)
Move = Callable[[Lane, Lane], Awaitable[None]]


@asynccontextmanager
async def _fabrics(loss_ppm: int) -> AsyncIterator[tuple[EngineFabric, EngineFabric]]:
    """Both ends, each losing what it sends; no setting of the gateway does that."""
    lossy = partial(binding.fabric_open, faults={"loss_ppm": loss_ppm, "seed": 1})
    with patch.object(binding, "fabric_open", lossy):
        gateway, client = open_fabric(CONFIG, arena=True), open_fabric(CONFIG, arena=False)
    yield gateway, client
    await asyncio.gather(gateway.close(), client.close())


async def _write(ours: Lane, theirs: Lane) -> None:
    await theirs.write(LENGTH_BYTES, ours.buffer, COOKIE, DEADLINE_S)
    await ours.received(COOKIE, LENGTH_BYTES, DEADLINE_S)


async def _read(ours: Lane, theirs: Lane) -> None:
    await ours.read(LENGTH_BYTES, theirs.buffer, DEADLINE_S)


async def _best_gb_per_s(gateway: EngineFabric, client: EngineFabric, move: Move, n: int) -> float:
    source, best_s = bytes(LENGTH_BYTES), DEADLINE_S
    for _ in range(n):
        ours = gateway.lease(Need.RECEIVE, LENGTH_BYTES)
        theirs = client.attach(source, remote_write=False, remote_read=True)
        ours.post_receive()
        ours.connect(theirs.local)
        theirs.connect(ours.local)
        begun_s = time.perf_counter()
        await move(ours, theirs)
        best_s = min(best_s, time.perf_counter() - begun_s)
        await asyncio.gather(ours.close(), theirs.close())
    return LENGTH_BYTES / 1e9 / best_s


async def _run(rounds: int) -> None:
    print(f"{'loss':>8}{'WRITE GB/s':>14}{'of lossless':>14}{'READ GB/s':>14}{'of lossless':>14}")
    lossless: list[float] = []
    for loss_ppm in LOSSES_PPM:
        async with _fabrics(loss_ppm) as (gateway, client):
            rates = [
                await _best_gb_per_s(gateway, client, move, rounds) for move in (_write, _read)
            ]
        lossless = lossless or rates
        cells = (
            f"{rate:14.2f}{rate / whole:14.2f}" for rate, whole in zip(rates, lossless, strict=True)
        )
        print(f"{loss_ppm / 10_000:7.1f}%" + "".join(cells))


def main() -> None:
    """Read the flags, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="objects of 64 MiB each way")
    asyncio.run(_run(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
