"""The ports of the data plane: what RDMA means to the rooms above it.

Vocabulary: a *fabric* is one opened device port; a *lane* is one queue pair with the registered
memory that only it can reach (a protection domain of its own, so that no other peer's rkey opens
it); a *lease* lends a lane of the gateway's arena to one session.

Ownership: whoever opened a lane closes it. ``close`` moves the QP to ERR, waits until every work
request is flushed, and only then frees or lends the memory again. Cancelling a coroutine frees
nothing; ``close`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from typing_extensions import Buffer

from gateway.dataplane.census import FabricCounters, FabricUsage
from gateway.wire.extent import FileExtent


class FabricUnavailable(Exception):  # noqa: N818 - it names a state of the host, not a mistake
    """RDMA can't be used here.

    Attributes:
        reason: what is missing, in plain words.
        remedy: what to do about it, a command where there is one.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}: {remedy}")
        self.reason = reason
        self.remedy = remedy


class LinkLayer(Enum):
    """What a port's packets travel over; Ethernet means RoCE."""

    ETHERNET = "Ethernet"
    INFINIBAND = "InfiniBand"


@dataclass(frozen=True, slots=True)
class FabricInfo:
    """One opened device port.

    Attributes:
        kind: "verbs" or "soft".
        gid: 16 raw bytes, network order.
        lid: 0 on Ethernet.
        mtu_bytes: the port's active MTU, capped by configuration; `mtu_active_bytes` uncapped.
        max_message_bytes: port's max_msg_sz.
        because: why this fabric and this port, as the end of a sentence for the operator.
    """

    kind: str
    device: str
    port: int
    gid: bytes
    gid_index: int
    lid: int
    link_layer: LinkLayer
    mtu_bytes: int
    max_message_bytes: int
    mtu_active_bytes: int = 0
    because: str = ""


@dataclass(frozen=True, slots=True)
class QpAddress:
    """Where a queue pair is found. `psn` is its first send PSN: 24 bits, random, never 0."""

    qpn: int
    psn: int
    gid: bytes
    lid: int


@dataclass(frozen=True, slots=True)
class RemoteBuffer:
    """A peer's registered memory. The rkey is never logged."""

    addr: int
    rkey: int
    length_bytes: int

    def __repr__(self) -> str:
        return f"RemoteBuffer(length_bytes={self.length_bytes})"


class CompletionClass(Enum):
    """Who is to blame for a failed completion, by wc.status alone."""

    LOCAL = "local"  # our own memory, length or QP state
    REMOTE = "remote"  # the peer refused: access, invalid request, operation
    TRANSPORT = "transport"  # no answer: retries or RNR retries exceeded, or our deadline
    FLUSH = "flush"  # the QP was already in error


class Need(Enum):
    """What a session will do with the arena's lane that it asks for."""

    SEND = "send"  # GET: a ring of slots; any lane will do, the peer gets no rights to it
    RECEIVE = "receive"  # PUT: the peer writes `length_bytes` into it


class Lane(Protocol):
    """One queue pair and its memory. Coroutines of the event loop's thread."""

    @property
    def local(self) -> QpAddress:
        """Our side, with a PSN drawn fresh for this use."""

    @property
    def buffer(self) -> RemoteBuffer:
        """The lane's memory as a peer may use it: what goes into token and mr headers."""

    @property
    def carrier(self) -> str:
        """What moves the bytes: "verbs" (a device), "udp", "local"; "" before that is settled.

        It is once a transfer has ended; closing the lane doesn't change it.
        """

    @property
    def memory(self) -> memoryview:
        """The lane's bytes, for hashing; valid until close."""

    async def dedicate(self, owner: str) -> None:
        """Before the memory is shown to `owner`: what anybody else left in it is overwritten.

        For a peer decides where in the lane its bytes go, and what is stored are the lane's first:
        of those it did not write itself, it would else read another's.
        """

    def connect(self, peer: QpAddress) -> None:
        """INIT → RTR (rq_psn = peer.psn) → RTS (sq_psn = our own).

        Raises ClientError(InvalidArgument) where the address can't be routed (LID 0 on
        InfiniBand, GID of another family), TransportError otherwise.
        """

    def post_receive(self) -> None:
        """Post the one receive that the peer's immediate consumes. Any time before it can come."""

    async def received(self, cookie: int, length_bytes: int | None, deadline_s: float) -> int:
        """Wait for the WRITE_WITH_IMM; returns its byte_len.

        Raises TransportError: imm != cookie, byte_len != length_bytes (where given), a failed
        completion, or RDMATransferTimeout after `deadline_s` seconds.
        """

    async def send_extents(
        self,
        extents: Sequence[FileExtent],
        to: RemoteBuffer,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        """Files → slots of this lane → WRITEs into `to`; the last carries `cookie` as immediate.

        One call into C, pipelined there. Returns the bytes sent once all were acknowledged.
        """

    async def write(
        self, length_bytes: int, to: RemoteBuffer, cookie: int, deadline_s: float
    ) -> None:
        """One WRITE_WITH_IMM of the lane's first `length_bytes` into `to` (a client's PUT)."""

    async def read(self, length_bytes: int, source: RemoteBuffer, deadline_s: float) -> None:
        """RDMA READ `source` into the lane's first `length_bytes`."""

    async def store(self, fd: int, file_offset_bytes: int, length_bytes: int) -> None:
        """Write the lane's first `length_bytes` to a file, off the event loop, without the GIL."""

    async def close(self) -> None:
        """QP to ERR, drain, recycle or destroy; then the memory may be lent again. Idempotent."""


class Connection(Protocol):
    """A queue pair that stays: many moves, several at once. Coroutines of the event loop's thread.

    Its peer reaches no memory of ours. A move that fails ends the connection, and with it the
    moves beside it; it can then only be closed.
    """

    @property
    def local(self) -> QpAddress:
        """Our side, with a PSN drawn fresh for this use."""

    @property
    def usable(self) -> bool:
        """False once a move failed or it was closed."""

    @property
    def carrier(self) -> str:
        """As ``Lane.carrier``."""

    def connect(self, peer: QpAddress) -> None:
        """As ``Lane.connect``."""

    async def send(
        self,
        extents: Sequence[FileExtent],
        to: RemoteBuffer,
        *,
        owner: str,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        """Files → staging → WRITEs into `to`; the last carries `cookie` where there is one.

        Staging is shared fairly among owners (access keys). Returns the bytes sent once all were
        acknowledged. Once it returned or raised, neither files nor `to` are touched any more.

        Raises BusyError (too many wait for staging, or it did not come before the deadline: the
        connection stays usable), ClientError (`to` is too short), TransportError, InternalError (a
        file is shorter than its extents).
        """

    async def fetch(
        self, source: RemoteBuffer, into: FileExtent, *, owner: str, deadline_s: float
    ) -> int:
        """READs of `source` → staging → the file at `into`, as long as that; else as `send`."""

    @property
    def max_piece_bytes(self) -> int:
        """The most that one `send_bytes` or `fetch_bytes` moves."""

    async def send_bytes(
        self,
        data: Buffer,
        to: RemoteBuffer,
        *,
        owner: str,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        """As `send`, of bytes in memory that fill `to`: no thread has to read them.

        Raises ValueError: they are not 1 to `max_piece_bytes`, or not as long as `to`.
        """

    async def fetch_bytes(
        self, source: RemoteBuffer, *, owner: str, deadline_s: float
    ) -> bytearray:
        """All of `source` into memory; else as `fetch`. Raises ValueError as `send_bytes`."""

    async def close(self) -> None:
        """QP to ERR, drain; running moves end with an error first. Idempotent."""


class Registration(Protocol):
    """A buffer of a client's that the peers of a domain's links may use."""

    @property
    def buffer(self) -> RemoteBuffer: ...

    async def close(self) -> None:
        """Deregister: then no peer reaches it any more, and it may be freed. Idempotent."""

    def end(self) -> None:
        """`close`, in the calling thread, whichever it is: for memory about to be freed."""


class Link(Protocol):
    """A client's end of a connection: it moves nothing itself, its peer does."""

    @property
    def local(self) -> QpAddress:
        """Our side, with a PSN drawn fresh for this use."""

    @property
    def usable(self) -> bool:
        """False once it was closed."""

    @property
    def carrier(self) -> str:
        """As ``Lane.carrier``."""

    def connect(self, peer: QpAddress) -> None:
        """As ``Lane.connect``."""

    async def close(self) -> None:
        """QP to ERR and drain: then nothing comes or goes by it. Idempotent."""


class Domain(Protocol):
    """A client's protection domain: what is registered in it is for the peers of its links."""

    def dial(self) -> Link:
        """A client's end of a connection, QP in INIT. BusyError where max_sessions are open."""

    async def register(self, buffer: Buffer, *, remote_write: bool) -> Registration:
        """Let the links' peers read the buffer, or write it where remote_write.

        Pinning may take a while and is done in a thread. The buffer is kept alive and of the same
        size until it or the domain is closed. Raises BusyError (too many are registered),
        TransportError (it can't be pinned; the text names the remedy).
        """

    async def close(self) -> None:
        """Close its links first, then deregister what is left. Idempotent."""


class Fabric(Protocol):
    """An opened device port, with the gateway's arena of lanes or without one (a client)."""

    @property
    def info(self) -> FabricInfo: ...

    @property
    def healthy(self) -> bool:
        """False once the device or its port is gone; new work is refused, old work ends."""

    def lease(self, need: Need, length_bytes: int) -> Lane:
        """A lane of the arena, QP in INIT. BusyError where all are lent or cooling down.

        Raises ClientError(EntityTooLarge, 413) where no lane could ever carry RECEIVE of that
        length.
        """

    def attach(self, buffer: Buffer, *, remote_write: bool, remote_read: bool = False) -> Lane:
        """A lane over the caller's own memory (a client's): registered here, released by close.

        The buffer is kept alive and of the same size until close; a read-only buffer is allowed
        where not remote_write. Raises BusyError where `rdma.max_sessions` lanes are open,
        TransportError where the memory can't be pinned (its text names the remedy).
        """

    def accept(self) -> Connection:
        """A gateway's connection, QP in INIT. BusyError where `rdma.connections` are open."""

    def domain(self) -> Domain:
        """A client's protection domain. TransportError: the device has no room for it."""

    def counters(self) -> FabricCounters: ...

    def usage(self) -> FabricUsage: ...

    def limit_staging(self, max_bytes: int) -> None:
        """What one owner's moves hold at once, from now on, in whole slots; 0 is no limit."""

    async def close(self) -> None:
        """Close every lane first, then the device."""
