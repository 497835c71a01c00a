"""ib_write_bw of perftest, the yardstick: RDMA WRITEs with nothing around them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

LIMIT_S = 120.0
LEAST_ITERATIONS = 5  # perftest refuses fewer
BYTES_PER_RUN = 128 * 1024**2


@dataclass(frozen=True, slots=True)
class Link:
    """Two ends of RDMA: perftest's server on one device, its client on the other."""

    server_device: str
    server_address: str
    client_device: str
    gid_index: int


def write_bandwidth_gb_s(link: Link, message_bytes: int) -> float:
    """The average that ib_write_bw reports for one message size, in 10^9 bytes per second."""
    iterations = max(LEAST_ITERATIONS, BYTES_PER_RUN // message_bytes)
    common = ["-x", str(link.gid_index), "-s", str(message_bytes), "-n", str(iterations)]
    common += ["-F", "--report_gbits"]
    server = subprocess.Popen(
        ["stdbuf", "-oL", "ib_write_bw", "-d", link.server_device, *common],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_until_listening(server)
        client = subprocess.run(
            ["ib_write_bw", "-d", link.client_device, *common, link.server_address],
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    finally:
        server.terminate()
        server.wait()
    return _average_gb_s(client.stdout, message_bytes)


def _wait_until_listening(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    seen = []
    for line in server.stdout:
        seen.append(line)
        if "Waiting for client" in line:
            return
    raise RuntimeError("ib_write_bw did not start:\n" + "".join(seen))


def _average_gb_s(output: str, message_bytes: int) -> float:
    """Row: bytes, iterations, peak, average [Gb/s], message rate."""
    rows = (line.split() for line in output.splitlines())
    row = next(row for row in rows if row[:1] == [str(message_bytes)])
    return float(row[3]) / 8
