"""PUT and GET by RDMA, both protocols, and by HTTP through real gateways, beside ib_write_bw.

`make bench` runs it where there is an RDMA device, or in the rig's virtual machine. There every
absolute number is an emulator's; what counts is the ratio to ib_write_bw, measured in the same run,
message size by message size, and of the ways to each other. Prints a table; `--json` prints the
same as JSON.

The ways: `rc:` is a connection, one request for each transfer; `hipobj` is hipobj-rc-v2, a session
for each, of a gateway without connections. A transfer's time is what a program waits for: signing,
the requests, the data, the checksum, the commit. CPU is the gateway process's own, user and system,
all threads; the kernel's Soft-RoCE threads are not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from botocore.credentials import Credentials
from gateway_process import GatewayProcess, gateway_process
from perftest import Link, write_bandwidth_gb_s

from gateway.client import RdmaMode, SyncClient, Transfer
from gateway.config import KIB, MIB, RdmaConfig, format_size

SIZES_BYTES = (4 * KIB, 64 * KIB, 1 * MIB, 64 * MIB)
BYTES_PER_ROW = 64 * MIB  # repeat each transfer until about this much has moved,
LEAST_ROUNDS = 3
MOST_ROUNDS = 64  # or so often
ALLOWANCE_BYTES = 150 * MIB  # of the gateway's memory, besides its staging
BUCKET = "bench"


@dataclass(frozen=True, slots=True)
class Way:
    """How the bytes go: a name, and what gateway and client are told."""

    name: str
    mode: RdmaMode
    flags: tuple[str, ...] = ()


WAYS = (
    Way("rc:", RdmaMode.REQUIRE),
    Way("hipobj", RdmaMode.REQUIRE, ("--rdma-connections", "0")),
    Way("HTTP", RdmaMode.NEVER),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operation at one size by one way; `seconds` is the median transfer's."""

    operation: str
    way: str
    size_bytes: int
    seconds: float
    cpu_s_per_transfer: float

    @property
    def rate_gb_s(self) -> float:
        """In 10^9 bytes per second."""
        return self.size_bytes / self.seconds / 1e9


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run."""

    ib_write_bw_gb_s: dict[int, float]
    measurements: list[Measurement]
    peak_rss_bytes: int
    allowed_rss_bytes: int


def link() -> Link:
    """The rig's two devices, or one device of this host talking to itself."""
    devices = os.environ.get("RDMA_VM_DEVICES", "").split()
    if not devices:
        devices = sorted(os.listdir("/sys/class/infiniband"))[:1]
    addresses = os.environ.get("RDMA_VM_ADDRS", "127.0.0.1").split()
    gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "3"))
    return Link(devices[0], addresses[0], devices[-1], gid_index)


def open_client(gateway: GatewayProcess, mode: RdmaMode, device: str) -> SyncClient:
    """A client of the benchmark's gateway."""
    return SyncClient(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma=mode,
        device=device,
    )


def timed(
    gateway: GatewayProcess, size_bytes: int, transfer: Callable[[], Transfer]
) -> tuple[float, float]:
    """(median seconds, the gateway's CPU seconds) of one transfer, repeated."""
    transfer()  # the first one opens connections and touches fresh memory
    rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, BYTES_PER_ROW // size_bytes))
    before_s = gateway.cpu_s()
    seconds = [transfer().seconds for _ in range(rounds)]
    return median(seconds), (gateway.cpu_s() - before_s) / rounds


def measure(
    gateway: GatewayProcess, client: SyncClient, way: Way, size_bytes: int
) -> Iterator[Measurement]:
    """PUT and GET of one size by one way; what comes back must be what went in."""
    data, back = bytearray(random.Random(size_bytes).randbytes(size_bytes)), bytearray(size_bytes)
    key = f"object-{size_bytes}"
    transfers: dict[str, Callable[[], Transfer]] = {
        "PUT": lambda: client.put_from(BUCKET, key, data),
        "GET": lambda: client.get_into(BUCKET, key, back, length=size_bytes),
    }
    for operation, transfer in transfers.items():
        yield Measurement(operation, way.name, size_bytes, *timed(gateway, size_bytes, transfer))
    if back != data:
        raise RuntimeError(f"{way.name}: {size_bytes} bytes came back altered")


def run(directory: Path) -> Report:
    """The yardstick first, alone on the machine; then a gateway for each way."""
    ends = link()
    yardstick = {size: write_bandwidth_gb_s(ends, size) for size in SIZES_BYTES}
    measurements: list[Measurement] = []
    peak_bytes = 0
    for way in WAYS:
        flags = ("--rdma-device", ends.server_device, *way.flags)
        with (
            gateway_process(directory / way.name.strip(":"), *flags) as gateway,
            open_client(gateway, way.mode, ends.client_device) as client,
        ):
            client.create_bucket(BUCKET)
            for size_bytes in SIZES_BYTES:
                measurements += measure(gateway, client, way, size_bytes)
            peak_bytes = max(peak_bytes, gateway.peak_rss_bytes())
    allowed_bytes = RdmaConfig().staging_bytes + ALLOWANCE_BYTES
    return Report(yardstick, measurements, peak_bytes, allowed_bytes)


def table(report: Report) -> str:
    """The report for a reader."""
    lines = ["  size  way     op   transfers/s     GB/s  to ib_write_bw  gateway CPU ms/transfer"]
    for one in sorted(report.measurements, key=lambda one: (one.size_bytes, one.operation)):
        ratio = one.rate_gb_s / report.ib_write_bw_gb_s[one.size_bytes]
        lines.append(
            f"{format_size(one.size_bytes):>6}  {one.way:<6}  {one.operation}  "
            f"{1 / one.seconds:11.1f}  {one.rate_gb_s:7.3f}  {ratio:14.3f}"
            f"  {one.cpu_s_per_transfer * 1e3:23.1f}"
        )
    lines.append(
        f"gateway's peak memory: {report.peak_rss_bytes / MIB:.0f} MiB"
        f" (allowed: all staging + 150 MiB = {report.allowed_rss_bytes / MIB:.0f} MiB)"
    )
    return "\n".join(lines)


def main() -> None:
    """Run, print, and fail where the gateway took more memory than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")  # no disk in the numbers
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        report = run(Path(directory))
    print(json.dumps(asdict(report), indent=2) if arguments.json else table(report))
    if report.peak_rss_bytes > report.allowed_rss_bytes:
        raise SystemExit("the gateway took more memory than staging + 150 MiB")


if __name__ == "__main__":
    main()
