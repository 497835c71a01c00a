"""perftest's ib_write_bw and ib_write_lat, the yardsticks: WRITEs with nothing around them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LIMIT_S = 120.0
LEAST_ITERATIONS = 5  # perftest refuses fewer
MOST_LATENCIES = 1000
BYTES_PER_RUN = 128 * 1024**2


@dataclass(frozen=True, slots=True)
class Link:
    """Two ends of RDMA: perftest's server on one device, its client on the other."""

    server_device: str
    server_address: str
    client_device: str
    gid_index: int


def write_bandwidth_gb_s(link: Link, message_bytes: int, queue_pairs: int = 1) -> float:
    """The average that ib_write_bw reports for one message size, in 10^9 bytes per second.

    Args:
        link: the ends.
        message_bytes: of each WRITE.
        queue_pairs: how many, all at once.
    """
    iterations = max(LEAST_ITERATIONS, BYTES_PER_RUN // message_bytes // queue_pairs)
    flags = ["--report_gbits", "-q", str(queue_pairs)]
    row = _row("ib_write_bw", link, message_bytes, iterations, *flags)
    return float(row[3]) / 8  # bytes, iterations, peak, average [Gb/s], message rate


def write_latency_s(link: Link, message_bytes: int) -> float:
    """The typical time of one WRITE, there and seen, that ib_write_lat reports."""
    most = min(MOST_LATENCIES, BYTES_PER_RUN // message_bytes)
    row = _row("ib_write_lat", link, message_bytes, max(LEAST_ITERATIONS, most))
    return float(row[4]) / 1e6  # bytes, iterations, least, most, typical [us], …


def _row(tool: str, link: Link, message_bytes: int, iterations: int, *flags: str) -> list[str]:
    """The line of its table for this size, in words."""
    sizes = ["-x", str(link.gid_index), "-s", str(message_bytes), "-n", str(iterations), "-F"]
    with _serving([tool, "-d", link.server_device, *sizes, *flags]):
        client = subprocess.run(
            [tool, "-d", link.client_device, *sizes, *flags, link.server_address],
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    rows = (line.split() for line in client.stdout.splitlines())
    return next(row for row in rows if row[:1] == [str(message_bytes)])


@contextmanager
def _serving(command: list[str]) -> Iterator[None]:
    """The other end, listening."""
    server = subprocess.Popen(
        ["stdbuf", "-oL", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert server.stdout is not None
        seen = []
        for line in server.stdout:
            seen.append(line)
            if "Waiting for client" in line:
                break
        else:
            raise RuntimeError(f"{command[0]} did not start:\n" + "".join(seen))
        yield
    finally:
        server.terminate()
        server.wait()
