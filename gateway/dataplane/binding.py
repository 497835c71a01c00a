"""The door to C: the only importer of the compiled module. C names here, Python names above.

Each function calls the one of its name in ``dataplane_c/include/dataplane.h``, which says what it
does; a negative result becomes OSError with that errno. Handles and structs are opaque (``Any``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from typing_extensions import Buffer

from gateway._dataplane import ffi, lib
from gateway.dataplane.census import FabricCounters
from gateway.wire.extent import FileExtent

T = TypeVar("T")

DRAIN_BATCH = 64

LINK_INFINIBAND: int = lib.DP_LINK_INFINIBAND
LINK_ETHERNET: int = lib.DP_LINK_ETHERNET
TRANSPORT_IB: int = lib.DP_TRANSPORT_IB
TRANSPORT_IWARP: int = lib.DP_TRANSPORT_IWARP
ACCESS_NONE: int = lib.DP_ACCESS_NONE
ACCESS_LOCAL_WRITE: int = lib.DP_ACCESS_LOCAL_WRITE
ACCESS_REMOTE_WRITE: int = lib.DP_ACCESS_REMOTE_WRITE
ACCESS_REMOTE_READ: int = lib.DP_ACCESS_REMOTE_READ
HEALTH_OK: int = lib.DP_HEALTH_OK
NETWORKS_MAX: int = lib.DP_NETWORKS_MAX
MOVES_MAX: int = lib.DP_MOVES_MAX
MOVE_SLOTS: int = lib.DP_MOVE_SLOTS
FIRST_PIECE_BYTES: int = lib.DP_FIRST_PIECE_BYTES
FABRIC_VERBS: int = lib.DP_FABRIC_VERBS
FABRIC_SOFT: int = lib.DP_FABRIC_SOFT
CARRIERS = {
    "auto": lib.DP_CARRIER_AUTO,
    "udp": lib.DP_CARRIER_UDP,
    "local": lib.DP_CARRIER_LOCAL,
}
"""By the words of rdma.soft_carrier."""


class EventKind(IntEnum):
    """enum dp_event_kind."""

    SENT = lib.DP_EVENT_SENT
    WRITTEN = lib.DP_EVENT_WRITTEN
    READ = lib.DP_EVENT_READ
    RECEIVED = lib.DP_EVENT_RECEIVED
    DRAINED = lib.DP_EVENT_DRAINED
    HEALTH = lib.DP_EVENT_HEALTH
    MOVED = lib.DP_EVENT_MOVED


class MoveDirection(IntEnum):
    """enum dp_direction."""

    SEND = lib.DP_MOVE_SEND
    FETCH = lib.DP_MOVE_FETCH


class Event(NamedTuple):
    """struct dp_event. `status` is 0 or -errno; the fields after it hold as the header says."""

    tag: int
    kind: EventKind
    status: int = 0
    bytes_done: int = 0
    wc_status: int = 0
    qp_state: int = 0
    imm: int = 0
    write_imm: bool = False


def _ensure(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _listed(struct: str, call: Callable[[Any, int], int], convert: Callable[[Any], T]) -> list[T]:
    """Call a list function until its array is long enough.

    Each row goes through `convert` here: a row of a cffi array does not keep the array alive.
    """
    count = 16
    while True:
        rows = ffi.new(f"struct {struct}[]", count)
        found = _ensure(call(rows, count))
        if found <= count:
            return [convert(rows[i]) for i in range(found)]
        count = found


def port_list(convert: Callable[[Any], T]) -> list[T]:
    return _listed("dp_port", lib.dp_port_list, convert)


def gid_list(device: str, port: int, convert: Callable[[Any], T]) -> list[T]:
    name = device.encode()
    return _listed(
        "dp_gid", lambda rows, count: int(lib.dp_gid_list(name, port, rows, count)), convert
    )


def text(field: Any) -> str:
    """A char array of a struct."""
    return bytes(ffi.string(field)).decode(errors="replace")


def raw(field: Any) -> bytes:
    """A byte array of a struct."""
    return bytes(field)


def fabric_open(**options: object) -> Any:
    """Options are the fields of struct dp_fabric_options; `device` is bytes."""
    out = ffi.new("struct dp_fabric **")
    _ensure(lib.dp_fabric_open(ffi.new("struct dp_fabric_options *", options), out))
    return out


def fabric_query(fabric: Any) -> Any:
    info = ffi.new("struct dp_fabric_info *")
    lib.dp_fabric_query(fabric[0], info)
    return info


def fabric_fd(fabric: Any) -> int:
    return int(lib.dp_fabric_fd(fabric[0]))


def event_rows() -> Any:
    """Room for DRAIN_BATCH events."""
    return ffi.new("struct dp_event[]", DRAIN_BATCH)


def fabric_drain(fabric: Any, rows: Any) -> list[Event]:
    """Up to DRAIN_BATCH events, by way of `rows` (`event_rows`); fewer are all there were."""
    count = lib.dp_fabric_drain(fabric[0], rows, DRAIN_BATCH)
    return [
        Event(
            tag=row.tag,
            kind=EventKind(row.kind),
            status=row.status,
            bytes_done=row.bytes,
            wc_status=row.wc_status,
            qp_state=row.qp_state,
            imm=row.imm,
            write_imm=bool(row.flags & lib.DP_EVENT_WRITE_IMM),
        )
        for row in (rows[i] for i in range(count))
    ]


def fabric_health(fabric: Any) -> int:
    return int(lib.dp_fabric_health(fabric[0]))


def fabric_counters(fabric: Any) -> FabricCounters:
    rows = ffi.new("struct dp_counters *")
    lib.dp_fabric_counters(fabric[0], rows)
    counts = rows.counts
    return FabricCounters(
        queue_pairs_made=counts[lib.DP_COUNT_QUEUE_PAIRS],
        regions_registered=counts[lib.DP_COUNT_REGIONS],
        heap_allocations=counts[lib.DP_COUNT_ALLOCATIONS],
        completions={wc_name(i): rows.completions[i] for i in range(lib.DP_STATUSES)},
        queue_polls=counts[lib.DP_COUNT_POLLS],
        wakeups=counts[lib.DP_COUNT_WAKEUPS],
        events=counts[lib.DP_COUNT_EVENTS],
        writes=counts[lib.DP_COUNT_WRITES],
        written_bytes=counts[lib.DP_COUNT_WRITTEN_BYTES],
        reads=counts[lib.DP_COUNT_READS],
        read_bytes=counts[lib.DP_COUNT_READ_BYTES],
        receives=counts[lib.DP_COUNT_RECEIVES],
        received_bytes=counts[lib.DP_COUNT_RECEIVED_BYTES],
        packets_received=counts[lib.DP_COUNT_PACKETS],
        packets_malformed=counts[lib.DP_COUNT_PACKETS_MALFORMED],
        packets_corrupt=counts[lib.DP_COUNT_PACKETS_CORRUPT],
        packets_unknown=counts[lib.DP_COUNT_PACKETS_UNKNOWN],
        datagrams_unsent=counts[lib.DP_COUNT_DATAGRAMS_UNSENT],
        retransmissions=counts[lib.DP_COUNT_RETRANSMISSIONS],
        timeouts=counts[lib.DP_COUNT_TIMEOUTS],
    )


def fabric_close(fabric: Any) -> None:
    lib.dp_fabric_close(fabric)


def slab_map(length_bytes: int) -> Any:
    """Memory that stays mapped until the last view of it (``ffi.buffer``) is gone."""
    length = ffi.new("uint64_t *", length_bytes)
    out = ffi.new("void **")
    _ensure(lib.dp_slab_map(length, out))
    mapped = length[0]
    slab = ffi.cast("uint8_t *", out[0])
    return ffi.gc(slab, lambda memory: lib.dp_slab_unmap(memory, mapped), size=mapped)


def view(memory: Any, length_bytes: int) -> memoryview:
    """The bytes behind a slab; keeps it alive."""
    return memoryview(ffi.buffer(memory, length_bytes))


def borrow(buffer: Buffer, *, writable: bool) -> Any:
    """The address of a Python buffer, which can neither move nor shrink while this is alive."""
    return ffi.from_buffer("uint8_t[]", buffer, require_writable=writable)


def release(borrowed: Any) -> None:
    """End a `borrow`: the buffer may move and shrink again."""
    ffi.release(borrowed)


def address(memory: Any) -> int:
    return int(ffi.cast("uintptr_t", memory))


def domain_open(fabric: Any) -> Any:
    out = ffi.new("struct dp_domain **")
    _ensure(lib.dp_domain_open(fabric[0], out))
    return out


def domain_close(domain: Any) -> None:
    _ensure(lib.dp_domain_close(domain))


def region_open(domain: Any, memory: Any, length_bytes: int, access: int) -> Any:
    out = ffi.new("struct dp_region **")
    _ensure(lib.dp_region_open(domain[0], memory, length_bytes, access, out))
    return out


def region_close(region: Any) -> None:
    lib.dp_region_close(region)


def region_rkey(region: Any) -> int:
    return int(lib.dp_region_rkey(region[0]))


def lane_join(domain: Any, staging: Any | None, tag: int) -> Any:
    out = ffi.new("struct dp_lane **")
    _ensure(lib.dp_lane_join(domain[0], staging[0] if staging else ffi.NULL, tag, out))
    return out


def lane_open(fabric: Any, memory: Any, length_bytes: int, access: int, tag: int) -> Any:
    out = ffi.new("struct dp_lane **")
    _ensure(lib.dp_lane_open(fabric[0], memory, length_bytes, access, tag, out))
    return out


def lane_close(lane: Any) -> None:
    _ensure(lib.dp_lane_close(lane))


def lane_qpn(lane: Any) -> int:
    return int(lib.dp_lane_qpn(lane[0]))


def lane_rkey(lane: Any) -> int:
    return int(lib.dp_lane_rkey(lane[0]))


def lane_carrier(lane: Any) -> str:
    return text(lib.dp_lane_carrier(lane[0]))


def lane_prepare(lane: Any, psn: int, access: int) -> None:
    _ensure(lib.dp_lane_prepare(lane[0], psn, access))


def lane_connect(lane: Any, *, gid: bytes, qpn: int, psn: int, lid: int) -> None:
    peer = ffi.new("struct dp_peer *", {"gid": gid, "qpn": qpn, "psn": psn, "lid": lid})
    _ensure(lib.dp_lane_connect(lane[0], peer))


def lane_receive(lane: Any) -> int:
    return _ensure(lib.dp_lane_receive(lane[0]))


def _remote(addr: int, rkey: int, length_bytes: int) -> Any:
    return ffi.new("struct dp_remote *", {"addr": addr, "rkey": rkey, "length_bytes": length_bytes})


def _extents(extents: Sequence[FileExtent]) -> Any:
    return ffi.new(
        "struct dp_extent[]",
        [
            (extent.fd, 0, extent.offset_bytes, extent.length_bytes, extent.summed_bytes)
            for extent in extents
        ],
    )


def lane_move(
    lane: Any,
    *,
    tag: int,
    direction: MoveDirection,
    extents: Sequence[FileExtent],
    remote: tuple[int, int, int],
    imm: int | None,
    slot_bytes: int,
    slots: Sequence[int],
) -> Any:
    """Returns what must stay alive until the MOVED event. `remote` is (addr, rkey, length)."""
    rows = _extents(extents)
    move = ffi.new(
        "struct dp_move *",
        {
            "tag": tag,
            "direction": direction,
            "immediate": lib.DP_IMM_ABSENT if imm is None else lib.DP_IMM_PRESENT,
            "imm": imm or 0,
            "extent_count": len(extents),
            "extents": rows,
            "remote": _remote(*remote)[0],
            "slot_bytes": slot_bytes,
            "slot_count": len(slots),
            "slots": list(slots),
        },
    )
    _ensure(lib.dp_lane_move(lane[0], move))
    return rows


def lane_send(
    lane: Any, extents: Sequence[FileExtent], remote: tuple[int, int, int], imm: int | None
) -> Any:
    """Returns what must stay alive until the SENT event. `remote` is (addr, rkey, length)."""
    rows = _extents(extents)
    present = lib.DP_IMM_ABSENT if imm is None else lib.DP_IMM_PRESENT
    _ensure(lib.dp_lane_send(lane[0], rows, len(extents), _remote(*remote), present, imm or 0))
    return rows


def lane_write(lane: Any, length_bytes: int, remote: tuple[int, int, int], imm: int) -> None:
    _ensure(lib.dp_lane_write(lane[0], length_bytes, _remote(*remote), imm))


def lane_read(lane: Any, length_bytes: int, remote: tuple[int, int, int]) -> None:
    _ensure(lib.dp_lane_read(lane[0], length_bytes, _remote(*remote)))


def lane_abort(lane: Any) -> None:
    _ensure(lib.dp_lane_abort(lane[0]))


def lane_recycle(lane: Any) -> None:
    _ensure(lib.dp_lane_recycle(lane[0]))


def lane_replace(lane: Any) -> None:
    _ensure(lib.dp_lane_replace(lane[0]))


def memory_store(memory: Any, length_bytes: int, fd: int, offset_bytes: int) -> None:
    _ensure(lib.dp_memory_store(memory, length_bytes, fd, offset_bytes))


def wc_class(wc_status: int) -> int:
    return int(lib.dp_wc_class(wc_status))


def wc_name(wc_status: int) -> str:
    return text(lib.dp_wc_name(wc_status))


def qp_state_name(qp_state: int) -> str:
    return text(lib.dp_qp_state_name(qp_state))
