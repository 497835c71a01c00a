"""GET of a whole object by one request: the buffer is the bound, so that no HEAD has to come first.

Only by a connection, whose reply says how long the object is and how its bytes sum; what does not
fit into the buffer is not written to it (PROTOCOL.md section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client import checksum as crc
from gateway.client.address import address
from gateway.client.carrier import PreferredCarrier, Whole
from gateway.client.download import Evidence, Progress
from gateway.client.errors import TooShortError
from gateway.client.memory import Memory
from gateway.wire.extent import Extent


@dataclass(frozen=True, slots=True)
class WholeDownload:
    """What is to be fetched, and where to.

    Attributes:
        memory: what the object goes to the beginning of.
        room_bytes: of it, > 0.
    """

    bucket: str
    key: str
    version_id: str | None
    memory: Memory
    room_bytes: int
    progress: Progress

    async def run(self, carrier: PreferredCarrier) -> Whole | None:
        """Fetch it; None where the carrier must know the length first.

        Raises:
            ValueError: it is longer than the room for it.
            TransferError: the bytes that came are not the object's.
        """
        where = address(
            self.bucket, self.key, {"versionId": self.version_id} if self.version_id else None
        )
        async with self.memory.part(Extent(0, self.room_bytes)) as view:
            try:
                whole = await carrier.get_whole(where, view)
            except TooShortError as error:
                raise ValueError(
                    f"the buffer has {self.room_bytes} bytes and {error.needed_bytes} are to be "
                    "fetched"
                ) from error
            if whole is None:
                return None
            evidence = Evidence({whole.etag}, {whole.checksum})
            if self.memory.on_host and whole.checksum is not None:
                evidence.sums[0] = await crc.crc64nvme(view[: whole.bytes]), whole.bytes
        evidence.judged(whole.bytes)
        self.progress(0, whole.bytes)
        self.progress(whole.bytes, whole.bytes)
        return whole
