"""RDMA tokens on ordinary object requests (PROTOCOL section 4): recognised, carried or declined.

A declined GET is a plain GET whose reply says so; the client reads the body. A declined PUT stores
nothing and has no ETag: such requests carry no body, and an empty object in place of the client's
data would be the worst of answers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum, auto

from gateway.auth.sigv4 import Verified, require_signed
from gateway.errors import ClientError, S3Code
from gateway.rdma.rc_transfer import DECLINED, Carriage, Perform
from gateway.s3.operations import GetObject, Operation, PutObject, UploadPart
from gateway.s3.results import ObjectReply, Reply, XmlReply
from gateway.wire import rdma_headers as wire
from gateway.wire import xml
from gateway.wire.rc_connection import TRANSFER_GRAMMAR
from gateway.wire.request import RequestHead

RDMA_INFO = "x-rdma-info"  # libfabric clients that send no token


class TokenKind(Enum):
    """Which protocol a token belongs to."""

    CONNECTION = auto()  # rc:<connection>:<addr>:<size>:<rkey> (section 3)
    CUOBJECT = auto()  # cuObject's descriptor for the DC transport
    UNPAIRED = auto()  # a bare RC token: its queue pair can't be connected in one trip
    LIBFABRIC = auto()  # …:ofi1:…
    MALFORMED = auto()


_GRAMMAR = (
    (TokenKind.CONNECTION, TRANSFER_GRAMMAR),
    # addr, size, rkey, lid, dctn, gid flag, gid; then perhaps addr and size again
    (
        TokenKind.CUOBJECT,
        r"[0-9a-f]{16}:[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}:[0-9a-f]{6}:[0-9a-f]:[0-9a-f]{32}"
        r"(?::[0-9a-f]{16}:[0-9a-f]{16})?;?",
    ),
    (TokenKind.UNPAIRED, r"[0-9a-f]{88}(?::[0-9a-f]{1,16}:[0-9a-f]{1,16})?"),
    (TokenKind.LIBFABRIC, r"(?:.*:)?ofi1:.*"),
)
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _GRAMMAR)


def classify(token: str) -> TokenKind:
    """Which kind of token a header's value is."""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(token)), TokenKind.MALFORMED)


async def answer(
    head: RequestHead,
    operation: Operation,
    verified: Verified,
    perform: Perform,
    carriage: Carriage,
) -> Reply:
    """Perform an authorised operation, heeding an RDMA token where the request carries one.

    Args:
        head: the request's.
        operation: what it was routed to; tokens mean nothing on any but three.
        verified: what its signature proves; the token must be covered.
        perform: the operation; called at most once, with None for HTTP's own body.
        carriage: for tokens of connections.

    Raises:
        ClientError: InvalidRDMAToken (400), an unsigned token (400, or 403 from an anonymous
            client), RDMANotSupported (501) for a bare RC token, and what `perform` raises.
    """
    if not isinstance(operation, GetObject | PutObject | UploadPart) or not _proposes_rdma(head):
        return await perform(None)
    require_signed(head, verified)
    kinds = _kinds(head)
    if kinds == {TokenKind.CONNECTION}:
        carried = await carriage.carry(head, operation, verified, perform)
        if carried is not None:
            return carried
    if not isinstance(operation, GetObject):
        return _declined_write()
    reply = await perform(None)
    if not isinstance(reply, ObjectReply):
        return reply
    return replace(reply, headers=(*reply.headers, DECLINED))


def _proposes_rdma(head: RequestHead) -> bool:
    return head.get(wire.TOKEN) is not None or head.get(RDMA_INFO) is not None


def _kinds(head: RequestHead) -> set[TokenKind]:
    """Which tokens there are. Raises for those that no decline can answer."""
    tokens = tuple(head.values(wire.TOKEN))
    kinds = {classify(token) for token in tokens}
    if len(tokens) > 1:
        kinds.add(TokenKind.MALFORMED)
    for kind in kinds:
        match kind:
            case TokenKind.MALFORMED:
                raise ClientError(
                    S3Code.INVALID_RDMA_TOKEN,
                    f"{wire.TOKEN} is malformed: it is no token of a protocol that is known here.",
                    details={"ArgumentName": wire.TOKEN},
                )
            case TokenKind.UNPAIRED:
                raise wire.unsupported(
                    f"{wire.TOKEN}: a queue pair is connected by {wire.RC_PROTOCOL}'s PREPARE and "
                    "READY; use them, or plain HTTP."
                )
    return kinds


def _declined_write() -> XmlReply:
    """200 without an ETag: clients that see one take the object for stored."""
    reason = S3Code.RDMA_NOT_SUPPORTED
    return XmlReply(
        headers=(DECLINED,),
        root=xml.element(
            "Error",
            xml.element("Code", text=reason.code),
            xml.element("Message", text=reason.message),
        ),
    )
