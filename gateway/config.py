"""Every setting and every limit, frozen, with its unit last in its name.

Values come from, each over the one before: the defaults here, a TOML file, environment variables
(``S3RDMA_<SECTION>_<NAME>``, with short ones for the common few), command-line flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

KIB, MIB, GIB = 1024, 1024**2, 1024**3


class Durability(Enum):
    """How much a commit waits for: file, directory and database; the data only; nothing."""

    FULL = "full"
    DATA = "data"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on what HTTP may bring. S3's own where S3 has one."""

    max_line_bytes: int = 16 * KIB  # request line and each header field
    max_header_bytes: int = 64 * KIB
    max_headers: int = 256
    max_object_bytes: int = 5 * GIB  # one PUT or part
    max_xml_bytes: int = 2 * MIB
    max_metadata_bytes: int = 2 * KIB
    max_key_bytes: int = 1024
    max_connections: int = 4096
    header_timeout_s: float = 30.0
    idle_timeout_s: float = 75.0
    body_stall_timeout_s: float = 60.0
    shutdown_grace_s: float = 30.0


@dataclass(frozen=True, slots=True)
class HttpConfig:
    host: str = "127.0.0.1"
    port: int = 9000
    region: str = "us-east-1"
    domains: tuple[str, ...] = ()
    limits: HttpLimits = field(default_factory=HttpLimits)


@dataclass(frozen=True, slots=True)
class LaneClass:
    """`count` lanes of `length_bytes` each."""

    count: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class RdmaConfig:
    """The fabric and the sessions on it.

    `lanes` is the arena: pinned at start, sum = the staging the gateway holds. A PUT needs a lane
    as long as the object, so the longest class is `max_transfer_bytes`.
    """

    fabric: str = "auto"  # auto | verbs | off
    device: str = ""  # "" = the first usable one
    port: int = 1
    gid_index: int = -1  # -1 = choose by type and address family
    mtu_cap_bytes: int = 4096
    lanes: tuple[LaneClass, ...] = (
        LaneClass(32, 1 * MIB),
        LaneClass(12, 8 * MIB),
        LaneClass(6, 64 * MIB),
    )
    slot_bytes: int = 1 * MIB  # of the ring that a GET is pipelined through
    write_bytes: int = 8 * MIB  # longest single WRITE of a GET
    receive_sge: bool = False  # give the receive an SGE, for NICs that refuse num_sge = 0
    io_threads: int = 2
    spin_us: int = 20
    quarantine_s: float = 0.2  # a QPN rests this long before it is used again
    prepare_timeout_s: float = 10.0
    transfer_timeout_s: float = 30.0
    drain_timeout_s: float = 2.0
    max_sessions: int = 256
    max_sessions_per_key: int = 128

    @property
    def max_transfer_bytes(self) -> int:
        """The longest PUT that one session carries."""
        return max((lane.length_bytes for lane in self.lanes), default=0)

    @property
    def staging_bytes(self) -> int:
        """All pinned memory."""
        return sum(lane.count * lane.length_bytes for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    root: Path = Path("data")
    durability: Durability = Durability.FULL
    upload_expiry_s: float = 7 * 86_400.0
    io_threads: int = 8
    max_staged: int = 1024


@dataclass(frozen=True, slots=True)
class LogConfig:
    level: str = "info"
    format: str = "text"  # text | json


@dataclass(frozen=True, slots=True)
class Config:
    """Everything `serve` needs."""

    http: HttpConfig = field(default_factory=HttpConfig)
    rdma: RdmaConfig = field(default_factory=RdmaConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    log: LogConfig = field(default_factory=LogConfig)
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
