"""The fabric, its staging, and the sessions and connections on it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import KIB, MIB, format_size, setting

PRIVATE_NETWORKS = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
    *("::1/128", "fc00::/7", "fe80::/10"),
)
"""Loopback, private use and link-local (RFC 6890)."""


@dataclass(frozen=True, slots=True)
class LaneClass:
    """`count` lanes of `length_bytes` each; as text ``6x64MiB``."""

    count: int
    length_bytes: int

    def __str__(self) -> str:
        return f"{self.count}x{format_size(self.length_bytes)}"


@dataclass(frozen=True, slots=True)
class RdmaConfig:
    """The fabric and the sessions on it.

    `lanes` is the arena: pinned at start, sum = the staging the gateway holds. A PUT needs a lane
    as long as the object, so the longest class is `max_transfer_bytes`.
    """

    fabric: str = setting(
        "auto",
        "auto takes a device, else soft: RoCE v2 over UDP, without one",
        choices=("auto", "verbs", "soft", "off"),
    )
    device: str = setting("", "RDMA device; empty for the first usable one")
    port: int = setting(1, "port of the device", high=255)
    gid_index: int = setting(-1, "-1 chooses by type and address family", low=-1, high=255)
    mtu_cap_bytes: int = setting(4096, "no larger path MTU than this", low=256, high=4096)
    soft_address: str = setting("", "of the soft fabric; empty for a free one of 127.0.0.0/8")
    soft_carrier: str = setting(
        "auto",
        "of the soft fabric: auto is local with peers of this host, UDP with all others",
        choices=("auto", "udp", "local"),
    )
    allowed_networks: tuple[str, ...] = setting(
        PRIVATE_NETWORKS, "where peers on Ethernet may be, comma-separated"
    )
    lanes: tuple[LaneClass, ...] = setting(
        (LaneClass(32, 1 * MIB), LaneClass(12, 8 * MIB), LaneClass(6, 64 * MIB)),
        "pinned staging, as COUNTxSIZE,…; the longest lane bounds an RDMA PUT",
    )
    slot_bytes: int = setting(
        4 * MIB, "longest piece that files are read and written in", low=4 * KIB
    )
    connections: int = setting(
        256, "connections (rc: tokens) that are open at once", low=0, high=4096
    )
    connections_per_key: int = setting(128, "connections of one access key at once")
    connection_staging_bytes: int = setting(
        128 * MIB, "pinned staging that all connections share, in slots", low=64 * KIB
    )
    connection_idle_timeout_s: float = setting(300.0, "until an idle connection ends", low=1)
    max_waiting: int = setting(4096, "transfers of connections that wait for staging at once")
    unsigned_connect: bool = setting(False, "admit clients that do not sign their connect")
    max_unsigned_connections: int = setting(4, "connections that no key has used yet")
    write_bytes: int = setting(
        8 * MIB, "longest single WRITE of a GET", low=4 * KIB, high=2**31 - 1
    )
    receive_sge: bool = setting(False, "give receives an SGE, for NICs that refuse num_sge = 0")
    io_threads: int = setting(2, "threads that move bytes between files and staging", high=256)
    spin_us: int = setting(
        20, "busy polling before the completion channel is armed", low=0, high=1000
    )
    quarantine_s: float = setting(0.2, "that a QPN rests before it is used again", low=0)
    prepare_timeout_s: float = setting(10.0, "from PREPARE to READY", low=0.1)
    transfer_timeout_s: float = setting(30.0, "for a data phase", low=0.1)
    drain_timeout_s: float = setting(2.0, "for flushing a queue pair", low=0.1)
    max_sessions: int = setting(256, "sessions at once")
    max_sessions_per_key: int = setting(128, "sessions of one access key at once")

    @property
    def max_transfer_bytes(self) -> int:
        """The longest PUT that one session carries."""
        return max((lane.length_bytes for lane in self.lanes), default=0)

    @property
    def staging_bytes(self) -> int:
        """All pinned memory: the lanes' and what connections share."""
        lanes_bytes = sum(lane.count * lane.length_bytes for lane in self.lanes)
        return lanes_bytes + (self.connection_staging_bytes if self.connections else 0)
