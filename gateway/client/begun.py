"""Multipart uploads that were begun and not finished: found again, and continued.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListParts.html
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from gateway.client import replies
from gateway.client.address import address
from gateway.client.connection import Call, Reply
from gateway.client.models import UploadedPart
from gateway.wire.checksums import Algorithm

_OURS = {"", Algorithm.CRC64NVME.label}
"""An upload that promised another checksum takes no parts of ours."""

Ask = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Begun:
    """An upload in progress, and the parts that the server has of it, by number."""

    upload_id: str
    parts: Mapping[int, UploadedPart]

    @property
    def part_bytes(self) -> int:
        """How long its parts are: all but the last are of one length. 0 where there is none."""
        return max((part.size_bytes for part in self.parts.values()), default=0)

    async def etag_of(self, number: int, data: memoryview, checksum: int) -> str | None:
        """The ETag of a part that the server has, and that is these bytes; else None.

        Args:
            number: from 1.
            data: what the part has to be.
            checksum: its CRC-64/NVME. A server that doesn't list it is asked by the part's ETag,
                which is the MD5 of what is not encrypted.
        """
        part = self.parts.get(number)
        if part is None or part.size_bytes != len(data):
            return None
        if part.crc64nvme is not None:
            return part.etag if part.crc64nvme == checksum else None
        return part.etag if part.etag == await asyncio.to_thread(_md5, data) else None


async def find_begun(bucket: str, key: str, ask: Ask) -> Begun | None:
    """The latest upload of exactly this key that the server still has, with all its parts.

    A listing is in the order of the keys: those of the prefix itself come first.
    """
    query = {"uploads": "", "encoding-type": "url", "prefix": key}
    reply = await ask(Call("GET", address(bucket, query=query)))
    own = [
        upload
        for upload in replies.uploads(reply.body)
        if upload.key == key and upload.checksum_algorithm in _OURS
    ]
    if not own:
        return None
    upload_id = max(own, key=lambda upload: upload.initiated).upload_id
    parts: dict[int, UploadedPart] = {}
    marker = ""
    while True:
        query = {"uploadId": upload_id} | ({"part-number-marker": marker} if marker else {})
        reply = await ask(Call("GET", address(bucket, key, query)))
        page = replies.parts(reply.body)
        parts |= {part.number: part for part in page.parts}
        if page.next_marker is None:
            return Begun(upload_id, parts)
        marker = page.next_marker


def _md5(data: memoryview) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
