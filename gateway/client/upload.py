"""PUT of any size, from memory or a file: in one piece, or as a multipart upload of parallel parts.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from gateway.client import checksum as crc
from gateway.client import replies
from gateway.client.address import address
from gateway.client.carrier import PreferredCarrier, Stored
from gateway.client.connection import Call, Connection, Reply
from gateway.client.download import Progress
from gateway.client.errors import S3RdmaError, TooLargeError
from gateway.client.memory import Memory
from gateway.client.parallel import for_each
from gateway.client.retry import while_busy
from gateway.config.client import ClientLimits
from gateway.rdma.aio import to_the_end
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.extent import Extent


@dataclass(frozen=True, slots=True)
class Upload:
    """What is to be stored.

    Attributes:
        size_bytes: >= 0.
        headers: the object's own: Content-Type, ``x-amz-meta-*``.
        progress: told of each part when it is stored.
    """

    bucket: str
    key: str
    size_bytes: int
    headers: Mapping[str, str]
    memory: Memory
    progress: Progress

    async def run(
        self, carrier: PreferredCarrier, connection: Connection, limits: ClientLimits
    ) -> Stored:
        """Store it. Parts become smaller where a session of this server can't carry them."""
        self.progress(0, self.size_bytes)
        part_bytes = longest_part(self.size_bytes, limits)
        while True:
            try:
                if self.size_bytes <= part_bytes:
                    return await self._put_whole(carrier)
                multipart = _Multipart(self, carrier, connection, limits, part_bytes)
                return await multipart.run()
            except TooLargeError as error:
                smaller_bytes = min(part_bytes, self.size_bytes) // 2
                too_many = smaller_bytes * limits.max_parts < self.size_bytes
                if smaller_bytes < limits.min_part_bytes or too_many:
                    carrier.give_up(error)
                else:
                    part_bytes = smaller_bytes

    async def _put_whole(self, carrier: PreferredCarrier) -> Stored:
        async with self.memory.part(Extent(0, self.size_bytes)) as data:
            stored = await carrier.put(
                address(self.bucket, self.key), data, await crc.crc64nvme(data), self.headers
            )
        self.progress(self.size_bytes, self.size_bytes)
        return stored


@dataclass(frozen=True, slots=True)
class _Multipart:
    """One multipart upload, given up whole where any of it fails."""

    upload: Upload
    carrier: PreferredCarrier
    connection: Connection
    limits: ClientLimits
    part_bytes: int

    async def run(self) -> Stored:
        upload_id = await self._create()
        etags: dict[int, str] = {}
        sums: dict[int, tuple[int, int]] = {}

        async def send(piece: Extent) -> None:
            number = piece.offset_bytes // self.part_bytes + 1
            where = self._address({"partNumber": str(number), "uploadId": upload_id})
            async with self.upload.memory.part(piece) as data:
                checksum = await crc.crc64nvme(data)
                etags[number] = (await self.carrier.put(where, data, checksum, {})).etag
            sums[number] = checksum, piece.length_bytes
            self.upload.progress(piece.length_bytes, self.upload.size_bytes)

        try:
            pieces = Extent(0, self.upload.size_bytes).split(self.part_bytes)
            await for_each(pieces, send, self.limits.concurrency)
            order = sorted(etags)
            whole = crc.joined(sums[number] for number in order)
            return await self._complete(upload_id, [etags[number] for number in order], whole)
        except BaseException:
            await to_the_end(self._abort(upload_id))
            raise

    async def _create(self) -> str:
        """Begin, with the promise of one checksum over the whole object."""
        headers = {
            **self.upload.headers,
            "x-amz-checksum-algorithm": Algorithm.CRC64NVME.label,
            "x-amz-checksum-type": ChecksumType.FULL_OBJECT.value,
        }
        reply = await self._ask(Call("POST", self._address({"uploads": ""}), headers))
        return replies.upload_id(reply.body)

    async def _complete(self, upload_id: str, etags: list[str], checksum: int) -> Stored:
        headers = {
            crc.HEADER: crc.to_text(checksum),
            "x-amz-checksum-type": ChecksumType.FULL_OBJECT.value,
        }
        where = self._address({"uploadId": upload_id})
        reply = await self._ask(Call("POST", where, headers, replies.complete_request(etags)))
        version_id = reply.headers.get("x-amz-version-id")
        return Stored(replies.completed_etag(reply.body), version_id)

    async def _abort(self, upload_id: str) -> None:
        """Best effort: the server forgets unfinished uploads by itself, after days."""
        call = Call("DELETE", self._address({"uploadId": upload_id}))
        with suppress(S3RdmaError):
            await self.connection.fetch(call, self.limits.cancel_timeout_s)

    async def _ask(self, call: Call) -> Reply:
        return await while_busy(lambda: self.connection.fetch(call), self.limits)

    def _address(self, query: Mapping[str, str]) -> str:
        return address(self.upload.bucket, self.upload.key, query)


def longest_part(size_bytes: int, limits: ClientLimits) -> int:
    """How long parts must be for S3 to take as many as there are, and at least `part_bytes`."""
    return max(limits.part_bytes, -(-size_bytes // limits.max_parts))
