"""How fast each way carries one 64 MiB object on this host, and what it costs, as ratios.

    python benchmarks/fabric.py [--rounds N]

memcpy is the measure of all: 1.00. The soft fabric's WRITE and READ go between two processes, by
UDP packets with their ICRC, and without packets; each use of a lane counts whole, from attaching
the buffer to closing. TCP over loopback is what HTTP costs at the very least. Ratios are of best
rounds, which on a busy host say most. CPU is of both ends together, and where these are two
processes, of the one that sends the bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from gateway.config import MIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import open_fabric
from gateway.dataplane.fabric import EngineFabric
from gateway.dataplane.port import Need, QpAddress, RemoteBuffer

LENGTH_BYTES = 64 * MIB
DEADLINE_S = 60.0
COOKIE = 1
CONFIG = RdmaConfig(fabric="soft", lanes=(LaneClass(1, LENGTH_BYTES),), quarantine_s=0.0)
WAYS = {"UDP": "udp", "same host": "local"}  # rdma.soft_carrier


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one way: seconds for a GB, by the clock in the best round and in the mean, and of CPU."""

    name: str
    best_s_per_gb: float
    mean_s_per_gb: float
    cpu_s_per_gb: float
    sender_s_per_gb: float


@dataclass(frozen=True, slots=True)
class Order:
    """What the client's process is to do: write its object to the gateway, or let it be read."""

    peer: QpAddress
    target: RemoteBuffer
    is_write: bool


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _no_sender_s() -> float:
    return 0.0


async def _measure(
    name: str,
    rounds: int,
    once: Callable[[], Awaitable[None]],
    sender_s: Callable[[], float] = _no_sender_s,
) -> Cost:
    await once()  # the first touches memory and opens windows
    walls_s, ours_s, theirs_s = [], _cpu_s(), sender_s()
    for _ in range(rounds):
        begun_s = time.perf_counter()
        await once()
        walls_s.append(time.perf_counter() - begun_s)
    ours_s, theirs_s = _cpu_s() - ours_s, sender_s() - theirs_s
    gigabytes = LENGTH_BYTES / 1e9
    all_gigabytes = rounds * gigabytes
    return Cost(
        name,
        min(walls_s) / gigabytes,
        sum(walls_s) / all_gigabytes,
        (ours_s + theirs_s) / all_gigabytes,
        theirs_s / all_gigabytes,
    )


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


class Client:
    """The client's process, from the gateway's side. Its answers are awaited by blocking."""

    def __init__(self, config: RdmaConfig) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._ours, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_client_main, args=(config, theirs), daemon=True)
        self._process.start()

    def attach(self, order: Order) -> tuple[QpAddress, RemoteBuffer]:
        """Its lane, connected to ours; from now on it does what is ordered."""
        self._ours.send(order)
        where: tuple[QpAddress, RemoteBuffer] = self._ours.recv()
        return where

    def finish(self) -> None:
        """The lane is not needed any more; returns once it is closed."""
        self._ours.send("finish")
        self._ours.recv()

    def cpu_s(self) -> float:
        """Of its process."""
        self._ours.send(None)
        return float(self._ours.recv())

    def stop(self) -> None:
        """End the process."""
        self._ours.close()
        self._process.join()


def _client_main(config: RdmaConfig, gateway: Connection) -> None:
    asyncio.run(_serve(config, gateway))


async def _serve(config: RdmaConfig, gateway: Connection) -> None:
    """Do what the gateway's process orders, until it hangs up."""
    fabric, source = open_fabric(config, arena=False), b"s" * LENGTH_BYTES
    try:
        while True:
            match gateway.recv():
                case Order() as order:
                    await _obey(fabric, source, order, gateway)
                case _:
                    gateway.send(_cpu_s())
    except EOFError:
        await fabric.close()


async def _obey(fabric: EngineFabric, source: bytes, order: Order, gateway: Connection) -> None:
    lane = fabric.attach(source, remote_write=False, remote_read=not order.is_write)
    lane.connect(order.peer)
    gateway.send((lane.local, lane.buffer))
    if order.is_write:
        await lane.write(LENGTH_BYTES, order.target, COOKIE, DEADLINE_S)
    gateway.recv()
    await lane.close()
    gateway.send("closed")


async def _write(gateway: EngineFabric, client: Client, rounds: int, way: str) -> Cost:
    async def once() -> None:
        lane = gateway.lease(Need.RECEIVE, LENGTH_BYTES)
        lane.post_receive()
        peer, _ = client.attach(Order(lane.local, lane.buffer, is_write=True))
        lane.connect(peer)
        await lane.received(COOKIE, LENGTH_BYTES, DEADLINE_S)
        client.finish()
        await lane.close()

    return await _measure(f"soft WRITE, {way}", rounds, once, client.cpu_s)


async def _read(gateway: EngineFabric, client: Client, rounds: int, way: str) -> Cost:
    async def once() -> None:
        lane = gateway.lease(Need.RECEIVE, LENGTH_BYTES)
        peer, source = client.attach(Order(lane.local, lane.buffer, is_write=False))
        lane.connect(peer)
        await lane.read(LENGTH_BYTES, source, DEADLINE_S)
        client.finish()
        await lane.close()

    return await _measure(f"soft READ, {way}", rounds, once, client.cpu_s)


async def _soft(rounds: int, way: str) -> tuple[list[Cost], float]:
    """The costs of one carrier, and the CPU seconds that both ends use in an idle second."""
    config = replace(CONFIG, soft_carrier=WAYS[way])
    gateway, client = open_fabric(config, arena=True), Client(config)
    try:
        costs = [
            await _write(gateway, client, rounds, way),
            await _read(gateway, client, rounds, way),
        ]
        idle_s = _cpu_s() + client.cpu_s()
        await asyncio.sleep(1)
        return costs, _cpu_s() + client.cpu_s() - idle_s
    finally:
        client.stop()
        await gateway.close()


async def _run(rounds: int) -> None:
    costs, idle_s = [await _memcpy(rounds), await _tcp(rounds)], 0.0
    for way in WAYS:
        more, more_s = await _soft(rounds, way)
        costs += more
        idle_s = max(idle_s, more_s)
    heads = ("best GB/s", "mean GB/s", "of memcpy", "CPU s/GB", "of it sending")
    print(f"{'':22}" + "".join(f"{head:>14}" for head in heads))
    for cost in costs:
        cells = (
            *(1 / cost.best_s_per_gb, 1 / cost.mean_s_per_gb),
            costs[0].best_s_per_gb / cost.best_s_per_gb,
            *(cost.cpu_s_per_gb, cost.sender_s_per_gb),
        )
        print(f"{cost.name:22}" + "".join(f"{cell:14.2f}" for cell in cells))
    print(f"idle: {idle_s * 100:.1f} % of a CPU")


def main() -> None:
    """Read the flags, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=16, help="objects of 64 MiB each")
    asyncio.run(_run(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
