"""The x-amz-rdma-* headers of hipobj-rc-v2 as values, and back (PROTOCOL section 2).

Each message is one value with one reader and one writer, and both ends use them: ``rdma`` reads
requests and writes replies, ``client`` the reverse. A request's fault is a ClientError (400) that
names header, reason and range; a reply's fault is a TransportError: the peer is no such gateway.
Hex is read in any case and written in lower case, `psn` and `cookie` zero-padded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from gateway.errors import ClientError, S3Code, TransportError
from gateway.wire.header_fields import HeaderFields, Headers
from gateway.wire.rc_token import MAX_QPN, RcToken
from gateway.wire.request import RequestHead, decode_path, decode_query

PREPARE_PATH = "/.hipobj-rc/prepare"
READY_PATH = "/.hipobj-rc/ready"
CANCEL_PATH = "/.hipobj-rc/cancel"

RC_PROTOCOL = "hipobj-rc-v2"
UNSUPPORTED = "unsupported"
MAX_SIZE_BYTES = 2**31 - 1
MAX_OFFSET_BYTES = 2**63 - 1

PREFIX = "x-amz-rdma-"
PROTOCOL = "x-amz-rdma-protocol"
PROTOCOL_STATUS = "x-amz-rdma-protocol-status"
TOKEN = "x-amz-rdma-token"  # noqa: S105  (a header's name)
PSN = "x-amz-rdma-psn"
COOKIE = "x-amz-rdma-cookie"
OP = "x-amz-rdma-op"
TARGET = "x-amz-rdma-target"
SIZE = "x-amz-rdma-size"
OFFSET = "x-amz-rdma-offset"
QPN = "x-amz-rdma-qpn"
MR_ADDR = "x-amz-rdma-mr-addr"
MR_RKEY = "x-amz-rdma-mr-rkey"
REPLY = "x-amz-rdma-reply"
SESSION = "x-amz-rdma-session"
BYTES_TRANSFERRED = "x-amz-rdma-bytes-transferred"
ETAG = "x-amz-rdma-etag"
VERSION_ID = "x-amz-rdma-version-id"
CHECKSUM = "x-amz-rdma-checksum"

SESSION_TEXT = re.compile(r"[0-9A-Fa-f]{32}")
_REPLY_TEXT = re.compile(r"200[ :]+(.+)")
_CHECKSUM_TEXT = re.compile(r"CRC64NVME[ ]+([A-Za-z0-9+/]{11}=)", re.IGNORECASE)


class TransferOp(Enum):
    """What the session does, from the client's point of view."""

    GET = "GET"
    PUT = "PUT"


# The parameters a target may carry, sorted: all of one row or none.
_QUERIES: Mapping[TransferOp, tuple[list[str], ...]] = {
    TransferOp.GET: ([], ["versionId"]),
    TransferOp.PUT: ([], ["partNumber", "uploadId"]),
}


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """Registered memory as a peer names it; the rkey is never logged."""

    addr: int
    rkey: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """PREPARE.

    Attributes:
        token: the client's queue pair.
        psn: its first send PSN, 1..2^24-1.
        cookie: the immediate that ends the data phase, 1..2^32-1.
        raw_path / raw_query: the target, still percent-encoded, checked to decode and to name an
            object; the query holds only what `op` allows.
        size_bytes: 1..2^31-1.
        offset_bytes: where in the object the transfer begins, GET.
    """

    token: RcToken
    psn: int
    cookie: int
    op: TransferOp
    raw_path: str
    raw_query: str
    size_bytes: int
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PrepareReply:
    """The 200 to PREPARE: the gateway's queue pair, and the staging buffer a PUT writes to.

    `memory` is RemoteMemory(0, 0) for a GET: nothing of the gateway's can be written.
    """

    token: RcToken
    session: str
    psn: int
    memory: RemoteMemory = RemoteMemory(0, 0)


@dataclass(frozen=True, slots=True)
class ReadyRequest:
    """READY. `memory` is the client's buffer: needed for a GET, None where it was not sent."""

    session: str
    cookie: int
    qpn: int
    memory: RemoteMemory | None = None


@dataclass(frozen=True, slots=True)
class ReadyReply:
    """The 200 to READY, after the data phase.

    Attributes:
        bytes_transferred: what the wire moved.
        etag: as S3 sends it; None where the gateway gave none.
        crc64nvme: base64, None where unknown.
    """

    cookie: int
    bytes_transferred: int
    etag: str | None = None
    version_id: str | None = None
    crc64nvme: str | None = None


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """CANCEL; idempotent."""

    session: str
    cookie: int | None = None


def unsupported(message: str = "") -> ClientError:
    """The 501 that clients take as leave to fall back to plain HTTP."""
    return ClientError(S3Code.RDMA_NOT_SUPPORTED, message, headers={PROTOCOL_STATUS: UNSUPPORTED})


def require_protocol(head: RequestHead) -> None:
    """Refuse a request that doesn't speak hipobj-rc-v2.

    Raises:
        ClientError: RDMANotSupported, 501.
    """
    if tuple(head.values(PROTOCOL)) != (RC_PROTOCOL,):
        raise unsupported(f"{PROTOCOL} must be {RC_PROTOCOL}; use plain HTTP instead.")


def parse_prepare(head: RequestHead) -> PrepareRequest:
    """Read PREPARE.

    Raises:
        ClientError: InvalidArgument or InvalidRDMAToken (400); RDMANotSupported (501).
    """
    fields = _request_fields(head)
    op = _parse_op(fields)
    raw_path, raw_query = _parse_target(fields, op)
    has_offset = fields.optional(OFFSET) is not None
    return PrepareRequest(
        token=RcToken.parse(fields.text(TOKEN), TOKEN),
        psn=fields.hex(PSN, 6, low=1),
        cookie=fields.hex(COOKIE, 8, exact=True, low=1),
        op=op,
        raw_path=raw_path,
        raw_query=raw_query,
        size_bytes=fields.decimal(SIZE, 1, MAX_SIZE_BYTES),
        offset_bytes=fields.decimal(OFFSET, 0, MAX_OFFSET_BYTES) if has_offset else 0,
    )


def parse_ready(head: RequestHead) -> ReadyRequest:
    """Read READY.

    Raises:
        ClientError: InvalidArgument (400); RDMANotSupported (501).
    """
    fields = _request_fields(head)
    return ReadyRequest(
        session=_parse_session(fields),
        cookie=fields.hex(COOKIE, 8, exact=True, low=1),
        qpn=_parse_qpn(fields),
        memory=_parse_memory(fields),
    )


def parse_cancel(head: RequestHead) -> CancelRequest:
    """Read CANCEL.

    Raises:
        ClientError: InvalidArgument (400); RDMANotSupported (501).
    """
    fields = _request_fields(head)
    has_cookie = fields.optional(COOKIE) is not None
    return CancelRequest(
        session=_parse_session(fields),
        cookie=fields.hex(COOKIE, 8, exact=True, low=1) if has_cookie else None,
    )


def parse_prepare_reply(headers: Iterable[tuple[str, str]]) -> PrepareReply:
    """Read the gateway's 200 to PREPARE, header names in any case.

    Raises:
        TransportError: a field is missing, malformed, or disagrees with another.
    """
    fields = _reply_fields(headers)
    token = reply_token(fields)
    if _parse_qpn(fields) != token.qpn:
        raise _reply_fault(QPN, "it must equal the token's qpNum")
    memory = _parse_memory(fields)
    if memory is None:
        raise _reply_fault(MR_ADDR, "it is required")
    return PrepareReply(token, _parse_session(fields), fields.hex(PSN, 6, low=1), memory)


def parse_ready_reply(headers: Iterable[tuple[str, str]]) -> ReadyReply:
    """Read the gateway's 200 to READY, header names in any case.

    Raises:
        TransportError: a field is missing or malformed.
    """
    fields = _reply_fields(headers)
    checksum = _CHECKSUM_TEXT.fullmatch(fields.optional(CHECKSUM) or "")
    return ReadyReply(
        cookie=fields.hex(COOKIE, 8, exact=True, low=1),
        bytes_transferred=fields.decimal(BYTES_TRANSFERRED, 0, MAX_SIZE_BYTES),
        etag=fields.optional(ETAG),
        version_id=fields.optional(VERSION_ID),
        crc64nvme=checksum[1] if checksum else None,
    )


def prepare_headers(request: PrepareRequest) -> Headers:
    """PREPARE's headers, to be signed."""
    target = request.raw_path + (f"?{request.raw_query}" if request.raw_query else "")
    return (
        (PROTOCOL, RC_PROTOCOL),
        (TOKEN, request.token.format()),
        (PSN, f"{request.psn:06x}"),
        (COOKIE, f"{request.cookie:08x}"),
        (OP, request.op.value),
        (TARGET, target),
        (SIZE, str(request.size_bytes)),
        (OFFSET, str(request.offset_bytes)),
    )


def prepare_reply_headers(reply: PrepareReply) -> Headers:
    """The headers of the 200 to PREPARE."""
    return (
        (PROTOCOL, RC_PROTOCOL),
        (REPLY, f"200:{reply.token.format()}"),
        (SESSION, reply.session),
        (PSN, f"{reply.psn:06x}"),
        (QPN, f"{reply.token.qpn:x}"),
        *_memory_headers(reply.memory),
    )


def ready_headers(request: ReadyRequest) -> Headers:
    """READY's headers, to be signed."""
    return (
        (PROTOCOL, RC_PROTOCOL),
        (SESSION, request.session),
        (COOKIE, f"{request.cookie:08x}"),
        (QPN, f"{request.qpn:x}"),
        *(_memory_headers(request.memory) if request.memory is not None else ()),
    )


def ready_reply_headers(reply: ReadyReply) -> Headers:
    """The headers of the 200 to READY; what is not known is left out."""
    optional = (
        (ETAG, reply.etag),
        (VERSION_ID, reply.version_id),
        (CHECKSUM, None if reply.crc64nvme is None else f"CRC64NVME {reply.crc64nvme}"),
    )
    return (
        (PROTOCOL, RC_PROTOCOL),
        (COOKIE, f"{reply.cookie:08x}"),
        (BYTES_TRANSFERRED, str(reply.bytes_transferred)),
        *((name, value) for name, value in optional if value is not None),
    )


def cancel_headers(request: CancelRequest) -> Headers:
    """CANCEL's headers, to be signed."""
    cookie = () if request.cookie is None else ((COOKIE, f"{request.cookie:08x}"),)
    return ((PROTOCOL, RC_PROTOCOL), (SESSION, request.session), *cookie)


def reply_token(fields: HeaderFields) -> RcToken:
    """The gateway's token in a reply's ``200:<token>``. Raises the fields' `failure`."""
    match = _REPLY_TEXT.fullmatch(fields.text(REPLY))
    if match is None:
        raise fields.failure(REPLY, "it must be 200, then a colon or space, then the RC token")
    try:
        return RcToken.parse(match[1], REPLY)
    except ClientError as error:
        raise fields.failure(REPLY, error.message) from error


def request_fault(name: str, reason: str) -> ClientError:
    """400 InvalidArgument that names a header and says what is wrong with it."""
    return ClientError(
        S3Code.INVALID_ARGUMENT, f"{name}: {reason}.", details={"ArgumentName": name}
    )


def _request_fields(head: RequestHead) -> HeaderFields:
    require_protocol(head)
    return HeaderFields.collect(head.headers, PREFIX, request_fault)


def _reply_fields(headers: Iterable[tuple[str, str]]) -> HeaderFields:
    fields = HeaderFields.collect(headers, PREFIX, _reply_fault)
    if fields.text(PROTOCOL).lower() != RC_PROTOCOL:
        raise _reply_fault(PROTOCOL, f"it must be {RC_PROTOCOL}")
    return fields


def _reply_fault(name: str, reason: str) -> TransportError:
    return TransportError(f"The gateway's reply is not {RC_PROTOCOL}'s: {name}: {reason}")


def _parse_op(fields: HeaderFields) -> TransferOp:
    try:
        return TransferOp(fields.text(OP))
    except ValueError as error:
        raise fields.failure(OP, "it must be GET or PUT") from error


def _parse_target(fields: HeaderFields, op: TransferOp) -> tuple[str, str]:
    raw_path, _, raw_query = fields.text(TARGET).partition("?")
    bucket, slash, key = raw_path.removeprefix("/").partition("/")
    if not (raw_path.startswith("/") and bucket and slash and key):
        raise fields.failure(TARGET, "it must be /bucket/key[?query], percent-encoded")
    try:
        decode_path(raw_path)
        names = sorted(name for name, _ in decode_query(raw_query))
    except ClientError as error:
        raise fields.failure(TARGET, error.message.rstrip(".")) from error
    if names not in _QUERIES[op]:
        raise fields.failure(
            TARGET, "its query may be partNumber and uploadId (PUT) or versionId (GET)"
        )
    return raw_path, raw_query


def _parse_session(fields: HeaderFields) -> str:
    session = fields.text(SESSION)
    if not SESSION_TEXT.fullmatch(session):
        raise fields.failure(SESSION, "it must be the 32 hex digits that PREPARE returned")
    return session.lower()


def _parse_qpn(fields: HeaderFields) -> int:
    qpn = fields.hex(QPN, 8)
    if qpn > MAX_QPN:
        raise fields.failure(QPN, "it must fit in 24 bits")
    return qpn


def _parse_memory(fields: HeaderFields) -> RemoteMemory | None:
    if fields.optional(MR_ADDR) is None and fields.optional(MR_RKEY) is None:
        return None
    return RemoteMemory(fields.hex(MR_ADDR, 16), fields.hex(MR_RKEY, 8))


def _memory_headers(memory: RemoteMemory) -> Headers:
    return ((MR_ADDR, f"{memory.addr:x}"), (MR_RKEY, f"{memory.rkey:x}"))
