"""hipobj-rc-v2: PREPARE, READY and CANCEL (PROTOCOL section 2), above the data plane.

This decides *when* bytes move; what may move and what it means is decided by the gateway's one
path: `route`, `authorise` and `perform` are the ones that plain HTTP goes through.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from gateway.auth.sigv4 import Verified, require_signed
from gateway.config import RdmaConfig
from gateway.dataplane.port import Fabric, Lane, Need, RemoteBuffer
from gateway.errors import ClientError, InternalError, S3Code
from gateway.rdma.aio import to_the_end
from gateway.rdma.journal import Entry
from gateway.rdma.keeper import Keeper
from gateway.rdma.live import LiveSession
from gateway.rdma.movement import Deadline, LaneBody, deliver
from gateway.rdma.orders import Order, Route, read_order
from gateway.rdma.sessions import Event, Session, SessionTable, State
from gateway.s3.body import Body
from gateway.s3.notes import note_operation
from gateway.s3.operations import GetObject, HeadBucket, ListParts, Operation, PutObject, UploadPart
from gateway.s3.requester import Requester
from gateway.s3.results import ObjectReply, Reply
from gateway.telemetry import SHOWN_ID_DIGITS, trail
from gateway.telemetry.traces import span
from gateway.wire import rdma_headers as wire
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.extent import Extent
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.rdma_headers import PrepareReply, ReadyReply, ReadyRequest, RemoteMemory
from gateway.wire.request import RequestHead
from gateway.wire.session_id import new_session_id

Authorise = Callable[[Requester, Operation], Awaitable[None]]
Perform = Callable[[Operation, Body | None, Requester], Awaitable[Reply]]

_PATHS = frozenset({wire.PREPARE_PATH, wire.READY_PATH, wire.CANCEL_PATH})

_END_OF_MEMORY = 2**64

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stats:
    """What the service did and does, for metrics.

    Attributes:
        sessions: how many are in each state now.
        sent_bytes / received_bytes: of finished transfers.
    """

    sessions: Mapping[State, int]
    transfers: int
    failures: int
    sent_bytes: int
    received_bytes: int


class HipobjService:
    """Serves the three control paths. Coroutines of one event loop.

    Args:
        fabric: the opened port, or None where RDMA is off: then every request gets 501.
        config: limits and deadlines.
        route: the gateway's router.
        authorise: raises AccessDenied where policy forbids the operation.
        perform: runs an authorised operation; a body is given for PutObject and UploadPart.
        clock: seconds, monotonic.
        new_id: the source of session ids: 32 hex digits that nobody can foresee.
    """

    def __init__(
        self,
        fabric: Fabric | None,
        config: RdmaConfig,
        *,
        route: Route,
        authorise: Authorise,
        perform: Perform,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = new_session_id,
    ) -> None:
        self._fabric = fabric
        self._config = config
        self._route = route
        self._authorise = authorise
        self._perform = perform
        self._clock = clock
        table = SessionTable[Order](
            config.max_sessions, config.max_sessions_per_key, config.prepare_timeout_s, new_id
        )
        self._keeper = Keeper(table, clock)
        self._transfers = self._failures = self._sent_bytes = self._received_bytes = 0

    @staticmethod
    def handles(path: str) -> bool:
        """Whether a raw path is this protocol's, whatever the method."""
        return path in _PATHS

    async def handle(self, head: RequestHead, verified: Verified, requester: Requester) -> Reply:
        """Answer one request to a path that `handles` knows.

        Args:
            head: as received; its body is empty.
            verified: what its signature proves.
            requester: who asks.

        Raises:
            GatewayError: PROTOCOL section 2's statuses.
        """
        fabric = self._require_rdma(head)
        require_signed(head, verified)
        if head.method != "POST":
            raise ClientError(S3Code.METHOD_NOT_ALLOWED, details={"Method": head.method})
        match head.raw_path:
            case wire.PREPARE_PATH:
                return await self._prepare(fabric, head, requester)
            case wire.READY_PATH:
                return await self._ready(head, requester)
            case _:
                return self._cancel(head, requester)

    def stats(self) -> Stats:
        return Stats(
            sessions=self._keeper.census(),
            transfers=self._transfers,
            failures=self._failures,
            sent_bytes=self._sent_bytes,
            received_bytes=self._received_bytes,
        )

    def limit_staging(self, max_bytes: int) -> None:
        """Of each access key's sessions, from now on; 0 is no limit."""
        self._keeper.limit_staging(max_bytes)

    def live(self) -> Iterator[LiveSession]:
        """Every session there is."""
        for session in self._keeper.sessions():
            state, order = session.state.name.lower(), session.order
            shown = LiveSession(session.id[:SHOWN_ID_DIGITS], "session", session.owner, state)
            if order is not None:
                what = f"{order.verb} {_entry(session, order).name}"
                shown = replace(shown, what=what, size_bytes=order.size_bytes)
            yield shown

    def expire(self) -> None:
        """Drop offers past their deadline; a timer of the service's own calls this too."""
        self._keeper.expire()

    async def stop(self, grace_s: float) -> None:
        """End every session, and wait until all lanes are back or `grace_s` is over.

        Call it before the fabric is closed. New PREPAREs get 503.
        """
        await self._keeper.stop(grace_s)

    def _require_rdma(self, head: RequestHead) -> Fabric:
        """The fabric, or the 501 that sends clients to plain HTTP. CANCEL needs no live device."""
        wire.require_protocol(head)
        if self._fabric is None:
            raise wire.unsupported("RDMA is off on this gateway; use plain HTTP instead.")
        if not self._fabric.healthy and head.raw_path != wire.CANCEL_PATH:
            raise wire.unsupported("The gateway's RDMA device is gone; use plain HTTP instead.")
        return self._fabric

    async def _prepare(self, fabric: Fabric, head: RequestHead, requester: Requester) -> Reply:
        order = read_order(head, self._route, fabric.info)
        await self._authorise(requester, order.operation)
        _check_size(order, self._config.max_transfer_bytes)
        with self._keeper.opening(_owner(requester)) as session:
            trail().names(session.id)
            await self._look_ahead(order, requester)
            lane = session.lane = fabric.lease(order.need, order.size_bytes)
            await lane.dedicate(_owner(requester))
            if order.need is Need.RECEIVE:
                lane.post_receive()  # before the client can know where to write
            if order.peer.qpn is not None:
                # Already now: a client writes as soon as it has sent READY, and what comes before
                # RTR is dropped, which costs the client an ACK timeout (67 ms).
                lane.connect(order.peer.at(order.peer.qpn))
            self._keeper.offer(session, order)
        return Reply(200, wire.prepare_reply_headers(_offer_of(session.id, order, lane, fabric)))

    async def _look_ahead(self, order: Order, requester: Requester) -> None:
        """Raise now what READY would raise after the client has set its queue pair up."""
        match order.operation:
            case GetObject():
                opened = await self._open(order, requester)
                await to_the_end(opened.reader.close())
            case PutObject(bucket=bucket):
                await self._perform(HeadBucket(bucket), None, requester)
            case UploadPart(bucket=bucket, key=key, upload_id=upload_id):
                await self._perform(ListParts(bucket, key, upload_id, max_parts=1), None, requester)

    async def _open(self, order: Order, requester: Requester) -> ObjectReply:
        """The object as it is now, with all of the order's extent inside it."""
        reply = await self._perform(order.operation, None, requester)
        if not isinstance(reply, ObjectReply):
            raise InternalError(f"a {order.verb} was answered without an object")
        return reply

    async def _ready(self, head: RequestHead, requester: Requester) -> Reply:
        ready = wire.parse_ready(head)
        trail().names(ready.session)
        return await self._keeper.claim(
            ready.session,
            _owner(requester),
            lambda session: self._transfer(session, ready, requester),
        )

    def _cancel(self, head: RequestHead, requester: Requester) -> Reply:
        self._keeper.cancel(wire.parse_cancel(head).session, _owner(requester))
        return Reply(204, ((wire.PROTOCOL, wire.RC_PROTOCOL),))

    async def _transfer(
        self, session: Session[Order], ready: ReadyRequest, requester: Requester
    ) -> Reply:
        """The data phase and what follows it; whatever happens is one line in the log."""
        order, lane = session.order, session.lane
        if order is None or lane is None:
            raise ValueError("only an offered session can be claimed")
        entry = _entry(session, order)
        note_operation(trail(), order.operation)
        trail().path = "rdma"
        started_s = self._clock()
        try:
            _check_ready(order, ready)
            requester = replace(requester, stated=order.stated)
            await self._authorise(requester, order.operation)
            address = order.peer.at(ready.qpn)
            if order.peer.qpn is None:  # a loopback token: only READY brought the QPN
                lane.connect(address)
            deadline = Deadline.after(self._clock, self._config.transfer_timeout_s)
            if order.need is Need.SEND:
                reply = await self._send(order, lane, ready, requester, deadline)
            else:
                reply = await self._receive(session, order, lane, requester, deadline)
        except BaseException as error:
            self._failures += 1
            entry.failed(self._clock() - started_s, error)
            raise
        self._count(order)
        trail().moved_bytes = order.size_bytes
        entry.done(self._clock() - started_s, lane.carrier)
        return reply

    async def _send(
        self,
        order: Order,
        lane: Lane,
        ready: ReadyRequest,
        requester: Requester,
        deadline: Deadline,
    ) -> Reply:
        """GET: the object, as it is now, into the client's buffer."""
        into = _client_buffer(ready, order)
        opened = await self._open(order, requester)
        try:
            with span("data", path="rdma"):
                await deliver(
                    lane, opened.reader, opened.extent, into, cookie=order.cookie, deadline=deadline
                )
        finally:
            await to_the_end(opened.reader.close())
        return _done(order, opened, _whole_checksum(opened))

    async def _receive(
        self,
        session: Session[Order],
        order: Order,
        lane: Lane,
        requester: Requester,
        deadline: Deadline,
    ) -> Reply:
        """PUT: what the client wrote into the lane becomes the object or part."""
        body = LaneBody(
            lane,
            order.size_bytes,
            order.cookie,
            order.declared,
            deadline=deadline,
            arrived=lambda: self._keeper.apply(session, Event.ARRIVED),
        )
        reply = await self._perform(order.operation, body, requester)
        return _done(order, reply, body.crc64nvme)

    def _count(self, order: Order) -> None:
        self._transfers += 1
        if order.need is Need.SEND:
            self._sent_bytes += order.size_bytes
        else:
            self._received_bytes += order.size_bytes


def _owner(requester: Requester) -> str:
    """The access key; `require_signed` let nobody through without one."""
    access_key = requester.principal.access_key
    if access_key is None:
        raise ValueError("an anonymous request can own no session")
    return access_key


def _check_size(order: Order, max_transfer_bytes: int) -> None:
    """A PUT needs staging as long as itself; a GET goes through a ring."""
    if order.need is Need.RECEIVE and order.size_bytes > max_transfer_bytes:
        raise ClientError(
            S3Code.RDMA_TRANSFER_TOO_LARGE,
            details={
                "ProposedSize": str(order.size_bytes),
                "MaxSizeAllowed": str(max_transfer_bytes),
            },
        )


def _check_ready(order: Order, ready: ReadyRequest) -> None:
    if ready.cookie != order.cookie:
        raise wire.request_fault(wire.COOKIE, "it must be the one that PREPARE brought")


def _client_buffer(ready: ReadyRequest, order: Order) -> RemoteBuffer:
    """Where a GET goes; exactly as long as was agreed, so nothing can be written beyond."""
    memory = ready.memory
    if memory is None or memory == RemoteMemory(0, 0):
        raise wire.request_fault(wire.MR_ADDR, "a GET needs the address and rkey of your buffer")
    if memory.addr + order.size_bytes > _END_OF_MEMORY:
        raise wire.request_fault(wire.MR_ADDR, "the buffer reaches beyond 2^64")
    return RemoteBuffer(memory.addr, memory.rkey, order.size_bytes)


def _whole_checksum(reply: ObjectReply) -> str | None:
    """The stored CRC64NVME, where it is over exactly the bytes that were sent."""
    info = reply.reader.info
    if reply.extent != Extent(0, info.size_bytes):
        return None
    if info.checksum_type is not ChecksumType.FULL_OBJECT:
        return None
    return info.checksums.get(Algorithm.CRC64NVME)


def _offer_of(session_id: str, order: Order, lane: Lane, fabric: Fabric) -> PrepareReply:
    """What the client must know; the staging's rkey only where it is to write there."""
    writable = order.need is Need.RECEIVE
    memory = lane.buffer if writable else RemoteBuffer(0, 0, 0)
    token = RcToken(
        Transport.RC,
        lane.local.qpn,
        lane.local.gid,
        rkey=memory.rkey,
        addr=memory.addr,
        length_bytes=memory.length_bytes,
        port_num=fabric.info.port,
        lid=lane.local.lid,
    )
    return PrepareReply(token, session_id, lane.local.psn, RemoteMemory(memory.addr, memory.rkey))


def _done(order: Order, reply: Reply, crc64nvme: str | None) -> Reply:
    """READY's 200. The ETag keeps its quotes, as hipObject's and versitygw's do."""
    done = ReadyReply(
        cookie=order.cookie,
        bytes_transferred=order.size_bytes,
        etag=reply.get("etag"),
        version_id=reply.get("x-amz-version-id"),
        crc64nvme=crc64nvme,
    )
    return Reply(200, wire.ready_reply_headers(done))


def _entry(session: Session[Order], order: Order) -> Entry:
    """The transfer, as the log names it."""
    operation = order.operation
    return Entry(order.verb, operation.bucket, operation.key, order.size_bytes, session.id)
