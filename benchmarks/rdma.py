"""PUT and GET by RDMA and by HTTP through a real gateway, beside ib_write_bw on the same device.

`make bench` runs it where there is an RDMA device, or in the rig's virtual machine. There every
absolute number is an emulator's; what counts is the ratio to ib_write_bw, measured in the same run,
message size by message size. Prints a table; `--json` prints the same as JSON.

A transfer's time is what a program waits for: signing, PREPARE, READY, the data, the checksum, the
commit. CPU is the gateway process's own, user and system, all threads; the kernel's Soft-RoCE
threads are not in it.
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

from gateway.client import RdmaMode, SyncClient, Transfer, TransferPath
from gateway.config import MIB, RdmaConfig

SIZES_BYTES = (1 * MIB, 16 * MIB, 64 * MIB)
BYTES_PER_ROW = 64 * MIB  # repeat each transfer until about this much has moved
LEAST_ROUNDS = 3
ALLOWANCE_BYTES = 150 * MIB  # of the gateway's memory, besides its staging
BUCKET = "bench"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operation at one size. Rates in 10^9 bytes per second, by the median transfer."""

    operation: str
    carrier: str
    size_bytes: int
    rate_gb_s: float
    cpu_s_per_gb: float


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
    """(median rate in GB/s, the gateway's CPU seconds per GB) of repeated transfers."""
    transfer()  # the first one opens connections and touches fresh memory
    rounds = max(LEAST_ROUNDS, BYTES_PER_ROW // size_bytes)
    before_s = gateway.cpu_s()
    seconds = [transfer().seconds for _ in range(rounds)]
    cpu_s = gateway.cpu_s() - before_s
    return size_bytes / median(seconds) / 1e9, cpu_s / (rounds * size_bytes / 1e9)


def measure(
    gateway: GatewayProcess, client: SyncClient, carrier: TransferPath, size_bytes: int
) -> Iterator[Measurement]:
    """PUT and GET of one size by one carrier; what comes back must be what went in."""
    data, back = bytearray(random.Random(size_bytes).randbytes(size_bytes)), bytearray(size_bytes)
    key = f"object-{size_bytes}"
    transfers: dict[str, Callable[[], Transfer]] = {
        "PUT": lambda: client.put_from(BUCKET, key, data),
        "GET": lambda: client.get_into(BUCKET, key, back, length=size_bytes),
    }
    for operation, transfer in transfers.items():
        rate_gb_s, cpu_s_per_gb = timed(gateway, size_bytes, transfer)
        yield Measurement(operation, carrier.value, size_bytes, rate_gb_s, cpu_s_per_gb)
    if back != data:
        raise RuntimeError(f"{carrier.value}: {size_bytes} bytes came back altered")


def run(directory: Path) -> Report:
    """The yardstick first, alone on the machine; then the gateway."""
    ends = link()
    yardstick = {size: write_bandwidth_gb_s(ends, size) for size in SIZES_BYTES}
    device = ends.client_device
    with (
        gateway_process(directory, "--rdma-device", ends.server_device) as gateway,
        open_client(gateway, RdmaMode.REQUIRE, device) as by_rdma,
        open_client(gateway, RdmaMode.NEVER, device) as by_http,
    ):
        by_http.create_bucket(BUCKET)
        measurements: list[Measurement] = []
        for size_bytes in SIZES_BYTES:
            measurements += measure(gateway, by_rdma, TransferPath.RDMA, size_bytes)
            measurements += measure(gateway, by_http, TransferPath.HTTP, size_bytes)
        allowed_bytes = RdmaConfig().staging_bytes + ALLOWANCE_BYTES
        return Report(yardstick, measurements, gateway.peak_rss_bytes(), allowed_bytes)


def table(report: Report) -> str:
    """The report for a reader."""
    lines = ["   size  path  op     GB/s  ib_write_bw  ratio  gateway CPU s/GB"]
    for one in report.measurements:
        yardstick_gb_s = report.ib_write_bw_gb_s[one.size_bytes]
        lines.append(
            f"{one.size_bytes // MIB:3d} MiB  {one.carrier}  {one.operation}  {one.rate_gb_s:7.3f}"
            f"  {yardstick_gb_s:11.3f}  {one.rate_gb_s / yardstick_gb_s:5.2f}"
            f"  {one.cpu_s_per_gb:16.2f}"
        )
    lines.append(
        f"gateway's peak memory: {report.peak_rss_bytes / MIB:.0f} MiB"
        f" (allowed: staging + 150 MiB = {report.allowed_rss_bytes / MIB:.0f} MiB)"
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
