"""What the client answers with, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class RdmaMode(Enum):
    """Whether object bytes may go by RDMA."""

    AUTO = "auto"  # where both sides can; plain HTTP otherwise, and the result says why
    NEVER = "never"
    REQUIRE = "require"  # UnsupportedError instead of plain HTTP


class TransferPath(Enum):
    """How the bytes went."""

    RDMA = "RDMA"
    HTTP = "HTTP"


@dataclass(frozen=True, slots=True)
class Transfer:
    """One finished transfer.

    Attributes:
        bytes: the length moved, all of it verified to have arrived.
        seconds: wall time from the first request to the last reply, > 0.
        etag: the object's, without quotes.
        reason: why the path is HTTP; None where it is RDMA.
        device: the RDMA device that carried it; None where the path is HTTP.
        version_id: None where the bucket has no versions.
        carrier: what the device's bytes went by: "verbs" (the device itself), or of the soft fabric
            "udp" or "local" (shared memory); None where the path is HTTP.
    """

    bytes: int
    seconds: float
    etag: str
    path: TransferPath
    reason: str | None = None
    device: str | None = None
    version_id: str | None = None
    carrier: str | None = None

    @property
    def gigabytes_per_s(self) -> float:
        """Units of 10^9 bytes."""
        return self.bytes / self.seconds / 1e9


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one of many: a finished transfer, or the error that ended it."""

    bucket: str
    key: str
    transfer: Transfer | None = None
    error: Exception | None = None

    def unwrap(self) -> Transfer:
        """The transfer; raises the error where there is one."""
        if self.transfer is None:
            raise self.error or ValueError("an outcome has a transfer or an error")
        return self.transfer


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What HEAD tells of an object.

    Attributes:
        etag: without quotes.
        crc64nvme: of the whole object, where the server keeps it.
        metadata: ``x-amz-meta-*`` without the prefix, lower-case names.
    """

    size_bytes: int
    etag: str
    last_modified: str = ""
    content_type: str = ""
    version_id: str | None = None
    crc64nvme: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bucket:
    """`created` is ISO 8601, as the server sent it."""

    name: str
    created: str


@dataclass(frozen=True, slots=True)
class ObjectSummary:
    """One row of a listing; `last_modified` is ISO 8601, as the server sent it."""

    key: str
    size_bytes: int
    etag: str
    last_modified: str


@dataclass(frozen=True, slots=True)
class Listing:
    """One page, at most 1000 rows, in the byte order of the keys.

    Attributes:
        prefixes: the common prefixes, where a delimiter was given.
        next_token: pass it to get the next page; None on the last.
    """

    objects: tuple[ObjectSummary, ...]
    prefixes: tuple[str, ...] = ()
    next_token: str | None = None
