"""Transfers by a connection that fail: what their request is answered with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.auth.payload import parse_payload
from gateway.auth.principal import Principal
from gateway.auth.sigv4 import Verified
from gateway.errors import BusyError, GatewayError, S3Code, TransportError
from gateway.rdma.connections import Held
from gateway.rdma.rc_transfer import Carriage
from gateway.s3.operations import GetObject, PutObject
from gateway.s3.results import ObjectReply, Reply
from gateway.storage.port import ObjectAttributes
from gateway.wire.extent import Extent
from gateway.wire.request import RequestHead

CONNECTION = "0123456789abcdef" * 2
HEAD = RequestHead("PUT", "/b/k", "", (("x-amz-rdma-token", f"rc:{CONNECTION}:7f00:100000:a1"),))
VERIFIED = Verified(Principal("AK"), parse_payload("UNSIGNED-PAYLOAD"), frozenset())
TIMEOUT = TransportError("the peer does not answer", code=S3Code.RDMA_TRANSFER_TIMEOUT)
BUSY = BusyError("staging was busy")


class FailingConnection:
    """Whatever it is asked to move."""

    carrier = "fake"
    usable = True

    def __init__(self, error: GatewayError) -> None:
        self._error = error

    async def send(self, *_: Any, **__: Any) -> int:
        raise self._error


def carriage(error: GatewayError) -> Carriage:
    """Of one connection, on which every move ends in that error."""
    connection: Any = FailingConnection(error)

    @contextmanager
    def lend(connection_id: str, owner: str) -> Iterator[Held]:
        yield Held(connection_id, owner, connection)

    connections: Any = SimpleNamespace(lend=lend)
    return Carriage(connections, 1.0)


class ReaderOfFiles:
    """An object of a MiB, in a file that nobody reads here."""

    closed = False

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[()]:
        return ()

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (TIMEOUT, S3Code.RDMA_TRANSFER_FAILED, "does not answer"),
        (BUSY, S3Code.SLOW_DOWN, "staging was busy"),
    ],
)
async def test_put__that_did_not_come__is_a_failed_transfer_or_busy(
    error: GatewayError, code: S3Code, text: str
) -> None:
    async def perform(_: object) -> Reply:
        raise error

    put = PutObject("b", "k", ObjectAttributes())
    with pytest.raises(GatewayError, match=text) as caught:
        await carriage(error).carry(HEAD, put, VERIFIED, perform)
    assert caught.value.code is code


@pytest.mark.parametrize("error", [TIMEOUT, BUSY])
async def test_get__that_did_not_arrive__comes_in_the_body(error: GatewayError) -> None:
    reader: Any = ReaderOfFiles()
    opened = ObjectReply(200, (), reader=reader, extent=Extent(0, 2**20))

    async def perform(_: object) -> Reply:
        return opened

    reply = await carriage(error).carry(HEAD, GetObject("b", "k"), VERIFIED, perform)
    assert isinstance(reply, ObjectReply)
    assert reply.get("x-amz-rdma-reply") == "501"
    assert not reader.closed
