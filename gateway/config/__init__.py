"""Every setting and every limit, frozen, with its unit last in its name.

A setting is written once, as a field here; its name, type, default, range and help become the TOML
key, the environment variable, the flag and the check (``gateway.config.load``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from pathlib import Path
from typing import TypeVar

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
PRIVATE_NETWORKS = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
    *("::1/128", "fc00::/7", "fe80::/10"),
)
"""Loopback, private use and link-local (RFC 6890)."""
_T = TypeVar("_T")


def _set(
    default: _T,
    text: str,
    *,
    low: float = 1,
    high: float = inf,
    choices: Sequence[str] = (),
    flag: bool = True,
    shown: bool = True,
) -> _T:
    """A field that is a setting.

    Args:
        default: the value where no source names another.
        text: one line of help.
        low: least value of a number; ignored for other types.
        high: greatest value of a number.
        choices: the words a text may be; () for any.
        flag: whether the command line may carry it (a secret must not: others read `ps`).
        shown: whether `repr` shows the value.
    """
    metadata = {"help": text, "low": low, "high": high, "choices": choices, "flag": flag}
    return field(default=default, metadata=metadata, repr=shown)


def format_size(length_bytes: int) -> str:
    """The shortest exact text: ``64MiB``, ``4097``."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if length_bytes and length_bytes % unit == 0:
            return f"{length_bytes // unit}{name}"
    return str(length_bytes)


class Durability(Enum):
    """How much a commit waits for: file, directory and database; the data only; nothing."""

    FULL = "full"
    DATA = "data"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on what HTTP may bring. S3's own where S3 has one."""

    max_line_bytes: int = _set(16 * KIB, "request line and each header field")
    max_header_bytes: int = _set(64 * KIB, "all header fields of a request together")
    max_headers: int = _set(256, "header fields of a request")
    max_object_bytes: int = _set(5 * GIB, "one PUT or part", high=5 * TIB)
    max_xml_bytes: int = _set(2 * MIB, "an XML request body")
    max_form_bytes: int = _set(20 * KIB, "a POST form up to its file")
    max_metadata_bytes: int = _set(2 * KIB, "user metadata of an object", low=0)
    max_key_bytes: int = _set(1024, "an object's key", high=1024)
    max_connections: int = _set(1024, "open connections; more are answered 503")
    header_timeout_s: float = _set(30.0, "from a head's first byte to its last", low=0.1)
    idle_timeout_s: float = _set(75.0, "of a connection between requests", low=0.1)
    body_stall_timeout_s: float = _set(60.0, "without a byte of a body moving, either way", low=0.1)
    shutdown_grace_s: float = _set(30.0, "for running requests after SIGTERM", low=0)
    discard_timeout_s: float = _set(5.0, "spent on reading a refused body", low=0)
    digest_threads: int = _set(2, "threads that hash bodies", high=256)
    max_settling: int = _set(16, "batches of bodies being hashed and written at once")
    read_ahead_bytes: int = _set(512 * KIB, "of an object that is read while the last are sent")
    max_read_aheads: int = _set(32, "replies that read ahead at once; others go in small pieces")


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where and as what the gateway is reached."""

    host: str = _set("127.0.0.1", "address to listen on")
    port: int = _set(9000, "port to listen on; 0 takes a free one", low=0, high=65535)
    region: str = _set("us-east-1", "region that signatures must name")
    domains: tuple[str, ...] = _set((), "domains of virtual-host addressing, comma-separated")
    limits: HttpLimits = field(default_factory=HttpLimits)


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

    fabric: str = _set(
        "auto",
        "auto takes a device, else soft: RoCE v2 over UDP, without one",
        choices=("auto", "verbs", "soft", "off"),
    )
    device: str = _set("", "RDMA device; empty for the first usable one")
    port: int = _set(1, "port of the device", high=255)
    gid_index: int = _set(-1, "-1 chooses by type and address family", low=-1, high=255)
    mtu_cap_bytes: int = _set(4096, "no larger path MTU than this", low=256, high=4096)
    soft_address: str = _set("", "of the soft fabric; empty for a free one of 127.0.0.0/8")
    soft_carrier: str = _set(
        "auto",
        "of the soft fabric: auto is local with peers of this host, UDP with all others",
        choices=("auto", "udp", "local"),
    )
    allowed_networks: tuple[str, ...] = _set(
        PRIVATE_NETWORKS, "where peers of the soft fabric may be, comma-separated"
    )
    lanes: tuple[LaneClass, ...] = _set(
        (LaneClass(32, 1 * MIB), LaneClass(12, 8 * MIB), LaneClass(6, 64 * MIB)),
        "pinned staging, as COUNTxSIZE,…; the longest lane bounds an RDMA PUT",
    )
    slot_bytes: int = _set(1 * MIB, "piece that files are read and written in", low=4 * KIB)
    connections: int = _set(64, "connections (rc: tokens) that are open at once", low=0, high=4096)
    connections_per_key: int = _set(16, "connections of one access key at once")
    connection_staging_bytes: int = _set(
        64 * MIB, "pinned staging that all connections share, in slots", low=64 * KIB
    )
    connection_idle_timeout_s: float = _set(300.0, "until an idle connection ends", low=1)
    max_waiting: int = _set(4096, "transfers of connections that wait for staging at once")
    unsigned_connect: bool = _set(False, "admit clients that do not sign their connect")
    max_unsigned_connections: int = _set(4, "connections that no key has used yet")
    write_bytes: int = _set(8 * MIB, "longest single WRITE of a GET", low=4 * KIB, high=2**31 - 1)
    receive_sge: bool = _set(False, "give receives an SGE, for NICs that refuse num_sge = 0")
    io_threads: int = _set(2, "threads that move bytes between files and staging", high=256)
    spin_us: int = _set(20, "busy polling before the completion channel is armed", low=0, high=1000)
    quarantine_s: float = _set(0.2, "that a QPN rests before it is used again", low=0)
    prepare_timeout_s: float = _set(10.0, "from PREPARE to READY", low=0.1)
    transfer_timeout_s: float = _set(30.0, "for a data phase", low=0.1)
    drain_timeout_s: float = _set(2.0, "for flushing a queue pair", low=0.1)
    max_sessions: int = _set(256, "sessions at once")
    max_sessions_per_key: int = _set(128, "sessions of one access key at once")

    @property
    def max_transfer_bytes(self) -> int:
        """The longest PUT that one session carries."""
        return max((lane.length_bytes for lane in self.lanes), default=0)

    @property
    def staging_bytes(self) -> int:
        """All pinned memory: the lanes' and what connections share."""
        lanes_bytes = sum(lane.count * lane.length_bytes for lane in self.lanes)
        return lanes_bytes + (self.connection_staging_bytes if self.connections else 0)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The embedded store."""

    root: Path = _set(Path("data"), "directory that holds everything")  # noqa: RUF009
    durability: Durability = _set(Durability.FULL, "what a commit waits for")  # noqa: RUF009
    upload_expiry_s: float = _set(7 * 86_400.0, "until a multipart upload is dropped")
    io_threads: int = _set(8, "threads for files and the database", high=256)
    max_staged: int = _set(1024, "objects being written at once")
    max_pending_changes: int = _set(4096, "changes of the catalog that wait for the disk")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log, on standard error."""

    level: str = _set("info", "least level", choices=("debug", "info", "warning", "error"))
    format: str = _set("text", "of the lines", choices=("text", "json"))


@dataclass(frozen=True, slots=True)
class Config:
    """Everything `serve` needs."""

    http: HttpConfig = field(default_factory=HttpConfig)
    rdma: RdmaConfig = field(default_factory=RdmaConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    log: LogConfig = field(default_factory=LogConfig)
    access_key: str = _set("", "access key id; one is made where none is set, nor a file of them")
    secret_key: str = _set("", "its secret (file or environment only)", flag=False, shown=False)
    credentials_file: str = _set("", "access keys in AWS's own format; read again when it changes")
