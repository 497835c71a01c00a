"""PUT of any size, from memory or a file: in one piece, or as a multipart upload of parallel parts.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.client import checksum as crc
from gateway.client.address import address
from gateway.client.begun import Ask, Begun, find_begun
from gateway.client.carrier import PreferredCarrier, Stored
from gateway.client.download import Progress
from gateway.client.errors import TooLargeError
from gateway.client.memory import Memory
from gateway.client.multipart import Multipart
from gateway.client.parallel import for_each
from gateway.config.client import ClientLimits
from gateway.rdma.aio import to_the_end
from gateway.wire.extent import Extent


@dataclass(frozen=True, slots=True)
class Upload:
    """What is to be stored.

    Attributes:
        size_bytes: >= 0.
        headers: the object's own: Content-Type, ``x-amz-meta-*``.
        progress: told of each part when it is stored.
        resume: an upload of this key that was begun before is continued, as far as its parts are
            these bytes; and where this one fails, its parts stay for the next.
    """

    bucket: str
    key: str
    size_bytes: int
    headers: Mapping[str, str]
    memory: Memory
    progress: Progress
    resume: bool = False

    async def run(self, carrier: PreferredCarrier, ask: Ask, limits: ClientLimits) -> Stored:
        """Store it. Parts become smaller where a session of this server can't carry them."""
        self.progress(0, self.size_bytes)
        part_bytes = longest_part(self.size_bytes, limits)
        multipart = Multipart(self.bucket, self.key, ask, limits)
        begun = None
        if self.resume and self.size_bytes > part_bytes:
            begun = await find_begun(self.bucket, self.key, ask)
            part_bytes = _continued_part(begun, part_bytes, self.size_bytes, limits)
        while True:
            try:
                if self.size_bytes <= part_bytes:
                    return await self._put_whole(carrier)
                return await _Parts(self, carrier, multipart, part_bytes, begun).run()
            except TooLargeError as error:
                begun = None
                smaller_bytes = min(part_bytes, self.size_bytes) // 2
                too_many = smaller_bytes * limits.max_parts < self.size_bytes
                if smaller_bytes < limits.min_part_bytes or too_many:
                    carrier.give_up(error)
                else:
                    part_bytes = smaller_bytes

    async def _put_whole(self, carrier: PreferredCarrier) -> Stored:
        async with self.memory.part(Extent(0, self.size_bytes)) as data:
            stored = await carrier.put(
                address(self.bucket, self.key), data, await self.checksum(data), self.headers
            )
        self.progress(self.size_bytes, self.size_bytes)
        return stored

    async def checksum(self, data: memoryview) -> int | None:
        """CRC-64/NVME of what the memory lent; None where this processor can't read it."""
        return await crc.crc64nvme(data) if self.memory.on_host else None


@dataclass(frozen=True, slots=True)
class _Parts:
    """One multipart upload: given up whole where any of it fails, or left to be continued."""

    upload: Upload
    carrier: PreferredCarrier
    multipart: Multipart
    part_bytes: int
    begun: Begun | None

    async def run(self) -> Stored:
        upload_id = (
            self.begun.upload_id if self.begun else await self.multipart.create(self.upload.headers)
        )
        try:
            return await self._send_all(upload_id)
        except BaseException as error:
            # Parts of another length are no beginning of this upload.
            if not self.upload.resume or isinstance(error, TooLargeError):
                await to_the_end(self.multipart.abort(upload_id))
            raise

    async def _send_all(self, upload_id: str) -> Stored:
        etags: dict[int, str] = {}
        sums: dict[int, tuple[int, int]] = {}

        async def send(piece: Extent) -> None:
            number = piece.offset_bytes // self.part_bytes + 1
            where = self.multipart.part_address(upload_id, number)
            async with self.upload.memory.part(piece) as data:
                checksum = await self.upload.checksum(data)
                etag = None
                if self.begun and checksum is not None:
                    etag = await self.begun.etag_of(number, data, checksum)
                etags[number] = etag or (await self.carrier.put(where, data, checksum, {})).etag
            if checksum is not None:
                sums[number] = checksum, piece.length_bytes
            self.upload.progress(piece.length_bytes, self.upload.size_bytes)

        pieces = Extent(0, self.upload.size_bytes).split(self.part_bytes)
        await for_each(pieces, send, self.multipart.limits.concurrency)
        order = sorted(etags)
        whole = crc.joined(sums[number] for number in order) if sums else None
        return await self.multipart.complete(upload_id, [etags[number] for number in order], whole)


def _continued_part(
    begun: Begun | None, part_bytes: int, size_bytes: int, limits: ClientLimits
) -> int:
    """The length of the parts that are there already, where it will do for the rest as well."""
    there_bytes = begun.part_bytes if begun else 0
    enough = there_bytes * limits.max_parts >= size_bytes
    return (
        there_bytes if limits.min_part_bytes <= there_bytes <= part_bytes and enough else part_bytes
    )


def longest_part(size_bytes: int, limits: ClientLimits) -> int:
    """How long parts must be for S3 to take as many as there are, and at least `part_bytes`."""
    return max(limits.part_bytes, -(-size_bytes // limits.max_parts))


def object_headers(metadata: Mapping[str, str] | None, content_type: str | None) -> dict[str, str]:
    """The headers that describe an object; `metadata` is without its prefix."""
    own = {f"x-amz-meta-{name.lower()}": text for name, text in (metadata or {}).items()}
    return own | ({"Content-Type": content_type} if content_type else {})
