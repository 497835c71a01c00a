"""The port of every storage: what the S3 verbs may ask, and what each driver promises.

Rules that hold for all drivers (the contract suite checks them):

* An object becomes visible in one step. A crash leaves the old one or the new one.
* Write conditions are checked in the same step that publishes, never before it.
* A reader opened before a replacement or a delete reads the bytes it opened, to the end.
* ``commit_*`` returns only when the object is durable to the configured level.
* Staged bytes that were never committed vanish on ``discard`` or at the next start.

All methods are coroutines of the event loop's thread; blocking work happens in the driver's own
threads. They raise ``gateway.errors`` exceptions: NoSuchBucket, NoSuchKey, NoSuchUpload, …
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions
from gateway.wire.extent import FileExtent
from gateway.wire.grants import Grant

NULL_VERSION = "null"


class Versioning(Enum):
    """A bucket's state: never switched on, on, or suspended; the value is S3's word for it."""

    OFF = ""
    ENABLED = "Enabled"
    SUSPENDED = "Suspended"


class RetentionMode(Enum):
    """Who may shorten a retention: some (with a bypass), or nobody."""

    GOVERNANCE = "GOVERNANCE"
    COMPLIANCE = "COMPLIANCE"


@dataclass(frozen=True, slots=True)
class Retention:
    """An object version may not be removed before `until_ns` (POSIX nanoseconds)."""

    mode: RetentionMode
    until_ns: int


@dataclass(frozen=True, slots=True)
class ObjectAttributes:
    """What a client says of an object, kept and given back word for word.

    Tags, grants, retention and legal hold may be changed later (`update_object`).

    Attributes:
        headers: lower-case name to value: content-type, cache-control, content-disposition,
            content-encoding, content-language, expires, x-amz-website-redirect-location.
        metadata: x-amz-meta-* names (lower case, without the prefix) to values.
        tags: (key, value), in order.
        storage_class: as sent; "STANDARD" where not.
        grants: the access control list; () means that the owner alone has FULL_CONTROL.
        legal_hold: the version may not be removed while it is set.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[tuple[str, str], ...] = ()
    storage_class: str = "STANDARD"
    grants: tuple[Grant, ...] = ()
    retention: Retention | None = None
    legal_hold: bool = False


@dataclass(frozen=True, slots=True)
class PartInfo:
    """One part of an upload, or of a finished multipart object.

    Attributes:
        number: 1..10000.
        etag: unquoted; hex MD5 of the part.
        modified_ns: POSIX nanoseconds.
        checksums: base64 by algorithm.
    """

    number: int
    size_bytes: int
    etag: str
    modified_ns: int
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A stored object version, complete enough for HEAD, lists and conditions.

    Attributes:
        etag: unquoted; "" of a delete marker.
        modified_ns: POSIX nanoseconds; HTTP dates cut them to seconds.
        version_id: "null" where the bucket was not versioned when it was made, else opaque.
        parts: the finished upload's parts, () for a plain object and in a listing.
        owner: the account's canonical user id; "" is the gateway's own.
        delete_marker: it hides older versions and has no bytes.
        latest: it is what the key alone names.
    """

    bucket: str
    key: str
    size_bytes: int
    etag: str
    modified_ns: int
    attributes: ObjectAttributes
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)
    checksum_type: ChecksumType = ChecksumType.FULL_OBJECT
    version_id: str = NULL_VERSION
    parts: tuple[PartInfo, ...] = ()
    owner: str = ""
    delete_marker: bool = False
    latest: bool = True


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a delete did.

    Attributes:
        existed: whether there was something to remove or to hide.
        version_id: of the version removed, or of the delete marker made; None where the bucket
            was never versioned.
        delete_marker: a marker was made, or the version removed was one.
    """

    existed: bool
    version_id: str | None = None
    delete_marker: bool = False


@dataclass(frozen=True, slots=True)
class ObjectDraft:
    """All that a commit needs besides the staged bytes. `owner` is an account's id."""

    size_bytes: int
    etag: str
    attributes: ObjectAttributes = field(default_factory=ObjectAttributes)
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)
    checksum_type: ChecksumType = ChecksumType.FULL_OBJECT
    owner: str = ""


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """A bucket and all that is configured of it; `update_bucket` changes it.

    Attributes:
        created_ns: POSIX nanoseconds.
        owner: the account's canonical user id; "" is the gateway's own.
        object_lock: versions may be locked; never taken back.
        grants: as an object's.
        settings: sub-resource name (policy, cors, tagging, …) to its document as it was stored.
    """

    name: str
    created_ns: int
    region: str
    owner: str = ""
    versioning: Versioning = Versioning.OFF
    object_lock: bool = False
    grants: tuple[Grant, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do; where it can't, that is by design, and it says so to the client.

    The contract suite asks of each driver what it claims.

    Attributes:
        versioning: buckets can be versioned; else switching it on is NotImplemented.
        any_key: any 1 to 1024 bytes of UTF-8 are a key; else keys are paths, which have limits:
            a key can't be another's directory, a segment is neither empty, "." nor "..".
    """

    versioning: bool = True
    any_key: bool = True


Permit = Callable[[ObjectInfo], None]
"""Asked in the step that removes a version; raises to forbid it (object lock)."""


def permit_all(_info: ObjectInfo) -> None:
    """Forbid nothing."""


@dataclass(frozen=True, slots=True)
class UploadInfo:
    """A multipart upload in progress."""

    bucket: str
    key: str
    upload_id: str
    initiated_ns: int
    attributes: ObjectAttributes
    checksum_algorithm: Algorithm | None = None
    checksum_type: ChecksumType | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """One page of a listing, in byte order of UTF-8 keys.

    Attributes:
        after: entries that sort after this, exclusively; "" begins at the start. Where it is a
            common prefix (ends in the delimiter and begins with `prefix`), all keys below it are
            past too. A plain marker need not exist, and prefixes that contain later keys appear.
        limit: 0..1000 entries (objects and prefixes together).
    """

    bucket: str
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class ListPage:
    """`objects` and `prefixes`, each in byte order; `next_after` is None on the last page.

    `next_after` is the last entry shown (a key or a common prefix): pass it as `after`.
    """

    objects: tuple[ObjectInfo, ...]
    prefixes: tuple[str, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class VersionQuery:
    """One page of all versions: keys in byte order, of one key the newest first.

    Attributes:
        after_key / after_version: entries behind this one, exclusively. An empty version means
            behind all versions of that key; a key that is a common prefix, as in ListQuery.
        limit: 0..1000 entries (versions, markers and prefixes together).
    """

    bucket: str
    prefix: str = ""
    delimiter: str = ""
    after_key: str = ""
    after_version: str = ""
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class VersionPage:
    """`versions` hold delete markers too; the markers of the last entry shown, or None.

    Where the last entry is a common prefix, `next_version` is "".
    """

    versions: tuple[ObjectInfo, ...]
    prefixes: tuple[str, ...]
    next_key: str | None
    next_version: str | None


@dataclass(frozen=True, slots=True)
class UploadPage:
    """Uploads in order of (key, initiated, upload id); markers of the last entry, or None.

    Where the last entry is a common prefix, `next_upload_id` is "".
    """

    uploads: tuple[UploadInfo, ...]
    prefixes: tuple[str, ...]
    next_key: str | None
    next_upload_id: str | None


@dataclass(frozen=True, slots=True)
class Destination:
    """Where staged bytes will go.

    Attributes:
        attributes / owner / conditions: of the object, as the commit will have them; not of a part.
        upload_id / number: of a part; "" and 0 for an object of its own.
    """

    key: str
    attributes: ObjectAttributes = field(default_factory=ObjectAttributes)
    owner: str = ""
    conditions: Conditions = NO_CONDITIONS
    upload_id: str = ""
    number: int = 0


class Staged(Protocol):
    """A place for bytes that no one sees yet. One writer; append only."""

    def fileno(self) -> int | None:
        """A writable file descriptor at offset 0 for the C core, or None where there is no file.

        Whoever writes through it (pwrite) says how much with `written`; the file need not be
        seeked. It stays the driver's and open until commit or discard.
        """

    def written(self, length_bytes: int) -> None:
        """Account for bytes that were written through `fileno` from the current end on."""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append; `data` is not kept after the call. Raises InternalError on a full disk."""

    async def discard(self) -> None:
        """Give up; idempotent, and a no-op after a commit."""


class PassingStaged(ABC, Staged):
    """A `Staged` that passes bytes on while more come, and holds a bounded amount of them.

    Who writes through `fileno` says after each stretch that it is done with it (`written`), then
    waits for room. Drivers inherit it: `isinstance` of a protocol is too slow for each request.
    """

    @abstractmethod
    async def room(self) -> None:
        """Wait until more may come. Raises what went wrong on the way, as the commit would."""


class ObjectReader(Protocol):
    """An open object. Its bytes stay readable until close, whatever happens to the name."""

    @property
    def info(self) -> ObjectInfo: ...

    def extents(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...] | None:
        """Where these bytes lie in open files, in order, or None where there are no files.

        () for length 0. The range must lie inside the object. Where the storage keeps sums, the
        extents say so, and whoever moves them holds the bytes against them.
        """

    async def verify(self, offset_bytes: int, length_bytes: int) -> None:
        """Hold bytes against the sums that the storage keeps of them, as `read` does by itself.

        Whoever moved them through `extents` and found them damaged learns here what to say of it.
        A storage that keeps no sums has nothing to do. Raises InternalError: which file, and what
        to do.
        """

    async def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        """Exactly these bytes, as they were stored; else InternalError."""

    async def close(self) -> None: ...


class StreamedReader(ABC, ObjectReader):
    """An `ObjectReader` whose bytes come from elsewhere while they are read: it has no extents.

    Drivers inherit it, as `PassingStaged`.
    """

    @abstractmethod
    def expect(self, offset_bytes: int, length_bytes: int) -> None:
        """What will be read, in order: it may be fetched ahead, and nothing else is."""

    @abstractmethod
    async def window(self, offset_bytes: int, length_bytes: int) -> tuple[FileExtent, ...]:
        """The first of these bytes, as files hold them: at least one, at most all.

        They stay there until the next call or close. The range must be what was expected.
        """


class Storage(Protocol):
    """Everything the verbs ask of a storage."""

    @property
    def capabilities(self) -> Capabilities:
        """Known once it is started."""

    async def start(self) -> None:
        """Open, migrate, and sweep what a crash left behind."""

    async def stop(self) -> None: ...

    async def check(self) -> None:
        """Readiness: a real, cheap write and read. Raises InternalError."""

    # Buckets
    async def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        """As wanted, but for the time of creation, which is now.

        Raises BucketAlreadyOwnedByYou, or BucketAlreadyExists where the owner is another.
        """

    async def update_bucket(
        self, bucket: str, change: Callable[[BucketInfo], BucketInfo]
    ) -> BucketInfo:
        """Replace what is configured, in one step.

        `change` is pure and may raise to leave everything as it is; name, region, owner and time
        of creation stay whatever it answers.
        """

    async def head_bucket(self, bucket: str) -> BucketInfo: ...

    async def list_buckets(self) -> Sequence[BucketInfo]:
        """All, by name."""

    async def delete_bucket(self, bucket: str) -> None:
        """Raises BucketNotEmpty: objects remain (uploads in progress are aborted with it)."""

    # Objects
    async def open_object(self, bucket: str, key: str, version_id: str | None) -> ObjectReader:
        """Raises as head_object."""

    async def head_object(self, bucket: str, key: str, version_id: str | None) -> ObjectInfo:
        """The version named, or the latest.

        Raises NoSuchKey (also where the latest is a delete marker: its error then carries the
        headers x-amz-delete-marker and x-amz-version-id), NoSuchVersion, or MethodNotAllowed with
        the same headers where the version named is a delete marker.
        """

    async def update_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        """Replace the attributes of a version in one step, leaving its time and ETag.

        `change` is pure and may raise to leave everything as it is. Raises as head_object.
        """

    async def stage(
        self,
        bucket: str,
        size_hint_bytes: int | None = None,
        destination: Destination | None = None,
    ) -> Staged:
        """A new place for bytes; NoSuchBucket early. The hint lets a driver preallocate.

        Where the bytes will go lets a driver pass them on while they come; nobody sees them before
        the commit all the same, which names the destination again.
        """

    async def commit_object(
        self,
        staged: Staged,
        bucket: str,
        key: str,
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        """Publish the staged bytes as the object. Consumes `staged`, also on failure.

        Conditions (If-Match, If-None-Match) are judged against the current object in the step
        that publishes: 412 PreconditionFailed, or 404 NoSuchKey for If-Match on a missing key; a
        key whose latest is a delete marker counts as missing. Where the bucket is versioned, the
        object becomes a new version; else, and while suspended, it replaces the null version.
        """

    async def delete_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions = NO_CONDITIONS,
        owner: str = "",
        permit: Permit = permit_all,
    ) -> Deletion:
        """Remove the version named; without one, hide the key by a marker, or remove it.

        Conditions are judged against the version named, or the latest, be it a marker. `permit` is
        asked about a version that would be removed. A missing key or version is no error
        (NoSuchBucket is), and with conditions no marker is made for it. `owner` becomes a marker's.
        """

    async def list_objects(self, query: ListQuery) -> ListPage:
        """Latest versions only, without delete markers; one index range is read per page."""

    async def list_versions(self, query: VersionQuery) -> VersionPage: ...

    # Multipart
    async def create_upload(
        self,
        bucket: str,
        key: str,
        attributes: ObjectAttributes,
        checksum_algorithm: Algorithm | None,
        checksum_type: ChecksumType | None,
        owner: str = "",
    ) -> UploadInfo: ...

    async def head_upload(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        """Raises NoSuchUpload, also where the id is another key's."""

    async def commit_part(
        self, staged: Staged, bucket: str, key: str, upload_id: str, number: int, draft: ObjectDraft
    ) -> PartInfo:
        """Replaces an earlier part of that number. Only while the upload is active."""

    async def list_parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        """(parts with number > after_number in order, whether more follow)."""

    async def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions = NO_CONDITIONS,
    ) -> ObjectInfo:
        """Publish the listed parts, in that order, as one object, in one step.

        `draft` describes the whole object; its attributes are the upload's. Each part must still
        be what the caller saw (number and etag), else InvalidPart. An identical repetition of a
        completed upload returns the same result; parts that were not listed are dropped.
        """

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        """The result of an upload that was completed already and is still known, or None."""

    async def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """Raises NoSuchUpload. Never harms a finished object."""

    async def list_uploads(
        self,
        bucket: str,
        prefix: str,
        delimiter: str,
        after_key: str,
        after_upload_id: str,
        limit: int,
    ) -> UploadPage:
        """Uploads after (after_key, after_upload_id); with an empty id, after all of that key."""
