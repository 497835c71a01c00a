"""A thousand clients that die in the middle: the gateway forgets them, and nobody else notices.

Some are processes that get SIGKILL, some queue pairs and HTTP connections that are dropped, some
go on sending by RoCE after that. All of them move one known pattern, the canary; victims move
random bytes beside them all the time, and compare each. There is staging for a single move only, so
that every slot is lent again at once, and one that did not come back would stop everything.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from boto3_client import boto3_client
from canary import FILL, LONGEST_BYTES, SHORTEST_BYTES, canary, is_canary_or_fill, some_length
from doomed_clients import Nursery, nursery
from dropped_request import DroppedRequest
from gateway_process import GatewayProcess, gateway_process
from raw_rc import EngineClient, address_of, dialled, rc_peer
from rc_client import CONNECT, Desk, connect_headers
from rogue_peer import rogue_peer

from gateway.config import MIB, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric

KILLED, DROPPED_UDP, DROPPED_LOCAL, LATE = 60, 430, 430, 80
assert KILLED + DROPPED_UDP + DROPPED_LOCAL + LATE == 1000
WARM_UP = 40  # more, before the baseline is taken: threads and caches come with the first uses
SEED = int(os.environ.get("KILLED_CLIENTS_SEED") or secrets.randbelow(2**32))
BUCKET = "doomed"
CANARIES = ("canary", "small-canary")
CONNECTIONS = 40
IDLE_S = 3
SETTLED_S, LOOK_S = 30.0, 0.1
IDLE = {
    "s3rdma_rc_connections 0.0",
    f's3rdma_queue_pairs{{state="free",use="connection"}} {CONNECTIONS}.0',
    's3rdma_staging_slots{state="free"} 4.0',
    "s3rdma_staging_waiters 0.0",
}
THREADS = 32  # of the pools together: they grow to their sizes, and not with the clients
RSS_GROWTH_BYTES = 32 * MIB
CUT_AT_LEAST = 0.3  # of the drops: with the request unanswered, so in its middle
FLAGS = (
    *("--rdma-fabric", "soft", "--store-durability", "none"),
    *("--rdma-slot-bytes", "64KiB", "--rdma-connection-staging-bytes", "256KiB"),
    *("--rdma-connections", str(CONNECTIONS), "--rdma-connections-per-key", str(CONNECTIONS)),
    *("--rdma-connection-idle-timeout-s", str(IDLE_S), "--rdma-lanes", "1x1MiB"),
)
CONFIG = {name: RdmaConfig(fabric="soft", soft_carrier=name) for name in ("udp", "local")}


@dataclass(frozen=True)
class Holding:
    """What the gateway's process holds for its clients.

    Attributes:
        files: open, by kind; but the catalog's, which a thread opens once when it is first needed.
        staged: files that were begun and not committed.
        idle: whether it says itself that nobody is connected, and that all is there again.
    """

    files: Counter[str]
    staged: int
    idle: bool

    @classmethod
    def of(cls, gateway: GatewayProcess) -> Holding:
        names = [name for name in open_files(gateway) if "catalog.db" not in name]
        staged = len(os.listdir(gateway.log.parent / "store" / "staging"))
        with urlopen(f"{gateway.admin}/metrics") as reply:
            told = reply.read().decode().splitlines()
        kinds = Counter(name.partition(":")[0] for name in names)
        return cls(kinds, staged, set(told) >= IDLE)

    def is_baseline(self, files: Counter[str] | None = None) -> bool:
        """Whether nothing goes on, and no more is open than that."""
        return self.idle and not self.staged and (files is None or self.files <= files)


def open_files(gateway: GatewayProcess) -> Iterator[str]:
    """What the descriptors are of; some are closed while this looks."""
    for entry in Path(f"/proc/{gateway.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            yield os.readlink(entry)


async def settled(gateway: GatewayProcess, files: Counter[str] | None = None) -> Holding:
    """What it holds once that is the baseline; fails where it never is."""
    for _ in range(int(SETTLED_S / LOOK_S)):
        if (holding := Holding.of(gateway)).is_baseline(files):
            return holding
        await asyncio.sleep(LOOK_S)  # another process's end tells nobody
    raise AssertionError((holding, files))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("doomed"), *FLAGS) as process:
        yield process


@pytest.fixture(scope="module")
def s3(gateway: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(gateway)) as client:
        client.create_bucket(Bucket=BUCKET)
        for key, length in zip(CANARIES, (LONGEST_BYTES, SHORTEST_BYTES), strict=True):
            client.put_object(Bucket=BUCKET, Key=key, Body=canary(length))
        yield client


class Deaths:
    """What the victims keep pace with: they are at work whenever somebody dies, and no oftener."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._turns = asyncio.Semaphore(0)
        self._over = False

    def add(self, how: str) -> None:
        self.seen[how] += 1
        self._turns.release()

    def end(self) -> None:
        self._over = True
        for _ in CONFIG:
            self._turns.release()

    async def next(self) -> bool:
        """Whether another one died, once that is known."""
        await self._turns.acquire()
        return not self._over


async def victim(client: EngineClient, choice: random.Random, deaths: Deaths) -> int:
    """There and back, byte for byte, as long as others die; how often."""
    path, rounds = f"/{BUCKET}/victim-{client.connection[:8]}", 0
    while await deaths.next():
        data = choice.randbytes(choice.randrange(1, 600_000))
        target = bytearray([FILL]) * len(data)
        put, got = await client.put(path, data), await client.get(path, target)
        for answer in (put, got):
            assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200"), answer
        assert target == data, "a victim's bytes are another's"
        rounds += 1
    return rounds


@asynccontextmanager
async def victims(gateway: GatewayProcess, choice: random.Random) -> AsyncIterator[Deaths]:
    """One on each carrier, as long as this lasts; none of them may see an error or a wrong byte."""
    deaths = Deaths()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(rc_peer(Desk.of(gateway), config))
            for config in CONFIG.values()
        ]
        running = [
            asyncio.ensure_future(victim(client, random.Random(choice.random()), deaths))
            for client in clients
        ]
        try:
            yield deaths
        finally:
            deaths.end()
            rounds = await asyncio.gather(*running)
            print(f"victims went there and back {rounds} times")
        assert all(rounds)


async def drop(fabric: EngineFabric, desk: Desk, choice: random.Random) -> str:
    """Connect, ask, and be gone at a random point, queue pair first or HTTP first."""
    client = await dialled(fabric, desk)
    size = some_length(choice)
    get = choice.random() < 0.5
    memory = bytearray([FILL]) * LONGEST_BYTES if get else bytearray(canary(size))
    path = (
        f"/{BUCKET}/{choice.choice(CANARIES)}"
        if get
        else f"/{BUCKET}/dropped-{choice.randrange(8)}"
    )
    registration = await client.domain.register(memory, remote_write=get)
    buffer = registration.buffer
    token = f"rc:{client.connection}:{buffer.addr:x}:{len(memory):x}:{buffer.rkey:x}"
    request = await DroppedRequest.begin(desk, "GET" if get else "PUT", path, token)
    answered = await request.answered(choice.uniform(0.0, 0.01))
    if choice.random() < 0.5:
        await client.domain.close()
        request.drop()
    else:
        request.drop()
        await client.domain.close()
    assert is_canary_or_fill(memory) if get else memory == canary(size)
    return "answered" if answered else "cut"


async def kill(brood: Nursery, choice: random.Random) -> str:
    """SIGKILL for a process in the middle of its transfers."""
    carrier = choice.choice(tuple(CONFIG))
    child = await asyncio.to_thread(brood.born, carrier, choice.randrange(2**31))
    await asyncio.sleep(choice.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    return "killed"


class Mayhem:
    """All ways to die, side by side."""

    def __init__(self, gateway: GatewayProcess, choice: random.Random, deaths: Deaths) -> None:
        self._gateway = gateway
        self._desk = Desk.of(gateway)
        self._choice = choice
        self._deaths = deaths

    async def run(self, killed: int, dropped: dict[str, int], late: int) -> None:
        fabrics = {name: open_fabric(config, arena=False) for name, config in CONFIG.items()}
        with nursery(self._gateway, BUCKET) as brood:
            await asyncio.gather(
                self._times(killed, "process", partial(kill, brood, self._choice)),
                *(
                    self._times(share, name, partial(drop, fabric, self._desk, self._choice))
                    for name, fabric in fabrics.items()
                    for share in (dropped[name] // 2, dropped[name] - dropped[name] // 2)
                ),
                self._late(late),
            )
        await asyncio.gather(*(fabric.close() for fabric in fabrics.values()))

    async def _times(self, count: int, where: str, die: Callable[[], Awaitable[str]]) -> None:
        for _ in range(count):
            self._deaths.add(f"{where} {await die()}")

    async def _late(self, count: int) -> None:
        """Peers that answer READs after they are gone."""
        with rogue_peer(self._gateway, "127.99.0.1", canary(LONGEST_BYTES)) as rogue:
            for number in range(count):
                await rogue.connect()
                size = some_length(self._choice)
                path = f"/{BUCKET}/late-{number % 8}"
                packets = await rogue.spoil(path, size, self._choice)
                self._deaths.seen["packets sent too late"] += packets
                self._deaths.add("peer late")


def stored_canaries(s3: Any) -> int:
    """Whatever the dead have stored is theirs, and whole; how many objects that is."""
    listed = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    keys = [entry["Key"] for entry in listed if not entry["Key"].startswith("victim-")]
    for key in keys:
        body = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert body == canary(len(body)), key
    return len(keys)


async def assert_all_come_back(gateway: GatewayProcess) -> None:
    """Every connection can be had at once, and every slot: a move of four needs all there are.

    Those that died between two requests end by the idle timeout.
    """
    await asyncio.sleep(IDLE_S)
    desk = Desk.of(gateway)
    async with AsyncExitStack() as stack:
        fabric = open_fabric(RdmaConfig(fabric="soft", max_sessions=CONNECTIONS + 1), arena=False)
        stack.push_async_callback(fabric.close)
        clients = await asyncio.gather(*(dialled(fabric, desk) for _ in range(CONNECTIONS)))
        one_more = fabric.domain().dial()
        over = desk.ask("POST", CONNECT, connect_headers(address_of(one_more)))
        assert over.status == 503
        targets = [bytearray(LONGEST_BYTES) for _ in clients]
        await asyncio.gather(
            *(client.put(f"/{BUCKET}/last", canary(LONGEST_BYTES)) for client in clients)
        )
        answers = await asyncio.gather(
            *(
                client.get(f"/{BUCKET}/last", target)
                for client, target in zip(clients, targets, strict=True)
            )
        )
        assert {answer.headers["x-amz-rdma-reply"] for answer in answers} == {"200"}
        assert all(target == canary(LONGEST_BYTES) for target in targets)


async def test_rogue__answering_in_time__is_a_peer_like_any(
    gateway: GatewayProcess, s3: Any
) -> None:
    """So that what it sends too late is what a gateway would have taken before."""
    with rogue_peer(gateway, "127.99.0.2", canary(LONGEST_BYTES)) as rogue:
        await rogue.connect()
        answer = await rogue.put(f"/{BUCKET}/in-time", 300_001)
    assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200")
    assert s3.get_object(Bucket=BUCKET, Key="in-time")["Body"].read() == canary(300_001)


@pytest.mark.timeout(300)
async def test_clients__a_thousand_die_in_the_middle__nothing_is_left_of_them(
    gateway: GatewayProcess, s3: Any
) -> None:
    print(f"KILLED_CLIENTS_SEED={SEED}")
    async with victims(gateway, random.Random(SEED)) as deaths:
        mayhem = Mayhem(gateway, random.Random(SEED + 1), deaths)
        await mayhem.run(4, {"udp": WARM_UP // 2, "local": WARM_UP // 2}, 2)
    await assert_all_come_back(gateway)
    before = await settled(gateway)
    before_bytes = gateway.rss_bytes()

    async with victims(gateway, random.Random(SEED + 2)) as deaths:
        mayhem = Mayhem(gateway, random.Random(SEED + 3), deaths)
        await mayhem.run(KILLED, {"udp": DROPPED_UDP, "local": DROPPED_LOCAL}, LATE)
    seen = deaths.seen
    print(dict(seen))
    assert seen.total() - seen["packets sent too late"] == 1000
    for carrier in CONFIG:
        cut, answered = (seen[f"{carrier} {how}"] for how in ("cut", "answered"))
        assert cut >= CUT_AT_LEAST * (cut + answered)

    await settled(gateway, before.files)
    assert len(os.listdir(f"/proc/{gateway.pid}/task")) <= THREADS
    growth_bytes = gateway.rss_bytes() - before_bytes
    print(f"RSS {before_bytes / MIB:.0f} MiB, {growth_bytes / MIB:+.1f} MiB")
    assert growth_bytes <= RSS_GROWTH_BYTES
    await assert_all_come_back(gateway)
    assert stored_canaries(s3) > 1
