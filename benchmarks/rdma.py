"""PUT and GET by both RDMA protocols, by HTTP and by boto3, through one real gateway.

`make bench` runs it where there is an RDMA device, or in the rig's virtual machine. There every
absolute number is an emulator's; what counts is the ratio to ib_write_lat and to ib_write_bw, by
one queue pair and by four (-q 4), measured in the same run before and after the transfers of each
size, and of the ways to each other. With `--soft` (`make bench-soft`) the soft fabric of this host
carries them, without a yardstick. Prints a table; `--json` prints the same as JSON.

The ways: `rc:` is a connection, one request for each transfer; `hipobj` is hipobj-rc-v2, a session
for each; `HTTP` is the same client without RDMA. A transfer's time is what a program waits for:
signing, the requests, the data, the checksum, the commit, from buffers that are used again and
again. One after the other it is the median; of four at once, as a loader has them, and as
ib_write_bw has its messages, it is the whole time by the number of transfers. CPU is user and
system time of all threads of the gateway's process, and of the client's; the kernel's Soft-RoCE
threads are in neither.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import uvloop
from gateway_process import GatewayProcess, gateway_process
from perftest import Link, write_bandwidth_gb_s, write_latency_s
from ways import Way, all_ways

from gateway.config import KIB, MIB, RdmaConfig, format_size

SIZES_BYTES = (4 * KIB, 64 * KIB, 1 * MIB, 64 * MIB)
BYTES_PER_ROW = 64 * MIB  # repeat each transfer until about this much has moved,
LEAST_ROUNDS = 3
AT_ONCE = 4
MOST_ROUNDS = 64  # or so often
SOFT = ("soft", ("--rdma-fabric", "soft"))  # the client's device, the gateway's options
ALLOWANCE_BYTES = 150 * MIB  # of the gateway's memory, besides its staging


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What perftest reaches with messages of one size; `spread` is by AT_ONCE queue pairs."""

    write_gb_s: float
    spread_gb_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operation at one size by one way; `seconds` and CPU are of one transfer."""

    operation: str
    way: str
    size_bytes: int
    at_once: int
    seconds: float
    gateway_cpu_s: float
    client_cpu_s: float

    @property
    def rate_gb_s(self) -> float:
        """In 10^9 bytes per second."""
        return self.size_bytes / self.seconds / 1e9


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run."""

    yardsticks: dict[int, Yardstick]
    measurements: list[Measurement]
    peak_rss_bytes: int
    allowed_rss_bytes: int


def link() -> Link:
    """The rig's two devices, or one device of this host talking to itself.

    Raises SystemExit where there is none.
    """
    devices = os.environ.get("RDMA_VM_DEVICES", "").split()
    if not devices:
        devices = sorted(path.name for path in Path("/sys/class/infiniband").glob("*"))[:1]
    if not devices:
        raise SystemExit("no RDMA device: run `make bench`, or give --soft")
    addresses = os.environ.get("RDMA_VM_ADDRS", "127.0.0.1").split()
    gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "3"))
    return Link(devices[0], addresses[0], devices[-1], gid_index)


Transfer = Callable[[], Awaitable[None]]


async def repeated(transfer: Transfer, rounds: int) -> list[float]:
    """The seconds of each."""
    seconds = []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        await transfer()
        seconds.append(time.perf_counter() - begun_s)
    return seconds


async def timed(
    gateway: GatewayProcess, size_bytes: int, transfers: Sequence[Transfer]
) -> tuple[float, float, float]:
    """(seconds, the gateway's and our CPU seconds) of one of the transfers, which run at once."""
    await asyncio.gather(*(transfer() for transfer in transfers))  # connections, fresh memory
    rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, BYTES_PER_ROW // size_bytes))
    gateway_cpu_s, client_cpu_s = gateway.cpu_s(), time.process_time()
    begun_s = time.perf_counter()
    each = await asyncio.gather(*(repeated(transfer, rounds) for transfer in transfers))
    count = rounds * len(transfers)
    whole_s = (time.perf_counter() - begun_s) / count
    return (
        median(each[0]) if len(each) == 1 else whole_s,
        (gateway.cpu_s() - gateway_cpu_s) / count,
        (time.process_time() - client_cpu_s) / count,
    )


async def measure(
    gateway: GatewayProcess, name: str, way: Way, size_bytes: int
) -> AsyncIterator[Measurement]:
    """PUT and GET of one size by one way; what comes back must be what went in."""
    data = bytearray(random.Random(size_bytes).randbytes(size_bytes))
    backs = {f"object-{size_bytes}-{n}": bytearray(size_bytes) for n in range(AT_ONCE)}
    async with AsyncExitStack() as held:
        for buffer in (data, *backs.values()):
            await held.enter_async_context(way.hold(buffer))
        for at_once, some in ((1, way), (AT_ONCE, way.shared())):
            chosen = list(backs.items())[:at_once]
            operations: dict[str, list[Transfer]] = {
                "PUT": [partial(some.put, key, data) for key, _ in chosen],
                "GET": [partial(some.get, key, back) for key, back in chosen],
            }
            for operation, transfers in operations.items():
                times = await timed(gateway, size_bytes, transfers)
                yield Measurement(operation, name, size_bytes, at_once, *times)
    if any(back != data for back in backs.values()):
        raise RuntimeError(f"{name}: {size_bytes} bytes came back altered")


def yardstick(ends: Link, size_bytes: int) -> Yardstick:
    """Of one moment."""
    return Yardstick(
        write_bandwidth_gb_s(ends, size_bytes),
        write_bandwidth_gb_s(ends, size_bytes, AT_ONCE),
        write_latency_s(ends, size_bytes),
    )


def between(before: Yardstick, after: Yardstick) -> Yardstick:
    """Of the time in between: a machine changes its pace."""
    return Yardstick(
        (before.write_gb_s + after.write_gb_s) / 2,
        (before.spread_gb_s + after.spread_gb_s) / 2,
        (before.latency_s + after.latency_s) / 2,
    )


async def run(directory: Path, ends: Link | None, tell: Callable[[Measurement], None]) -> Report:
    """Every way to one gateway, size by size; it is idle while perftest runs.

    Args:
        directory: for the gateway's store.
        ends: the devices; None for the soft fabric.
        tell: called with each measurement as it is made.
    """
    device, flags = (
        SOFT if ends is None else (ends.client_device, ("--rdma-device", ends.server_device))
    )
    yardsticks: dict[int, Yardstick] = {}
    measurements: list[Measurement] = []
    with gateway_process(directory, *flags) as gateway:
        async with all_ways(gateway, device) as ways:
            for size_bytes in SIZES_BYTES:
                before = yardstick(ends, size_bytes) if ends else None
                for name, way in ways.items():
                    async for one in measure(gateway, name, way, size_bytes):
                        tell(one)
                        measurements.append(one)
                if ends and before:
                    yardsticks[size_bytes] = between(before, yardstick(ends, size_bytes))
        peak_bytes = gateway.peak_rss_bytes()
    allowed_bytes = RdmaConfig().staging_bytes + ALLOWANCE_BYTES
    return Report(yardsticks, measurements, peak_bytes, allowed_bytes)


def table(report: Report) -> str:
    """The report for a reader."""
    lines = []
    if report.yardsticks:
        lines.append(f"  size      ib_write_bw           -q {AT_ONCE}     ib_write_lat")
    lines += [
        f"{format_size(size):>6}  {one.write_gb_s:8.3f} GB/s  {one.spread_gb_s:8.3f} GB/s"
        f"  {one.latency_s * 1e6:10.1f} us"
        for size, one in report.yardsticks.items()
    ]
    lines += [
        "",
        f"  size  op   at once  way     transfers/s     GB/s   to bw   -q {AT_ONCE}  to hipobj"
        "  CPU ms: gateway   client",
    ]
    hipobj = {
        (one.operation, one.size_bytes, one.at_once): one.seconds
        for one in report.measurements
        if one.way == "hipobj"
    }
    for one in sorted(report.measurements, key=_order):
        standard = report.yardsticks.get(one.size_bytes)
        ratio, spread = (
            f"{one.rate_gb_s / rate:6.3f}" if rate else "     -"
            for rate in ((standard.write_gb_s, standard.spread_gb_s) if standard else (None, None))
        )
        faster = hipobj[one.operation, one.size_bytes, one.at_once] / one.seconds
        lines.append(
            f"{format_size(one.size_bytes):>6}  {one.operation}  {one.at_once:7}  {one.way:<6}  "
            f"{1 / one.seconds:11.1f}  {one.rate_gb_s:7.3f}  {ratio}  {spread}  {faster:9.2f}"
            f"{one.gateway_cpu_s * 1e3:17.1f}  {one.client_cpu_s * 1e3:7.1f}"
        )
    lines.append(
        f"gateway's peak memory: {report.peak_rss_bytes / MIB:.0f} MiB"
        f" (allowed: all staging + 150 MiB = {report.allowed_rss_bytes / MIB:.0f} MiB)"
    )
    return "\n".join(lines)


def _order(one: Measurement) -> tuple[int, str, int]:
    return one.size_bytes, one.operation, one.at_once


def progress(one: Measurement) -> None:
    """For whoever waits: in an emulated machine the whole takes minutes."""
    size, took_ms = format_size(one.size_bytes), one.seconds * 1e3
    print(
        f"{size:>6}  {one.operation}  {one.at_once} at once  {one.way:<6} {took_ms:9.1f} ms",
        file=sys.stderr,
        flush=True,
    )


def main() -> None:
    """Run, print, and fail where the gateway took more memory than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--soft", action="store_true", help="by the soft fabric, on this host")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    ends = None if arguments.soft else link()
    memory = Path("/dev/shm")  # no disk in the numbers
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        report = uvloop.run(run(Path(directory), ends, progress))
    print(json.dumps(asdict(report), indent=2) if arguments.json else table(report))
    if report.peak_rss_bytes > report.allowed_rss_bytes:
        raise SystemExit("the gateway took more memory than staging + 150 MiB")


if __name__ == "__main__":
    main()
