"""How staged bytes go upstream: as one request when they are committed, or piece by piece before.

The parts of a multipart upload are the staging: nobody sees them before it is completed, which is
the commit, conditions and all. An upload that is not completed is aborted.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import dataclass

from gateway.errors import ClientError, GatewayError, InternalError, S3Code
from gateway.storage.port import ObjectDraft
from gateway.storage.upstream.faults import refused
from gateway.storage.upstream.outgoing import GrowingBody, OutgoingBody
from gateway.storage.upstream.service import Reply
from gateway.storage.upstream.target import ObjectTarget, Part, Target
from gateway.storage.upstream.values import Parameters, integrity_parameters
from gateway.storage.upstream.window import Window
from gateway.wire.checksums import composite_etag
from gateway.wire.conditional import unquote_etag
from gateway.wire.extent import Extent

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shape:
    """How large pieces are, how many go at once, and what the service holds them to.

    Attributes:
        part_bytes: whole pages, so that each piece can be given back by itself.
        checksums: whether the service keeps them.
        conditional_completes: whether it judges conditions at an upload's end.
        upload_tags: whether a multipart upload keeps its tags.
    """

    part_bytes: int
    concurrency: int
    checksums: bool
    conditional_completes: bool
    upload_tags: bool

    @property
    def held_bytes(self) -> int:
        """The most that one object holds."""
        return self.part_bytes * (self.concurrency + 1)


class PartsCarrier:
    """An object: one PutObject where it fits into a part, else a multipart upload.

    Args:
        tagged: whether the object is to have tags.
    """

    def __init__(self, target: ObjectTarget, window: Window, shape: Shape, *, tagged: bool) -> None:
        self._target = target
        self._window = window
        self._shape = shape
        self._tagged = tagged
        self._turns = asyncio.Semaphore(shape.concurrency)
        self._arrived_bytes = self._begun_bytes = self._sent_bytes = 0
        self._upload: asyncio.Task[Part] | None = None
        self._parts: list[asyncio.Task[Parameters]] = []

    def arrived(self, end_bytes: int) -> None:
        """The window is filled up to here."""
        self._arrived_bytes = end_bytes
        while end_bytes - self._begun_bytes > self._shape.part_bytes:
            self._begin(self._shape.part_bytes)

    async def room(self) -> None:
        """Wait until the window may be filled further. Raises what went wrong."""
        while True:
            under_way = [part for part in self._parts if not part.done()]
            for part in self._parts:
                if part.done():
                    part.result()
            held_bytes = self._arrived_bytes - self._sent_bytes
            if held_bytes <= self._shape.held_bytes or not under_way:
                return
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    async def finish(self, draft: ObjectDraft, conditions: Parameters) -> Reply:
        """Publish what arrived. Raises GatewayError; then nothing is left upstream."""
        if self._upload is None:
            body = OutgoingBody(self._window.fd, Extent(0, draft.size_bytes))
            integrity = integrity_parameters(draft, checksums=self._shape.checksums)
            return await self._target.put(body, integrity | conditions)
        try:
            reply = await self._complete(self._upload, conditions)
        except BaseException:
            await self.cancel()
            raise
        self._upload, self._parts = None, []
        return reply

    async def cancel(self) -> None:
        """Leave nothing upstream; idempotent. Afterwards nobody is in the window."""
        tasks, self._parts = self._parts, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        creation, self._upload = self._upload, None
        if creation is None:
            return
        try:
            upload = await creation  # never cancelled: what was made must be known to be removed
            await upload.abort()
        except GatewayError as error:
            _log.warning("an upload may be left upstream: %s", error)

    async def _complete(self, creation: asyncio.Task[Part], conditions: Parameters) -> Reply:
        if conditions and not self._shape.conditional_completes:
            raise refused("judge the conditions of a write this long without its length beforehand")
        if self._tagged and not self._shape.upload_tags:
            raise refused("keep the tags of an object this long without its length beforehand")
        self._begin(self._arrived_bytes - self._begun_bytes)
        upload = await creation
        parts = await asyncio.gather(*self._parts)
        reply = await upload.complete(parts, conditions)
        if not reply.get("ETag"):  # Ceph RGW 16.2 leaves it empty
            md5s = [bytes.fromhex(unquote_etag(part["ETag"])) for part in parts]
            reply["ETag"] = composite_etag(md5s)
        return reply

    def _begin(self, length_bytes: int) -> None:
        if self._upload is None:
            self._upload = asyncio.create_task(self._target.create())
        extent = Extent(self._begun_bytes, length_bytes)
        self._begun_bytes += length_bytes
        sending = self._send(self._upload, len(self._parts) + 1, extent)
        self._parts.append(asyncio.create_task(sending))

    async def _send(self, creation: asyncio.Task[Part], number: int, extent: Extent) -> Parameters:
        upload = await asyncio.shield(creation)
        async with self._turns:
            md5 = await asyncio.to_thread(self._window.md5, extent)
            reply = await upload.numbered(number).put(
                OutgoingBody(self._window.fd, extent),
                {"ContentMD5": base64.b64encode(md5).decode("ascii")},
            )
        self._sent_bytes += extent.length_bytes
        self._window.free(extent)
        return {"PartNumber": number, "ETag": reply["ETag"]}


class WholeCarrier:
    """What one request makes: a part, or an object whose conditions PutObject alone can carry.

    A long one is sent while it comes, and its end is held back until it is known to be right.

    Args:
        length_bytes: of it; None where nobody announced it: then it must be a short one.
        conditions: as `finish` will be told.
    """

    def __init__(
        self,
        target: Target,
        window: Window,
        shape: Shape,
        length_bytes: int | None,
        conditions: Parameters,
    ) -> None:
        self._target = target
        self._window = window
        self._shape = shape
        self._sent_bytes = self._arrived_bytes = 0
        self._progress = asyncio.Event()
        self._body: GrowingBody | None = None
        self._sending: asyncio.Task[Reply] | None = None
        if length_bytes is not None and length_bytes > shape.part_bytes:
            self._body = GrowingBody(window.fd, Extent(0, length_bytes), self._sent)
            self._sending = asyncio.create_task(self._send(self._body, conditions))

    def arrived(self, end_bytes: int) -> None:
        """The window is filled up to here."""
        self._arrived_bytes = end_bytes
        if self._body is not None:
            self._body.arrived(end_bytes)
        elif end_bytes > self._shape.part_bytes:
            raise ClientError(
                S3Code.MISSING_CONTENT_LENGTH,
                f"More than {self._shape.part_bytes} bytes must say their length beforehand here "
                "(upstream.part_bytes).",
            )

    async def room(self) -> None:
        """Wait until the window may be filled further. Raises what went wrong."""
        while self._sending is not None:
            if self._sending.done():
                self._sending.result()
            if self._arrived_bytes - self._sent_bytes <= self._shape.held_bytes:
                return
            self._progress.clear()
            await self._progress.wait()

    async def finish(self, draft: ObjectDraft, conditions: Parameters) -> Reply:
        """Make what arrived whole. Raises GatewayError; then nothing is left upstream."""
        integrity = integrity_parameters(draft, checksums=self._shape.checksums)
        if self._body is None or self._sending is None:
            body = OutgoingBody(self._window.fd, Extent(0, draft.size_bytes))
            return await self._target.put(body, integrity | conditions)
        if draft.size_bytes != len(self._body):
            await self.cancel()
            raise InternalError(f"{draft.size_bytes} bytes came, {len(self._body)} were announced")
        self._body.release()
        reply = await self._sending
        if unquote_etag(reply["ETag"]) != draft.etag and "ContentMD5" in integrity:
            raise InternalError("the storage service keeps other bytes than it was sent")
        return reply

    async def cancel(self) -> None:
        """Leave nothing upstream; idempotent. Afterwards nobody is in the window."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self, body: OutgoingBody, given: Parameters) -> Reply:
        try:
            return await self._target.put(body, given)
        finally:
            self._progress.set()

    def _sent(self, end_bytes: int) -> None:
        self._sent_bytes = end_bytes
        self._window.free_up_to(end_bytes)
        self._progress.set()
