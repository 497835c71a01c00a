"""The headers of connections and their tokens (PROTOCOL sections 3 and 4) as values, and back.

A connection is made by ``POST /.s3rdma-rc/connect``; object requests then name it in
``x-amz-rdma-token: rc:<connection>:<addr>:<size>:<rkey>``. Both ends use these readers and writers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.errors import ClientError, S3Code, TransportError
from gateway.wire.header_fields import HeaderFields, Headers
from gateway.wire.rc_token import RcToken
from gateway.wire.rdma_headers import (
    COOKIE,
    PREFIX,
    PSN,
    REPLY,
    SESSION,
    SESSION_TEXT,
    TOKEN,
    reply_token,
    request_fault,
)
from gateway.wire.request import RequestHead

CONNECT_PATH = "/.s3rdma-rc/connect"
DISCONNECT_PATH = "/.s3rdma-rc/disconnect"

_END_OF_MEMORY = 2**64
TRANSFER_GRAMMAR = r"rc:([0-9a-f]{32}):([0-9a-f]{1,16}):([0-9a-f]{1,16}):([0-9a-f]{1,8})"
"""Of a transfer token, in any case: connection, addr, size, rkey."""
_TOKEN_TEXT = re.compile(TRANSFER_GRAMMAR, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """The client's queue pair; `psn` is its first send PSN, 1..2^24-1."""

    token: RcToken
    psn: int


@dataclass(frozen=True, slots=True)
class ConnectReply:
    """The connection's id (32 hex digits) and the gateway's queue pair, in RTS."""

    connection: str
    token: RcToken
    psn: int


@dataclass(frozen=True, slots=True)
class TransferToken:
    """The client's buffer, and the connection by which it can be reached. The rkey isn't shown."""

    connection: str
    addr: int
    size_bytes: int
    rkey: int = field(repr=False)

    def format(self) -> str:
        """The token as text, lower case."""
        return f"rc:{self.connection}:{self.addr:x}:{self.size_bytes:x}:{self.rkey:x}"

    @classmethod
    def parse(cls, text: str) -> TransferToken:
        """Read a token in any case.

        Raises:
            ClientError: InvalidRDMAToken; the text never repeats the token.
        """
        match = _TOKEN_TEXT.fullmatch(text)
        if match is None:
            raise _invalid("it must be rc:<connection>:<addr>:<size>:<rkey>, all in hex")
        addr, size_bytes, rkey = (int(match[n], 16) for n in (2, 3, 4))
        if addr + size_bytes > _END_OF_MEMORY:
            raise _invalid("the buffer reaches beyond 2^64")
        return cls(match[1].lower(), addr, size_bytes, rkey)


def parse_connect(head: RequestHead) -> ConnectRequest:
    """Read a connect. Raises ClientError: InvalidArgument or InvalidRDMAToken (400)."""
    fields = HeaderFields.collect(head.headers, PREFIX, request_fault)
    return ConnectRequest(
        token=RcToken.parse(fields.text(TOKEN), TOKEN), psn=fields.hex(PSN, 6, low=1)
    )


def parse_disconnect(head: RequestHead) -> str | None:
    """The connection that a disconnect names; None where it names none that could be."""
    text = head.get(SESSION) or ""
    return text.lower() if SESSION_TEXT.fullmatch(text) else None


def parse_cookie(head: RequestHead) -> int | None:
    """The immediate that a GET's last WRITE is to carry; None where none is asked for.

    Raises:
        ClientError: InvalidArgument.
    """
    fields = HeaderFields.collect(head.headers, COOKIE, request_fault)
    if fields.optional(COOKIE) is None:
        return None
    return fields.hex(COOKIE, 8, exact=True, low=1)


def parse_connect_reply(headers: Iterable[tuple[str, str]]) -> ConnectReply:
    """Read the gateway's 200 to connect. Raises TransportError: it is no such reply."""
    fields = HeaderFields.collect(headers, PREFIX, _reply_fault)
    token = reply_token(fields)
    connection = fields.text(SESSION)
    if not SESSION_TEXT.fullmatch(connection):
        raise _reply_fault(SESSION, "it must be 32 hex digits")
    return ConnectReply(connection.lower(), token, fields.hex(PSN, 6, low=1))


def connect_headers(request: ConnectRequest) -> Headers:
    """A connect's headers, to be signed."""
    return ((TOKEN, request.token.format()), (PSN, f"{request.psn:06x}"))


def connect_reply_headers(reply: ConnectReply) -> Headers:
    """The headers of the 200 to connect."""
    return (
        (SESSION, reply.connection),
        (REPLY, f"200:{reply.token.format()}"),
        (PSN, f"{reply.psn:06x}"),
    )


def _invalid(reason: str) -> ClientError:
    return ClientError(
        S3Code.INVALID_RDMA_TOKEN,
        f"{TOKEN} is malformed: {reason}.",
        details={"ArgumentName": TOKEN},
    )


def _reply_fault(name: str, reason: str) -> TransportError:
    return TransportError(f"The gateway's reply is no connection's: {name}: {reason}")
