"""GET of any size, into memory or a file: cut into parts, held together by the object's ETag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.client import checksum as crc
from gateway.client.address import address
from gateway.client.carrier import PreferredCarrier
from gateway.client.errors import S3Error, TransferError
from gateway.client.memory import Memory
from gateway.client.models import ObjectHead
from gateway.client.parallel import for_each
from gateway.client.partial import Ledger
from gateway.config.client import ClientLimits
from gateway.wire.extent import Extent

Progress = Callable[[int, int], None]
"""Called with a done part's length and the whole's, in bytes; the first part is of length 0."""

_REPLACED = "the object was replaced while it was read: get it again"


@dataclass(frozen=True, slots=True)
class Download:
    """What is to be fetched, and where to.

    Attributes:
        extent: of the object, length > 0.
        head: what HEAD said; None where the caller knew the extent and one request does it.
        ledger: of the parts that are there already; None where nobody will continue.
    """

    bucket: str
    key: str
    version_id: str | None
    extent: Extent
    head: ObjectHead | None
    memory: Memory
    progress: Progress
    ledger: Ledger | None = None

    async def run(self, carrier: PreferredCarrier, limits: ClientLimits) -> str:
        """Fetch all of it that is not there yet; returns the object's ETag.

        Raises:
            TransferError: the object was replaced meanwhile, or the bytes are not its own.
        """
        evidence = Evidence()
        if self.head:
            evidence.etags.add(self.head.etag)
            evidence.stated.add(self.head.crc64nvme)

        async def fetch(piece: Extent) -> None:
            checksum = await self.ledger.known(piece) if self.ledger else None
            if checksum is None:
                checksum = await self._receive(piece, carrier, evidence)
            if checksum is not None:
                evidence.sums[piece.offset_bytes] = checksum, piece.length_bytes
            self.progress(piece.length_bytes, self.extent.length_bytes)

        self.progress(0, self.extent.length_bytes)
        try:
            await for_each(self.extent.split(limits.part_bytes), fetch, limits.concurrency)
        except S3Error as error:
            if error.status == 412 and self._pinned:
                raise TransferError(_REPLACED) from error
            raise
        return evidence.judged(self.extent.length_bytes if self._whole else None)

    async def _receive(
        self, piece: Extent, carrier: PreferredCarrier, evidence: Evidence
    ) -> int | None:
        """Fetch a part; its checksum, where somebody will ask for it."""
        query = {"versionId": self.version_id} if self.version_id else None
        where = address(self.bucket, self.key, query)
        start_bytes = piece.offset_bytes - self.extent.offset_bytes
        checksum = None
        async with self.memory.part(Extent(start_bytes, piece.length_bytes)) as view:
            fetched = await carrier.get(where, piece, view, self._pinned)
            evidence.etags.add(fetched.etag)
            evidence.stated.add(fetched.checksum)
            wanted = self.ledger or (self._whole and evidence.stated != {None})
            if wanted and self.memory.on_host:
                checksum = await crc.crc64nvme(view)
        if self.ledger and checksum is not None:
            self.ledger.note(piece, checksum)
        return checksum

    @property
    def _pinned(self) -> dict[str, str]:
        """The condition that it is still the object that HEAD described."""
        return {"If-Match": f'"{self.head.etag}"'} if self.head and self.head.etag else {}

    @property
    def _whole(self) -> bool:
        """Whether the extent is the object, so that the object's checksum is the extent's."""
        return self.head is not None and self.extent == Extent(0, self.head.size_bytes)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the parts say of the object.

    Attributes:
        etags: of every answer.
        stated: CRC-64/NVME of the whole object, as the server states it; None where it doesn't.
        sums: (checksum, length in bytes) of the parts, by their offset.
    """

    etags: set[str] = field(default_factory=set)
    stated: set[int | None] = field(default_factory=set)
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)

    def judged(self, object_bytes: int | None) -> str:
        """The one ETag of all parts.

        Args:
            object_bytes: the object's length, where the parts together are all of it.
        """
        etags = self.etags - {""} or {""}
        if len(etags) > 1:
            raise TransferError(_REPLACED)
        stated, parts = self.stated - {None}, [self.sums[start] for start in sorted(self.sums)]
        summed = sum(length_bytes for _, length_bytes in parts) == object_bytes
        if stated and summed and {crc.joined(parts)} != stated:
            raise TransferError("the bytes that arrived are not the object's: CRC64NVME differs")
        return etags.pop()


def requested(head: ObjectHead | None, offset_bytes: int, length_bytes: int | None) -> Extent:
    """The range asked for, held against the object where its size is known."""
    if offset_bytes < 0 or (length_bytes is not None and length_bytes < 0):
        raise ValueError("offset and length must not be negative")
    if head is not None:
        rest_bytes = head.size_bytes - offset_bytes
        length_bytes = rest_bytes if length_bytes is None else length_bytes
        if not 0 <= length_bytes <= rest_bytes:
            raise S3Error(
                "InvalidRange", 416, f"the object has {head.size_bytes} bytes, not as many as asked"
            )
    return Extent(offset_bytes, length_bytes or 0)
