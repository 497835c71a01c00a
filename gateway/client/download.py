"""GET of any size, into memory or a file: cut into parts, held together by the object's ETag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.client import checksum as crc
from gateway.client.address import address
from gateway.client.carrier import PreferredCarrier
from gateway.client.errors import S3Error, TransferError
from gateway.client.memory import Memory
from gateway.client.models import ObjectHead
from gateway.client.parallel import for_each
from gateway.config.client import ClientLimits
from gateway.wire.extent import Extent

Progress = Callable[[int, int], None]
"""Called with a done part's length and the whole's, in bytes; the first part is of length 0."""


@dataclass(frozen=True, slots=True)
class Download:
    """What is to be fetched, and where to.

    Attributes:
        extent: of the object, length > 0.
        head: what HEAD said; None where the caller knew the extent and one request does it.
    """

    bucket: str
    key: str
    version_id: str | None
    extent: Extent
    head: ObjectHead | None
    memory: Memory
    progress: Progress

    async def run(self, carrier: PreferredCarrier, limits: ClientLimits) -> str:
        """Fetch all of it; returns the object's ETag.

        Raises:
            TransferError: the object was replaced meanwhile, or the bytes are not its own.
        """
        where = address(
            self.bucket, self.key, {"versionId": self.version_id} if self.version_id else None
        )
        pinned = {"If-Match": f'"{self.head.etag}"'} if self.head and self.head.etag else {}
        etags: set[str] = set()
        sums: dict[int, tuple[int, int]] = {}
        stated = {self.head.crc64nvme} if self.head else set()

        async def fetch(piece: Extent) -> None:
            start_bytes = piece.offset_bytes - self.extent.offset_bytes
            async with self.memory.part(Extent(start_bytes, piece.length_bytes)) as view:
                fetched = await carrier.get(where, piece, view, pinned)
                etags.add(fetched.etag)
                stated.add(fetched.checksum)
                if self._whole and stated != {None}:
                    sums[start_bytes] = await crc.crc64nvme(view), piece.length_bytes
            self.progress(piece.length_bytes, self.extent.length_bytes)

        self.progress(0, self.extent.length_bytes)
        try:
            await for_each(self.extent.split(limits.part_bytes), fetch, limits.concurrency)
        except S3Error as error:
            if error.status == 412 and pinned:
                raise TransferError(
                    "the object was replaced while it was read: get it again"
                ) from error
            raise
        _check(
            etags, {crc.joined(sums[start] for start in sorted(sums))} if sums else set(), stated
        )
        return etags.pop()

    @property
    def _whole(self) -> bool:
        """Whether the extent is the object, so that the object's checksum is the extent's."""
        return self.head is not None and self.extent == Extent(0, self.head.size_bytes)


def _check(etags: set[str], computed: set[int], stated: set[int | None]) -> None:
    if len(etags) > 1:
        raise TransferError("the object was replaced while it was read: get it again")
    if computed and computed != stated - {None}:
        raise TransferError("the bytes that arrived are not the object's: CRC64NVME differs")
