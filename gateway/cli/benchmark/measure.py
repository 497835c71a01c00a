"""Transfers by each way, at each size and concurrency, timed as a program would wait for them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from statistics import quantiles

from gateway.cli.objects import sources
from gateway.client import (
    Client,
    Deletion,
    RdmaMode,
    RdmaProtocol,
    S3Error,
    Transfer,
    UnsupportedError,
)
from gateway.client.parallel import workers
from gateway.config import GIB, format_size
from gateway.rdma.aio import to_the_end

_BUSY = 503
LEAST_ROUNDS = 3  # of each worker, however long they take
SETTLE_S = 2.0
"""A PUT that was given up may still be committed by the server, so long after."""


class Way(Enum):
    """How the bytes go."""

    RC = "rc"
    HIPOBJ = "hipobj"
    HTTP = "http"

    @property
    def mode(self) -> RdmaMode:
        return RdmaMode.NEVER if self is Way.HTTP else RdmaMode.REQUIRE

    @property
    def protocol(self) -> RdmaProtocol | None:
        return {Way.RC: RdmaProtocol.RC, Way.HIPOBJ: RdmaProtocol.HIPOBJ}.get(self)


class Operation(Enum):
    """Which way round: out of this host's memory, or into it."""

    PUT = "put"
    GET = "get"


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured at once."""

    operation: Operation
    size_bytes: int
    concurrency: int
    way: Way

    def __str__(self) -> str:
        """``PUT 4KiB, 16 at once, by rc``."""
        return (
            f"{self.operation.value.upper()} {format_size(self.size_bytes)}, "
            f"{self.concurrency} at once, by {self.way.value}"
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured.

    Attributes:
        transfers: how many.
        seconds: wall time of all of them together.
        cpu_s: of this process, all threads.
        p50_s / p90_s / p99_s: of one transfer, from its request to its reply.
        carrier: what carried them, as the client names it; "" for HTTP.
    """

    cell: Cell
    transfers: int
    seconds: float
    cpu_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    carrier: str = ""

    @property
    def transfers_per_s(self) -> float:
        return self.transfers / self.seconds

    @property
    def gigabytes_per_s(self) -> float:
        """Units of 10^9 bytes."""
        return self.transfers_per_s * self.cell.size_bytes / 1e9

    @property
    def cpu_s_per_gib(self) -> float:
        return self.cpu_s / (self.transfers * self.cell.size_bytes) * GIB


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured. All tuples are in the order of the command line.

    Attributes:
        seconds: how long each cell lasts, at least.
    """

    bucket: str
    sizes_bytes: tuple[int, ...]
    concurrencies: tuple[int, ...]
    operations: tuple[Operation, ...]
    ways: tuple[Way, ...]
    seconds: float

    def cells(self, ways: tuple[Way, ...]) -> Iterator[Cell]:
        """The ways side by side, so that what changes on the host in time touches all of them."""
        for size_bytes in self.sizes_bytes:
            for concurrency in self.concurrencies:
                for operation in self.operations:
                    for way in ways:
                        yield Cell(operation, size_bytes, concurrency, way)


@dataclass(slots=True)
class Bench:
    """One run.

    Args:
        plan: what is measured.
        open_client: a client that goes one way only, not yet entered.
        starting: told of each cell before it is measured.

    Attributes:
        refused: the ways that can't be gone here, and why.
        busy: what the server was too busy for, or has not the means for, and its words.
    """

    plan: Plan
    open_client: Callable[[Way], Client]
    starting: Callable[[Cell], None]
    refused: dict[Way, str] = field(default_factory=dict)
    busy: dict[Cell, str] = field(default_factory=dict)
    _prefix: str = field(default_factory=lambda: f"s3rdma-bench-{os.urandom(8).hex()}/")

    async def run(self) -> AsyncIterator[Measurement]:
        """Measure all cells; whatever happens, the objects are gone afterwards.

        Raises:
            S3RdmaError: the server refuses, or can't be reached.
        """
        async with AsyncExitStack() as stack:
            clients = {
                way: await stack.enter_async_context(self.open_client(way))
                for way in self.plan.ways
            }
            await stack.enter_async_context(self._cleared(next(iter(clients.values()))))
            for way, client in clients.items():
                await self._try(way, client)
            going = tuple(way for way in self.plan.ways if way not in self.refused)
            for cell in self.plan.cells(going):
                self.starting(cell)
                try:
                    measured = await self._measure(cell, clients[cell.way])
                except S3Error as error:
                    if error.status != _BUSY:
                        raise
                    self.busy[cell] = str(error)
                else:
                    yield measured

    async def _try(self, way: Way, client: Client) -> None:
        """A first transfer: it opens the connection, or says why there is none."""
        try:
            await client.put_from(self.plan.bucket, f"{self._prefix}{way.value}", b"\0")
        except UnsupportedError as error:
            self.refused[way] = str(error)

    async def _measure(self, cell: Cell, client: Client) -> Measurement:
        async with AsyncExitStack() as stack:
            data = os.urandom(cell.size_bytes)
            slots = [
                _Slot(
                    client,
                    self.plan.bucket,
                    f"{self._prefix}{cell.way.value}/{cell.size_bytes}/{number}",
                    await stack.enter_async_context(client.registered(bytearray(data))),
                )
                for number in range(cell.concurrency)
            ]
            for slot in slots:
                await slot.put()
            if cell.operation is Operation.GET:
                for slot in slots:
                    slot.view[:] = bytes(cell.size_bytes)
                    await slot.get()
                    if slot.view != data:
                        raise ValueError(f"{slot.key}: other bytes came back than were stored")
            return await _timed(cell, slots, self.plan.seconds)

    @asynccontextmanager
    async def _cleared(self, client: Client) -> AsyncIterator[None]:
        settle_s = SETTLE_S
        try:
            yield
            settle_s = 0.0
        finally:
            await to_the_end(self._clear(client, settle_s))

    async def _clear(self, client: Client, settle_s: float) -> None:
        await asyncio.sleep(settle_s)
        bucket = self.plan.bucket
        async for page in sources.pages(client, bucket, self._prefix):
            await client.delete_objects(bucket, [Deletion(one.key) for one in page.objects])


@dataclass(frozen=True, slots=True)
class _Slot:
    """One of the transfers that go on at once: a key and a buffer of its own."""

    client: Client
    bucket: str
    key: str
    view: memoryview

    async def put(self) -> Transfer:
        return await self.client.put_from(self.bucket, self.key, self.view)

    async def get(self) -> Transfer:
        return await self.client.get_into(self.bucket, self.key, self.view, length=len(self.view))


async def _timed(cell: Cell, slots: list[_Slot], least_s: float) -> Measurement:
    latencies: list[float] = []
    waiting = iter(slots)
    carriers: set[str] = set()
    started_s, cpu_s = time.perf_counter(), time.process_time()

    async def worker() -> None:
        slot = next(waiting)
        transfer: Callable[[], Awaitable[Transfer]] = (
            slot.put if cell.operation is Operation.PUT else slot.get
        )
        rounds = 0
        while rounds < LEAST_ROUNDS or time.perf_counter() - started_s < least_s:
            done = await transfer()
            latencies.append(done.seconds)
            carriers.add(done.carrier or "")
            rounds += 1

    await workers(worker, len(slots))
    seconds = time.perf_counter() - started_s
    at = quantiles(latencies, n=100, method="inclusive")
    return Measurement(
        cell,
        len(latencies),
        seconds,
        time.process_time() - cpu_s,
        at[49],
        at[89],
        at[98],
        carrier=", ".join(sorted(carriers)),
    )
