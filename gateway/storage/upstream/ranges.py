"""One object's bytes by ranged GETs, each held to the ETag that was opened.

Where the service keeps versions, the very version is asked for; else If-Match sees to it that an
object replaced meanwhile ends the reading, and never mixes with what was read of the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.errors import BusyError, GatewayError, InternalError, S3Code
from gateway.storage.port import NULL_VERSION, ObjectInfo
from gateway.storage.upstream.faults import silent
from gateway.storage.upstream.outgoing import PIECE_BYTES
from gateway.storage.upstream.service import SILENCES, Reply, Service
from gateway.storage.upstream.values import Parameters, quoted
from gateway.wire.conditional import unquote_etag
from gateway.wire.extent import Extent

_log = logging.getLogger(__name__)

Sink = Callable[[bytes], None]


class Ranges:
    """Fetches extents of one object, as it was when it was opened.

    Args:
        info: of the object.
        version_id: as it was asked for; None for the latest.
    """

    def __init__(self, service: Service, info: ObjectInfo, version_id: str | None) -> None:
        self._service = service
        self._info = info
        self._target: Parameters = {
            "Bucket": info.bucket,
            "Key": info.key,
            "IfMatch": quoted(info.etag),
        }
        if version_id is not None or info.version_id != NULL_VERSION:
            self._target["VersionId"] = info.version_id

    async def fetch(self, extent: Extent, sink: Sink) -> None:
        """Give every byte of an extent to `sink`, in order, each once.

        A connection that breaks is taken up again where it broke.

        Args:
            extent: inside the object, length > 0.
            sink: takes what came.

        Raises:
            BusyError: the object was replaced or removed meanwhile.
            GatewayError: the service's error, or 503 where it falls silent.
        """
        left, tries = extent, 0
        while left.length_bytes:
            tries += 1
            came, broken = await self._fetch_some(left, sink)
            left = Extent(left.offset_bytes + came, left.length_bytes - came)
            if broken is None:
                continue
            self._service.breaker.failed()
            delay_s = self._service.backoff.delay_s(1 if came else tries)
            tries = 0 if came else tries
            if delay_s is None:
                raise silent("a GET was cut short", broken) from broken
            _log.info("a GET upstream broke after %d bytes: %r", came, broken)
            await asyncio.sleep(delay_s)

    async def _fetch_some(self, extent: Extent, sink: Sink) -> tuple[int, BaseException | None]:
        """(bytes that came, what broke it off)."""
        reply = await self._ask(extent)
        body, came = reply["Body"], 0
        try:
            while piece := await body.read(PIECE_BYTES):
                sink(piece)
                came += len(piece)
        except SILENCES as error:
            return came, error
        finally:
            body.close()
        if came < extent.length_bytes:
            return came, EOFError("the reply was shorter than it said")
        return came, None

    async def _ask(self, extent: Extent) -> Reply:
        last = extent.end_bytes - 1
        try:
            reply = await self._service.call(
                "get_object", **self._target, Range=f"bytes={extent.offset_bytes}-{last}"
            )
        except GatewayError as error:
            if error.code in (S3Code.PRECONDITION_FAILED, S3Code.NO_SUCH_KEY):
                raise BusyError("The object was replaced while it was read.") from error
            raise
        try:
            self._check(extent, reply)
        except InternalError:
            reply["Body"].close()
            raise
        return reply

    def _check(self, extent: Extent, reply: Reply) -> None:
        """The reply must be of this object and of this extent, whatever was asked for."""
        etag = unquote_etag(reply.get("ETag", ""))
        if etag != self._info.etag:
            raise InternalError(
                f"the storage service was asked for ETag {self._info.etag}, and sent {etag}"
            )
        whole = extent == Extent(0, self._info.size_bytes)
        status = reply["ResponseMetadata"]["HTTPStatusCode"]
        length_bytes = int(reply.get("ContentLength", -1))
        if length_bytes != extent.length_bytes or not (status == 206 or whole):
            raise InternalError(
                f"the storage service was asked for {extent.length_bytes} bytes at "
                f"{extent.offset_bytes}, and sent {length_bytes}"
            )
