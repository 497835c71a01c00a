"""Copies within the server: in one request, or part by part where S3 wants that.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/CopyingObjectsMPUapi.html
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from gateway.client import replies
from gateway.client.address import address
from gateway.client.begun import Ask
from gateway.client.connection import Call
from gateway.client.errors import S3Error
from gateway.client.models import ObjectHead
from gateway.client.multipart import Multipart
from gateway.client.parallel import for_each
from gateway.client.upload import object_headers
from gateway.config.client import ClientLimits
from gateway.wire.extent import Extent

_SOURCE = "x-amz-copy-source"


@dataclass(frozen=True, slots=True)
class Copy:
    """One object to another key; both are (bucket, key).

    Attributes:
        head: of the source. Only what it describes is copied, whatever comes in its place.
    """

    source: tuple[str, str]
    target: tuple[str, str]
    version_id: str | None
    head: ObjectHead

    async def run(self, ask: Ask, limits: ClientLimits) -> str:
        """Copy it; returns the new object's ETag.

        Raises:
            S3Error: PreconditionFailed where the source was replaced meanwhile; the server's own.
        """
        if self.head.size_bytes <= limits.copy_bytes:
            reply = await ask(Call("PUT", address(*self.target), self._source))
            return replies.copied_etag(reply.body)
        return await self._in_parts(ask, limits)

    async def _in_parts(self, ask: Ask, limits: ClientLimits) -> str:
        """With all that one request would have carried over, and of the same checksum."""
        part_bytes = max(limits.copy_part_bytes, -(-self.head.size_bytes // limits.max_parts))
        upload = Multipart(*self.target, ask, limits)
        upload_id = await upload.create(await self._description(ask))
        etags: dict[int, str] = {}

        async def copy(piece: Extent) -> None:
            number = piece.offset_bytes // part_bytes + 1
            part = self._source | {
                f"{_SOURCE}-range": f"bytes={piece.offset_bytes}-{piece.end_bytes - 1}"
            }
            reply = await ask(Call("PUT", upload.part_address(upload_id, number), part))
            etags[number] = replies.copied_etag(reply.body)

        async with upload.or_aborted(upload_id):
            pieces = Extent(0, self.head.size_bytes).split(part_bytes)
            await for_each(pieces, copy, limits.concurrency)
            in_order = [etags[number] for number in sorted(etags)]
            done = await upload.complete(upload_id, in_order, self.head.crc64nvme)
        return done.etag

    async def _description(self, ask: Ask) -> dict[str, str]:
        """The headers that describe the new object as the source is described."""
        tags = await self._tags(ask)
        return {
            **object_headers(self.head.metadata, self.head.content_type),
            **self.head.headers,
            **({"x-amz-tagging": urlencode(tags)} if tags else {}),
        }

    async def _tags(self, ask: Ask) -> dict[str, str]:
        """The source's. Where the server has none at all, there is nothing to carry over."""
        where = address(*self.source, {"tagging": "", **self._version})
        try:
            return replies.tags((await ask(Call("GET", where))).body)
        except S3Error as error:
            if error.status != HTTPStatus.NOT_IMPLEMENTED:
                raise
            return {}

    @property
    def _version(self) -> dict[str, str]:
        return {"versionId": self.version_id} if self.version_id else {}

    @property
    def _source(self) -> dict[str, str]:
        return {
            _SOURCE: address(*self.source, self._version),
            f"{_SOURCE}-if-match": f'"{self.head.etag}"',
        }
