"""How bytes are carried: the port that plain HTTP and RDMA keep, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gateway.client.errors import TooLargeError, UnreachableError, UnsupportedError
from gateway.client.gpu import CPU_REMEDY
from gateway.client.models import RdmaProtocol, TransferPath
from gateway.wire.extent import Extent


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came with an extent of an object.

    Attributes:
        etag: the object's, without quotes.
        checksum: CRC-64/NVME that the server states for the whole object; None where it doesn't.
        lane: what moved the bytes, as a lane names it; None where it was no lane.
    """

    etag: str
    checksum: int | None = None
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class Whole(Fetched):
    """A whole object, and its length in bytes."""

    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored object or part; `etag` without quotes, `lane` as in `Fetched`."""

    etag: str
    version_id: str | None = None
    lane: str | None = None


class Carrier(Protocol):
    """Moves one run of bytes; the memory is free again when a method returns or raises.

    Both methods raise S3Error, ConnectError, TransferError, and UnsupportedError before any byte
    has moved.
    """

    async def get(
        self, address: str, extent: Extent, into: memoryview, headers: Mapping[str, str]
    ) -> Fetched:
        """Fill `into`, exactly as long as the extent, from the object.

        `headers` are S3's own, among them ``If-Match``.
        """

    async def put(
        self, address: str, data: memoryview, checksum: int | None, headers: Mapping[str, str]
    ) -> Stored:
        """Store `data`, whose CRC-64/NVME is `checksum`, as an object or as a part of one.

        The checksum of memory that only a device reaches is not known: None.
        """


@runtime_checkable
class WholeCarrier(Protocol):
    """A carrier that needs not know an object's length before."""

    async def get_whole(self, address: str, into: memoryview) -> Whole:
        """Fill the beginning of `into` with an object.

        Raises TooShortError where it is longer, and nothing was written; else as ``Carrier.get``.
        """


@dataclass(frozen=True, slots=True)
class RdmaChoice:
    """The carrier by RDMA, the name of its device, and how transfers are agreed on."""

    carrier: Carrier
    device: str
    protocol: RdmaProtocol


class PreferredCarrier:
    """RDMA as long as it can, plain HTTP from the first "unsupported" on. One per transfer.

    Args:
        http: what always works; None where the memory is one that only a device reaches.
        rdma: what is tried first, or the reason why it can't be.
        required: raise "unsupported" instead of going on by HTTP.

    Attributes:
        reason: why HTTP is used; None while RDMA is.
        unreachable: whether that will be so for every later transfer, too.
    """

    def __init__(
        self, http: Carrier | None, rdma: RdmaChoice | str, *, required: bool = False
    ) -> None:
        self._http = http
        self._rdma = rdma if isinstance(rdma, RdmaChoice) else None
        self._required = required
        self.reason = rdma if isinstance(rdma, str) else None
        self._lane: str | None = None
        self.unreachable = False

    @property
    def device(self) -> str | None:
        """The RDMA device, while it is used."""
        return self._rdma.device if self._rdma else None

    @property
    def protocol(self) -> RdmaProtocol | None:
        """How transfers are agreed on, while RDMA is used."""
        return self._rdma.protocol if self._rdma else None

    @property
    def lane(self) -> str | None:
        """What moved the last bytes, as a lane names it, while RDMA is used."""
        return self._lane if self._rdma else None

    @property
    def path(self) -> TransferPath:
        return TransferPath.RDMA if self._rdma else TransferPath.HTTP

    @property
    def _fallback(self) -> Carrier:
        if self._http is None:
            raise UnsupportedError(
                f"{self.reason}; plain HTTP can't reach a GPU's memory: {CPU_REMEDY}"
            )
        return self._http

    def give_up(self, error: UnsupportedError) -> None:
        """From here on by HTTP; where RDMA is required, the error is raised instead."""
        if self._required:
            raise error
        self._rdma = None
        self.reason = str(error)
        self.unreachable = isinstance(error, UnreachableError)

    async def get(
        self, address: str, extent: Extent, into: memoryview, headers: Mapping[str, str]
    ) -> Fetched:
        if self._rdma:
            try:
                fetched = await self._rdma.carrier.get(address, extent, into, headers)
            except UnsupportedError as error:
                self.give_up(error)
            else:
                self._lane = fetched.lane
                return fetched
        return await self._fallback.get(address, extent, into, headers)

    async def get_whole(self, address: str, into: memoryview) -> Whole | None:
        """As ``WholeCarrier`` says; None where RDMA is not used, or has to know the length."""
        if self._rdma and isinstance(self._rdma.carrier, WholeCarrier):
            try:
                whole = await self._rdma.carrier.get_whole(address, into)
            except UnsupportedError as error:
                self.give_up(error)
            else:
                self._lane = whole.lane
                return whole
        return None

    async def put(
        self, address: str, data: memoryview, checksum: int | None, headers: Mapping[str, str]
    ) -> Stored:
        """As the port says; TooLargeError is the caller's to answer, with smaller parts."""
        if self._rdma:
            try:
                stored = await self._rdma.carrier.put(address, data, checksum, headers)
            except TooLargeError:
                raise
            except UnsupportedError as error:
                self.give_up(error)
            else:
                self._lane = stored.lane
                return stored
        return await self._fallback.put(address, data, checksum, headers)
