"""What a PREPARE asks for, as the same operation that plain HTTP would make of it.

The target becomes a request head of its own, with the POST's headers beside it, and goes through
the one router: so conditions, metadata, checksums and tags mean what they mean everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gateway.dataplane.port import FabricInfo, LinkLayer, Need, QpAddress
from gateway.errors import ClientError, S3Code
from gateway.s3.integrity import Declared
from gateway.s3.operations import GetObject, Operation, PutObject, UploadPart
from gateway.s3.requester import stated_headers
from gateway.wire import rdma_headers as wire
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.rdma_headers import PrepareRequest, TransferOp
from gateway.wire.request import RequestHead

Route = Callable[[RequestHead], Operation]

# What belongs to the POST itself and not to the operation it prepares. The target is always
# /bucket/key, so a host that names a bucket must not be looked at.
_POSTS_OWN = frozenset(
    {
        "authorization",
        "content-length",
        "expect",
        "host",
        "if-range",
        "range",
        "transfer-encoding",
        "x-amz-content-sha256",
    }
)


@dataclass(frozen=True, slots=True)
class Peer:
    """The client's queue pair as PREPARE tells it; with a loopback token only READY has the QPN."""

    qpn: int | None
    psn: int
    gid: bytes
    lid: int

    def at(self, qpn: int) -> QpAddress:
        """The whole address, once READY has said the QPN.

        Raises:
            ClientError: InvalidArgument: it is not the token's.
        """
        if self.qpn is not None and qpn != self.qpn:
            raise wire.request_fault(wire.QPN, "it must equal the qpNum of PREPARE's token")
        return QpAddress(qpn, self.psn, self.gid, self.lid)


@dataclass(frozen=True, slots=True)
class Order:
    """A transfer as it was agreed.

    Attributes:
        operation: GetObject with an exact extent, PutObject or UploadPart.
        size_bytes: 1..2^31-1; the transfer is exactly that long.
        cookie: the immediate that ends the data phase.
        peer: the client's queue pair.
        declared: the digests that a PUT's bytes are held to.
        stated: the PREPARE's headers that policies may name; READY does not repeat them.
    """

    operation: GetObject | PutObject | UploadPart
    size_bytes: int
    cookie: int
    peer: Peer
    declared: Declared
    stated: Mapping[str, str] = field(default_factory=dict)

    @property
    def need(self) -> Need:
        """What the gateway's side of the transfer does."""
        return Need.SEND if isinstance(self.operation, GetObject) else Need.RECEIVE

    @property
    def verb(self) -> str:
        """GET or PUT, for a log line."""
        return "GET" if self.need is Need.SEND else "PUT"


def read_order(head: RequestHead, route: Route, fabric: FabricInfo) -> Order:
    """Read a PREPARE as an order, complete and consistent in itself; nothing is looked up.

    Args:
        head: the POST.
        route: the gateway's one router.
        fabric: the port that the transfer will go through.

    Raises:
        ClientError: 400 for syntax, 501 for a transport that isn't RC, and whatever the router
            says of the target.
    """
    prepare = wire.parse_prepare(head)
    peer = peer_of(prepare.token, prepare.psn, fabric)
    if prepare.op is TransferOp.PUT and prepare.offset_bytes:
        raise wire.request_fault(
            wire.OFFSET, "a PUT writes whole objects and parts; send 0 or leave it out"
        )
    return Order(
        operation=_operation(prepare, head, route),
        size_bytes=prepare.size_bytes,
        cookie=prepare.cookie,
        peer=peer,
        declared=Declared.of(head),
        stated=stated_headers(head),
    )


def _operation(
    prepare: PrepareRequest, head: RequestHead, route: Route
) -> GetObject | PutObject | UploadPart:
    """Route the target, and hold it to the three operations whose data moves by RDMA."""
    operation = route(_target_head(prepare, head))
    match operation:
        case GetObject() if prepare.op is TransferOp.GET:
            return replace(operation, extent_exact=True)
        case PutObject() | UploadPart():
            return operation
        case _:
            raise ClientError(
                S3Code.INVALID_REQUEST,
                f"{wire.TARGET} and the headers beside it ask for {type(operation).__name__}; only "
                "GetObject, PutObject and UploadPart move their data by RDMA.",
            )


def _target_head(prepare: PrepareRequest, head: RequestHead) -> RequestHead:
    signed_for = tuple(
        (name, value)
        for name, value in head.headers
        if name not in _POSTS_OWN and not name.startswith(wire.PREFIX)
    )
    if prepare.op is TransferOp.GET:
        last = prepare.offset_bytes + prepare.size_bytes - 1
        own = ("range", f"bytes={prepare.offset_bytes}-{last}")
    else:
        own = ("content-length", str(prepare.size_bytes))
    return replace(
        head,
        method=prepare.op.value,
        raw_path=prepare.raw_path,
        raw_query=prepare.raw_query,
        headers=(*signed_for, own),
    )


def peer_of(token: RcToken, psn: int, fabric: FabricInfo) -> Peer:
    """Where the client's queue pair is (PROTOCOL section 1).

    Raises:
        ClientError: RDMANotSupported (501) for another transport, InvalidRDMAToken for LID 0 on
            InfiniBand.
    """
    if token.loopback:
        return Peer(None, psn, fabric.gid, fabric.lid)
    if token.transport is not Transport.RC:
        raise wire.unsupported(f"{wire.TOKEN} names the DC transport; RC is needed here.")
    if fabric.link_layer is LinkLayer.INFINIBAND and token.lid == 0:
        raise ClientError(
            S3Code.INVALID_RDMA_TOKEN,
            f"{wire.TOKEN}: lid is 0, but the gateway's port is InfiniBand, where packets to LID 0 "
            "vanish; send the port's LID from ibv_query_port.",
            details={"ArgumentName": wire.TOKEN},
        )
    return Peer(token.qpn, psn, token.gid, token.lid)
