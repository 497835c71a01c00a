"""A fabric's numbers as metrics: every field of what it counts and of what is in use."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.dataplane.census import FabricCounters, FabricUsage, Occupancy
from gateway.dataplane.port import Fabric
from gateway.telemetry import catalogue as names
from gateway.telemetry.measures import Sample


class FabricMeters:
    """Asks one fabric whenever somebody looks; keeps ``telemetry.measures.Measured``."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def metrics(self) -> Iterator[Sample]:
        info = self._fabric.info
        yield names.FABRIC_UP.sample(self._fabric.healthy)
        yield names.FABRIC_INFO.sample(
            1, info.kind, info.device, str(info.port), info.gid.hex(":", 2), str(info.mtu_bytes)
        )
        yield from counted(self._fabric.counters())
        yield from used(self._fabric.usage())


def counted(now: FabricCounters) -> Iterator[Sample]:
    """What was done."""
    yield names.QUEUE_PAIRS_MADE.sample(now.queue_pairs_made)
    yield names.REGIONS_REGISTERED.sample(now.regions_registered)
    yield names.CORE_ALLOCATIONS.sample(now.heap_allocations)
    for status, count in now.completions.items():
        yield names.COMPLETIONS.sample(count, status)
    yield names.QUEUE_POLLS.sample(now.queue_polls)
    yield names.WAKEUPS.sample(now.wakeups)
    yield names.CORE_EVENTS.sample(now.events)
    for kind, count, length_bytes in (
        ("write", now.writes, now.written_bytes),
        ("read", now.reads, now.read_bytes),
        ("receive", now.receives, now.received_bytes),
    ):
        yield names.OPERATIONS.sample(count, kind)
        yield names.OPERATION_BYTES.sample(length_bytes, kind)
    yield names.PACKETS_RECEIVED.sample(now.packets_received)
    yield names.PACKETS_DROPPED.sample(now.packets_malformed, "malformed")
    yield names.PACKETS_DROPPED.sample(now.packets_corrupt, "corrupt")
    yield names.PACKETS_DROPPED.sample(now.packets_unknown, "unknown")
    yield names.DATAGRAMS_UNSENT.sample(now.datagrams_unsent)
    yield names.RETRANSMISSIONS.sample(now.retransmissions)
    yield names.ACK_TIMEOUTS.sample(now.timeouts)


def used(now: FabricUsage) -> Iterator[Sample]:
    """What is lent."""
    yield from _occupied("lane", now.lanes)
    yield from _occupied("connection", now.connections)
    yield names.SLOTS.sample(now.slots_in_use, "in_use")
    yield names.SLOTS.sample(now.slots_total - now.slots_in_use, "free")
    yield names.SLOT_BYTES.sample(now.slot_bytes)
    yield names.SLOT_WAITERS.sample(sum(now.slot_waiters.values()))


def _occupied(use: str, now: Occupancy) -> Iterator[Sample]:
    yield names.QUEUE_PAIRS.sample(now.free, use, "free")
    yield names.QUEUE_PAIRS.sample(now.leased, use, "leased")
    yield names.QUEUE_PAIRS.sample(now.resting, use, "resting")
