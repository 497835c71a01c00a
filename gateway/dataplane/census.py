"""What a fabric has done and what of it is in use, as values: for metrics, and for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FabricCounters:
    """What a fabric has done since it was opened; every number only grows.

    The first three are what a transfer must not add to. Those of packets, and what follows from
    them, are the soft fabric's: a device does that by itself, and they stay 0.

    Attributes:
        queue_pairs_made: those in place of others too.
        regions_registered: pieces of memory.
        heap_allocations: by the C core itself, which frees them with what they are for.
        completions: work requests that ended, by wc.status ("SUCCESS", "RETRY_EXC_ERR", …).
        queue_polls: of the completion queue.
        wakeups: of the thread that polls it, out of sleep.
        events: from the C core to the event loop.
        writes / written_bytes: WRITEs of ours that the peer has acknowledged.
        reads / read_bytes: READs of ours that have arrived.
        receives / received_bytes: peers' WRITEs with immediate.
        packets_received: UDP payloads, also those that were dropped:
        packets_malformed / packets_corrupt: not RoCE v2, and of a wrong ICRC.
        packets_unknown: to no queue pair, or not from its peer.
        datagrams_unsent: refused by the kernel, and so lost.
        retransmissions: times that a queue pair went back to what it had sent.
        timeouts: those of them that the transport timer caused.
    """

    queue_pairs_made: int
    regions_registered: int
    heap_allocations: int
    completions: Mapping[str, int]
    queue_polls: int
    wakeups: int
    events: int
    writes: int
    written_bytes: int
    reads: int
    read_bytes: int
    receives: int
    received_bytes: int
    packets_received: int
    packets_malformed: int
    packets_corrupt: int
    packets_unknown: int
    datagrams_unsent: int
    retransmissions: int
    timeouts: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Queue pairs of one kind, now: free to lend, lent, and resting before they are lent again."""

    free: int
    leased: int
    resting: int


@dataclass(frozen=True, slots=True)
class FabricUsage:
    """What of a gateway's fabric is in use now; all zeros where it was opened without an arena.

    Attributes:
        lanes: of the arena.
        connections: queue pairs that stay.
        slots_in_use / slots_total: staging of the connections' moves, in slots.
        slot_bytes: length of each.
        slot_waiters: moves that wait for slots, by access key; keys that wait for none are absent.
    """

    lanes: Occupancy
    connections: Occupancy
    slots_in_use: int
    slots_total: int
    slot_bytes: int
    slot_waiters: Mapping[str, int]
