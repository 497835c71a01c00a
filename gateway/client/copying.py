"""Copies within the server: in one request, or part by part where S3 wants that.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/CopyingObjectsMPUapi.html
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client import replies
from gateway.client.address import address
from gateway.client.begun import Ask
from gateway.client.connection import Call
from gateway.client.models import ObjectHead
from gateway.client.multipart import Multipart
from gateway.client.parallel import for_each
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
        """Nobody carries what describes the object over here, so it is said again."""
        headers = {f"x-amz-meta-{name}": text for name, text in self.head.metadata.items()}
        if self.head.content_type:
            headers["Content-Type"] = self.head.content_type
        part_bytes = max(limits.copy_part_bytes, -(-self.head.size_bytes // limits.max_parts))
        upload = Multipart(*self.target, ask, limits)
        upload_id = await upload.create(headers)
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
            done = await upload.complete(upload_id, [etags[number] for number in sorted(etags)])
        return done.etag

    @property
    def _source(self) -> dict[str, str]:
        query = {"versionId": self.version_id} if self.version_id else None
        return {
            _SOURCE: address(*self.source, query),
            f"{_SOURCE}-if-match": f'"{self.head.etag}"',
        }
