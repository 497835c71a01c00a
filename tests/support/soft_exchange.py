"""Run as a program: an exchange of two soft fabrics on loopback, and what was on the wire as pcap.

    unshare --net python soft_exchange.py OUT.pcap 4|6

It wants a network namespace of its own, because it sets loopback up as a wire would be: with one
packet in a frame (gso_max_segs 1), and with two IPv6 addresses.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gateway.config import KIB, LaneClass, RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import Need

PATH_MTU_BYTES = 1024
LENGTHS = (1, 4 * KIB, 70 * KIB + 3)
DEADLINE_S = 20.0
REFUSED_FOR_S = 0.02  # some RNR timers of 0.64 ms
COOKIE = 0xC00C1E04
BUFFER_BYTES = 1 << 22
SNAP_BYTES = 1 << 16
ADDRESSES = {"4": ("127.9.0.1", "127.9.0.2"), "6": ("fd00::1", "fd00::2")}
CONFIG = RdmaConfig(
    fabric="soft",
    soft_carrier="udp",
    mtu_cap_bytes=PATH_MTU_BYTES,
    lanes=(LaneClass(1, 128 * KIB),),
    quarantine_s=0.0,
)
ETH_P_ALL = 3
PCAP_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP_BYTES, 1)  # pcap-savefile(5)


def set_up_loopback() -> None:
    """Up, no frames of several packets, and the addresses that IPv6 lacks."""
    for command in (
        "ip link set lo up gso_max_segs 1",
        "ip address add fd00::1/128 dev lo nodad",
        "ip address add fd00::2/128 dev lo nodad",
    ):
        subprocess.run(command.split(), check=True)


async def write(gateway: EngineFabric, client: EngineFabric, length: int) -> None:
    """WRITE with immediate, whose receive comes late: an RNR NAK is among the answers."""
    ours = gateway.lease(Need.RECEIVE, length)
    theirs = client.attach(bytes(range(256)) * (length // 256 + 1), remote_write=False)
    ours.connect(theirs.local)
    theirs.connect(ours.local)
    writing = asyncio.ensure_future(theirs.write(length, ours.buffer, COOKIE, DEADLINE_S))
    await asyncio.wait({writing}, timeout=REFUSED_FOR_S)
    ours.post_receive()
    await writing
    await ours.received(COOKIE, length, DEADLINE_S)
    await asyncio.gather(ours.close(), theirs.close())


async def read(
    gateway: EngineFabric, client: EngineFabric, length: int, *, permitted: bool
) -> None:
    ours = gateway.lease(Need.RECEIVE, length)
    theirs = client.attach(bytes(length), remote_write=False, remote_read=True)
    ours.connect(theirs.local)
    theirs.connect(ours.local)
    buffer = theirs.buffer if permitted else replace(theirs.buffer, rkey=theirs.buffer.rkey ^ 1)
    try:
        await ours.read(length, buffer, DEADLINE_S)
    except CompletionError:
        if permitted:
            raise
    await asyncio.gather(ours.close(), theirs.close())


async def exchange(family: str) -> None:
    ours, theirs = (replace(CONFIG, soft_address=address) for address in ADDRESSES[family])
    gateway, client = open_fabric(ours, arena=True), open_fabric(theirs, arena=False)
    for length in LENGTHS:
        await write(gateway, client, length)
        await read(gateway, client, length, permitted=True)
    await read(gateway, client, LENGTHS[0], permitted=False)
    await asyncio.gather(gateway.close(), client.close())


def frames(tap: socket.socket) -> Iterator[bytes]:
    """What has gone out; on loopback the same comes in again."""
    while True:
        try:
            frame, origin = tap.recvfrom(SNAP_BYTES)
        except BlockingIOError:
            return
        if origin[2] == socket.PACKET_OUTGOING:
            yield frame


def main() -> None:
    """Exchange, then write down what the tap has held."""
    path, family = Path(sys.argv[1]), sys.argv[2]
    set_up_loopback()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        tap.bind(("lo", 0))
        tap.setblocking(False)
        asyncio.run(exchange(family))
        rows = [struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames(tap)]
    path.write_bytes(PCAP_HEAD + b"".join(rows))


if __name__ == "__main__":
    main()
