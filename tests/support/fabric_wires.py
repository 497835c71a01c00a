"""The fabrics that this host can have, two of each: a gateway's with its arena, and a client's."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from awscrt.checksums import crc64nvme

from gateway.config import KIB, MIB, LaneClass, RdmaConfig
from gateway.dataplane import soft
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import CompletionClass, Lane, Need
from gateway.errors import S3Code, TransportError

COOKIE = 0xC00C1E01
DEADLINE_S = 60.0  # for what must end by itself, in an emulated machine too
MAX_SESSIONS = 8
LANES = (LaneClass(4, MIB),)
_BASE = RdmaConfig(quarantine_s=0.0, max_sessions=MAX_SESSIONS)
_BLOCK = os.urandom(1_048_573)  # a prime: no two pages of a pattern are alike soon


@dataclass(frozen=True)
class Wire:
    """One way for bytes from the gateway's fabric to a client's.

    Attributes:
        carrier: "verbs", "udp" or "local".
        apart: the client is a process of its own.
    """

    carrier: str
    apart: bool = False

    def __str__(self) -> str:
        return self.carrier + ("-two-processes" if self.apart else "")

    @property
    def soft(self) -> bool:
        return self.carrier != "verbs"

    @property
    def missing(self) -> str:
        """Why this host can't have it; "" where it can."""
        if self.soft:
            return _soft_problem(self.carrier)
        return "" if _devices() else "no RDMA device; `make test-rdma` has some"

    @property
    def client_config(self) -> RdmaConfig:
        return _config(self.carrier, first=False)

    def open_server(self, lanes: tuple[LaneClass, ...], **changes: Any) -> EngineFabric:
        config = replace(_config(self.carrier, first=True), lanes=lanes, **changes)
        return open_fabric(config, arena=True)

    @property
    def silence_s(self) -> float:
        """How long to wait for a peer that does not answer.

        Kernel Soft-RoCE with retry_cnt 7 retries for ever, so there our own deadline ends it.
        """
        return DEADLINE_S if self.soft else 3.0

    def assert_no_answer(self, error: TransportError) -> None:
        """`error` is what a peer that does not answer must end in."""
        if isinstance(error, CompletionError):
            assert error.wc_name == "RETRY_EXC_ERR"
            assert error.blame is CompletionClass.TRANSPORT
        else:
            assert not self.soft
            assert error.code is S3Code.RDMA_TRANSFER_TIMEOUT


WIRES = (
    Wire("verbs"),
    Wire("udp"),
    Wire("udp", apart=True),
    Wire("local"),
    Wire("local", apart=True),
)


def pair(ours: Any, theirs: Any) -> None:
    """Connect two lanes, as PREPARE's headers would."""
    ours.connect(theirs.local)
    theirs.connect(ours.local)


def leased_pair(server: EngineFabric, client: Any, data: bytes) -> tuple[Lane, Any]:
    """A connected PUT pair: `data` waits at the client, a receive at the gateway."""
    ours = server.lease(Need.RECEIVE, len(data))
    theirs = client.attach(data, remote_write=False)
    ours.post_receive()
    pair(ours, theirs)
    return ours, theirs


def attached_pair(server: EngineFabric, client: Any, size: int) -> tuple[Lane, Any]:
    """A connected GET pair: `size` zeros at the client, writable by the gateway."""
    ours = server.lease(Need.SEND, size)
    theirs = client.attach(bytearray(size), remote_write=True)
    pair(ours, theirs)
    return ours, theirs


def readable_pair(server: EngineFabric, client: Any, data: bytes) -> tuple[Lane, Any]:
    """A connected pair for READ: `data` waits at the client, room for it at the gateway."""
    ours = server.lease(Need.RECEIVE, len(data))
    theirs = client.attach(data, remote_write=False, remote_read=True)
    pair(ours, theirs)
    return ours, theirs


async def works(server: EngineFabric, client: Any) -> None:
    """One transfer over each lane of the arena, then all are back: the baseline."""
    lanes, data = server.idle_lanes, b"z" * 3 * KIB
    for _ in range(lanes):
        ours, theirs = leased_pair(server, client, data)
        await theirs.write(len(data), ours.buffer, COOKIE, DEADLINE_S)
        assert await ours.received(COOKIE, len(data), DEADLINE_S) == len(data)
        assert ours.memory[: len(data)] == data
        await ours.close()
        await theirs.close()
    assert server.idle_lanes == lanes


def pattern(size: int) -> bytes:
    """`size` bytes that no shift makes equal."""
    return (_BLOCK * (size // len(_BLOCK) + 1))[:size]


def same(memory: memoryview, data: bytes) -> bool:
    """Whether they are equal: in pieces, since a memoryview compares byte by byte, and slowly."""
    pieces = range(0, len(data), MIB)
    return len(memory) == len(data) and all(
        bytes(memory[at : at + MIB]) == data[at : at + MIB] for at in pieces
    )


def file_of(data: bytes) -> int:
    """A file in memory; the caller closes it."""
    fd = os.memfd_create("object")
    os.write(fd, data)
    return fd


def sums_of(data: bytes) -> bytes:
    """What a file that keeps sums has behind its bytes: a CRC-64/NVME for each 64 KiB."""
    blocks = (data[at : at + 64 * KIB] for at in range(0, len(data), 64 * KIB))
    return b"".join(crc64nvme(block).to_bytes(8, "big") for block in blocks)


@cache
def _devices() -> list[str]:
    """The rig's devices, or the host's."""
    listed = Path("/sys/class/infiniband")
    there = sorted(os.listdir(listed)) if listed.exists() else []
    return os.environ.get("RDMA_VM_DEVICES", "").split() or there


def _config(carrier: str, *, first: bool) -> RdmaConfig:
    """Of a carrier's two ends the first, or the last: two devices where there are two."""
    if carrier == "verbs":
        return replace(_BASE, fabric="verbs", device=_devices()[0 if first else -1])
    return replace(_BASE, fabric="soft", soft_carrier=carrier)


@cache
def _soft_problem(carrier: str) -> str:
    return str(soft.problem(_config(carrier, first=True)) or "")


AT_HAND = tuple(wire for wire in WIRES if not wire.missing)
