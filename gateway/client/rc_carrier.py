"""Object bytes by a connection: one S3 request each, whose data the gateway moves itself.

The request names the caller's buffer; the gateway writes into it or reads out of it, and answers
when it has. PROTOCOL.md section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.client import checksum as crc
from gateway.client import replies
from gateway.client.carrier import Fetched, Stored, Whole
from gateway.client.connection import Call, Connection
from gateway.client.errors import (
    ConnectError,
    S3Error,
    S3RdmaError,
    TooShortError,
    TransferError,
    UnsupportedError,
)
from gateway.client.fabric import check_answered
from gateway.client.rc_link import Linked, LinkKeeper
from gateway.client.retry import while_busy
from gateway.config.client import ClientLimits
from gateway.dataplane.port import Fabric
from gateway.errors import S3Code
from gateway.wire.extent import Extent
from gateway.wire.rdma_headers import BYTES_TRANSFERRED, REPLY, TOKEN

_FAILED = frozenset({S3Code.RDMA_TRANSFER_FAILED.code, S3Code.RDMA_TRANSFER_TIMEOUT.code})

_NO_BODY = memoryview(b"")  # signed as UNSIGNED-PAYLOAD, as PROTOCOL section 4 wants it


class DeclinedError(UnsupportedError):
    """The gateway answered 501: it did not move this object by this connection."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The answer to a request whose bytes went by the connection.

    Attributes:
        lane: what moved them, as a lane names it.
    """

    status: int
    headers: Mapping[str, str]
    bytes: int
    lane: str


class RcCarrier:
    """Keeps the port ``carrier.Carrier``. Fabric and keeper are the caller's to close."""

    def __init__(
        self, connection: Connection, fabric: Fabric, keeper: LinkKeeper, limits: ClientLimits
    ) -> None:
        self._connection = connection
        self._fabric = fabric
        self._keeper = keeper
        self._limits = limits

    async def get(
        self, address: str, extent: Extent, into: memoryview, headers: Mapping[str, str]
    ) -> Fetched:
        wanted = {**headers, "Range": f"bytes={extent.offset_bytes}-{extent.end_bytes - 1}"}
        moved = await self.move(Call("GET", address, wanted), into)
        return Fetched(replies.etag(moved.headers), lane=moved.lane)

    async def get_whole(self, address: str, into: memoryview) -> Whole:
        call = Call("GET", address, {"x-amz-checksum-mode": "ENABLED"})
        moved = await self.move(call, into, exact=False)
        checksum = crc.from_text(moved.headers.get(crc.HEADER))
        return Whole(replies.etag(moved.headers), checksum, moved.lane, moved.bytes)

    async def put(
        self, address: str, data: memoryview, checksum: int | None, headers: Mapping[str, str]
    ) -> Stored:
        # The gateway verifies the declared checksum before it stores anything.
        declared = {**headers, **crc.declared(checksum)}
        moved = await self.move(Call("PUT", address, declared), data)
        version_id = moved.headers.get("x-amz-version-id")
        return Stored(replies.etag(moved.headers), version_id, moved.lane)

    async def move(self, call: Call, view: memoryview, *, exact: bool = True) -> Moved:
        """A GET into the view, or a PUT out of it.

        Tried twice, for the gateway may have forgotten the connection, or it may have broken; a GET
        and a PUT may be repeated. The second time by a connection made since, for what came over
        one may have come over all.

        Args:
            call: the request, without a token.
            view: the memory.
            exact: whether as many bytes as the view has must move; else at most as many.

        Raises:
            UnsupportedError: it failed twice, and why; plain HTTP may still do it.
            S3Error: the gateway's own answer; TooShortError where not `exact` and `view` is.
        """
        newer_than = 0
        for last in (False, True):
            try:
                linked = await self._keeper.linked(
                    self._fabric, spread=call.method == "GET", newer_than=newer_than
                )
                newer_than = self._keeper.made
                return await self._attempt(linked, call, view, exact=exact)
            except DeclinedError:
                if last:
                    raise
            except (ConnectError, TransferError, S3Error) as error:
                if not _broken(error):
                    raise
                if last:
                    check_answered(self._fabric.info, error)
                    raise UnsupportedError(f"RDMA failed twice: {error}") from error
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, linked: Linked, call: Call, view: memoryview, *, exact: bool) -> Moved:
        """By that link; it is closed where it turns out to be broken."""

        async def once() -> Moved:
            remote_write = call.method == "GET"
            async with self._keeper.offered(linked, view, remote_write=remote_write) as token:
                offer = replace(call, headers={**call.headers, TOKEN: token}, body=_NO_BODY)
                return await self._ask(offer, linked, len(view), exact=exact)

        try:
            return await while_busy(once, self._limits)
        except (DeclinedError, ConnectError, TransferError, S3Error) as error:
            if isinstance(error, DeclinedError) or _broken(error):
                await self._keeper.drop(linked)
            raise

    async def _ask(self, call: Call, linked: Linked, size_bytes: int, *, exact: bool) -> Moved:
        """The reply's head, once it says that all bytes have moved.

        Raises:
            DeclinedError: none has.
            TooShortError: nor could they: the body that came instead is longer than the memory.
        """
        async with self._connection.stream(call, self._limits.transfer_timeout_s) as response:
            reply = response.headers
            if reply.get(REPLY) != str(response.status):
                if not exact and (response.content_length or 0) > size_bytes:
                    raise TooShortError(response.content_length or 0)
                raise DeclinedError(
                    "the server answered 501: it did not move the object by this connection"
                )
            text = reply.get(BYTES_TRANSFERRED, "")
            moved_bytes = int(text) if text.isdecimal() else -1
            if not 0 <= moved_bytes <= size_bytes or (exact and moved_bytes != size_bytes):
                raise TransferError(f"the gateway says it moved {text} of {size_bytes} bytes")
            return Moved(response.status, reply, moved_bytes, linked.link.carrier)


def _broken(error: S3RdmaError) -> bool:
    """Whether the connection failed, so that another may do."""
    return not isinstance(error, S3Error) or error.code in _FAILED
