"""How fast each way carries one 64 MiB object on this host, and what it costs, as ratios.

    python benchmarks/fabric.py [--rounds N]

memcpy is the measure of all: 1.00. The soft fabric's WRITE and READ go over UDP with their ICRC;
TCP over loopback is what HTTP
costs at the very least. CPU is of both ends together.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.config import MIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.port import Need

LENGTH_BYTES = 64 * MIB
DEADLINE_S = 60.0
COOKIE = 1
CONFIG = RdmaConfig(fabric="soft", lanes=(LaneClass(1, LENGTH_BYTES),), quarantine_s=0.0)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one way: wall and CPU seconds for a GB."""

    name: str
    wall_s_per_gb: float
    cpu_s_per_gb: float


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _measure(name: str, rounds: int, once: Callable[[], Awaitable[None]]) -> Cost:
    await once()  # the first touches memory and opens windows
    wall_s, cpu_s = time.perf_counter(), _cpu_s()
    for _ in range(rounds):
        await once()
    gigabytes = rounds * LENGTH_BYTES / 1e9
    return Cost(name, (time.perf_counter() - wall_s) / gigabytes, (_cpu_s() - cpu_s) / gigabytes)


async def _memcpy(rounds: int) -> Cost:
    source, target = bytes(LENGTH_BYTES), memoryview(bytearray(LENGTH_BYTES))

    async def once() -> None:
        target[:] = source

    return await _measure("memcpy", rounds, once)


async def _tcp(rounds: int) -> Cost:
    source, target = bytes(LENGTH_BYTES), memoryview(bytearray(LENGTH_BYTES))
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()

    async def once() -> None:
        thread = threading.Thread(target=sender.sendall, args=(source,))
        thread.start()
        done = 0
        while done < LENGTH_BYTES:
            done += receiver.recv_into(target[done:])
        thread.join()

    cost = await _measure("TCP loopback", rounds, once)
    sender.close()
    receiver.close()
    return cost


async def _write(gateway: EngineFabric, client: EngineFabric, rounds: int) -> Cost:
    async def once() -> None:
        ours = gateway.lease(Need.RECEIVE, LENGTH_BYTES)
        theirs = client.attach(source, remote_write=False)
        ours.post_receive()
        ours.connect(theirs.local)
        theirs.connect(ours.local)
        await theirs.write(LENGTH_BYTES, ours.buffer, COOKIE, DEADLINE_S)
        await ours.received(COOKIE, LENGTH_BYTES, DEADLINE_S)
        await asyncio.gather(ours.close(), theirs.close())

    source = bytes(LENGTH_BYTES)
    return await _measure("soft WRITE", rounds, once)


async def _read(gateway: EngineFabric, client: EngineFabric, rounds: int) -> Cost:
    async def once() -> None:
        ours = gateway.lease(Need.RECEIVE, LENGTH_BYTES)
        theirs = client.attach(source, remote_write=False, remote_read=True)
        ours.connect(theirs.local)
        theirs.connect(ours.local)
        await ours.read(LENGTH_BYTES, theirs.buffer, DEADLINE_S)
        await asyncio.gather(ours.close(), theirs.close())

    source = bytes(LENGTH_BYTES)
    return await _measure("soft READ", rounds, once)


async def _run(rounds: int) -> None:
    costs = [await _memcpy(rounds), await _tcp(rounds)]
    gateway, client = open_fabric(CONFIG, arena=True), open_fabric(CONFIG, arena=False)
    try:
        costs += [await _write(gateway, client, rounds), await _read(gateway, client, rounds)]
        idle_s = _cpu_s()
        await asyncio.sleep(1)
        idle_s = _cpu_s() - idle_s
    finally:
        await gateway.close()
        await client.close()
    print(f"{'':14}{'GB/s':>8}{'of memcpy':>12}{'CPU s/GB':>12}")
    for cost in costs:
        print(
            f"{cost.name:14}{1 / cost.wall_s_per_gb:8.2f}"
            f"{costs[0].wall_s_per_gb / cost.wall_s_per_gb:12.2f}{cost.cpu_s_per_gb:12.2f}"
        )
    print(f"idle: {idle_s * 100:.1f} % of a CPU")


def main() -> None:
    """Read the flags, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=16, help="objects of 64 MiB each")
    asyncio.run(_run(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
