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


class RdmaProtocol(Enum):
    """How a transfer by RDMA is agreed on (PROTOCOL.md)."""

    RC = "rc"  # by a connection that stays: one request for each transfer
    HIPOBJ = "hipobj-rc-v2"  # by a session for each transfer


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
        protocol: how it was agreed on; None where the path is HTTP.
    """

    bytes: int
    seconds: float
    etag: str
    path: TransferPath
    reason: str | None = None
    device: str | None = None
    version_id: str | None = None
    carrier: str | None = None
    protocol: RdmaProtocol | None = None

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
        headers: what else PUT takes and GET gives back: Cache-Control, Content-Disposition and so
            on, by name; those that it has.
    """

    size_bytes: int
    etag: str
    last_modified: str = ""
    content_type: str = ""
    version_id: str | None = None
    crc64nvme: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


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
class ObjectVersion:
    """One row of a listing of versions; a delete marker has neither size nor ETag."""

    key: str
    version_id: str
    latest: bool
    last_modified: str
    size_bytes: int = 0
    etag: str = ""
    delete_marker: bool = False


@dataclass(frozen=True, slots=True)
class VersionListing:
    """One page, at most 1000 rows, by key; of one key the newest version first.

    Attributes:
        next_marker: pass it to get the next page; None on the last.
    """

    versions: tuple[ObjectVersion, ...]
    prefixes: tuple[str, ...] = ()
    next_marker: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """What is to be deleted; without a version a versioned bucket keeps the object's old ones."""

    key: str
    version_id: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """One of many that could not be deleted, in the server's words."""

    deletion: Deletion
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class UploadInProgress:
    """A multipart upload that was begun.

    Attributes:
        initiated: ISO 8601.
        checksum_algorithm: as S3 writes it; "" where none was chosen, or none is listed.
    """

    key: str
    upload_id: str
    initiated: str
    checksum_algorithm: str = ""


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A part that the server has; `crc64nvme` where it lists that."""

    number: int
    size_bytes: int
    etag: str
    crc64nvme: int | None


@dataclass(frozen=True, slots=True)
class PartListing:
    """One page; `next_marker` is passed to get the next, and None on the last."""

    parts: tuple[UploadedPart, ...]
    next_marker: str | None = None


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
