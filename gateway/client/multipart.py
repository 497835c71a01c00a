"""The requests of one multipart upload: begin, complete, abort.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from gateway.client import checksum as crc
from gateway.client import replies
from gateway.client.address import address
from gateway.client.begun import Ask
from gateway.client.carrier import Stored
from gateway.client.connection import Call
from gateway.client.errors import S3RdmaError
from gateway.config.client import ClientLimits
from gateway.rdma.aio import to_the_end
from gateway.wire.checksums import Algorithm, ChecksumType

_WHOLE = {"x-amz-checksum-type": ChecksumType.FULL_OBJECT.value}


@dataclass(frozen=True, slots=True)
class Multipart:
    """Uploads to one key."""

    bucket: str
    key: str
    ask: Ask
    limits: ClientLimits

    def part_address(self, upload_id: str, number: int) -> str:
        """Where part `number`, from 1, is put."""
        return self._address({"partNumber": str(number), "uploadId": upload_id})

    async def create(self, headers: Mapping[str, str]) -> str:
        """Begin, with the promise of one checksum over the whole object; returns the upload's id.

        `headers` are the object's own: Content-Type, ``x-amz-meta-*``.
        """
        promised = {"x-amz-checksum-algorithm": Algorithm.CRC64NVME.label, **_WHOLE}
        call = Call("POST", self._address({"uploads": ""}), {**headers, **promised})
        return replies.upload_id((await self.ask(call)).body)

    async def complete(
        self, upload_id: str, etags: Sequence[str], checksum: int | None = None
    ) -> Stored:
        """Make the object of parts 1, 2, …; `checksum` is the CRC-64/NVME of all its bytes."""
        declared = {} if checksum is None else {crc.HEADER: crc.to_text(checksum), **_WHOLE}
        where = self._address({"uploadId": upload_id})
        reply = await self.ask(Call("POST", where, declared, replies.complete_request(etags)))
        version_id = reply.headers.get("x-amz-version-id")
        return Stored(replies.completed_etag(reply.body), version_id)

    async def abort(self, upload_id: str) -> None:
        """Best effort: the server forgets unfinished uploads by itself, after days."""
        call = Call("DELETE", self._address({"uploadId": upload_id}))
        with suppress(S3RdmaError, TimeoutError):
            async with asyncio.timeout(self.limits.cancel_timeout_s):
                await self.ask(call)

    @asynccontextmanager
    async def or_aborted(self, upload_id: str) -> AsyncIterator[None]:
        """What fails in the body takes the upload with it."""
        try:
            yield
        except BaseException:
            await to_the_end(self.abort(upload_id))
            raise

    def _address(self, query: Mapping[str, str]) -> str:
        return address(self.bucket, self.key, query)
