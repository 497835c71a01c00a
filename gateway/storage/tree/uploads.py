"""Multipart uploads of the tree: directories of parts. Everything here blocks.

An upload is a directory that is made whole in staging and renamed to its place; it ends by being
renamed back. Between, its lock keeps Complete, Abort and the parts that come in apart; the lock of
the key is taken within it, by Complete alone. Complete writes the sidecar, publishes the object,
then ends the upload: that both the upload and an object with its sidecar are there means that a
crash came between, and the end is made up for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from gateway.errors import BusyError, ClientError, InternalError, S3Code
from gateway.storage import rules
from gateway.storage.faults import on_disk
from gateway.storage.listing import Position, page
from gateway.storage.port import (
    NULL_VERSION,
    ListQuery,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    UploadInfo,
    UploadPage,
)
from gateway.storage.rows import decode_upload, encode_upload
from gateway.storage.staged import SealedFile
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import closing, names_in, read_small_file, remove_tree
from gateway.storage.tree.meta import UPLOADS
from gateway.storage.tree.parts import assemble, part_name, read_parts
from gateway.storage.tree.paths import find_path, require_path
from gateway.storage.tree.publish import Target, describe, place_file, stamp
from gateway.storage.tree.record import PART_XATTR, encode_part, write_xattr
from gateway.storage.tree.root import Root
from gateway.storage.tree.sidecars import read_sidecar, remove_sidecar
from gateway.wire.conditional import Conditions, check_write

EXPIRE_PER_UPLOAD = 16
"""How many expired uploads each new one clears away, so that none pile up between restarts."""

_ID = re.compile(r"[0-9a-f]{32}")
_DESCRIPTION = b"upload"
_NS_DIGITS = 16


@dataclass(frozen=True, slots=True)
class _Upload:
    """An upload in progress. `fd` is of its directory, open."""

    info: UploadInfo
    target: Target
    fd: int


class Uploads:
    """Begins, feeds, lists and ends them.

    Args:
        root: of the tree.
        clock: POSIX nanoseconds.
        expiry_ns: the age at which they end.
    """

    def __init__(self, root: Root, clock: Callable[[], int], expiry_ns: int) -> None:
        self._root = root
        self._clock = clock
        self._expiry_ns = expiry_ns

    def create(self, wanted: UploadInfo) -> UploadInfo:
        """As wanted, with a new id and the time of now. Raises NoSuchBucket, InvalidArgument."""
        now_ns = self._clock()
        info = replace(wanted, upload_id=rules.fresh_id(now_ns), initiated_ns=now_ns)
        name = info.upload_id.encode()
        with self._root.bucket(info.bucket) as bucket:
            if require_path(info.key, bucket.meta_name).directory:
                raise ClientError(S3Code.DIRECTORY_OBJECT_CONTAINS_DATA)
            self.expire(bucket, EXPIRE_PER_UPLOAD)
            staging = bucket.meta.staging
            with bucket.meta.made(UPLOADS, info.bucket.encode()) as uploads:
                with on_disk("making an upload in", bucket.meta.path):
                    os.mkdir(name, 0o700, dir_fd=staging.fd)
                    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=staging.fd)
                with closing(fd):
                    staging.write(fd, _DESCRIPTION, _encode(info))
                with on_disk("making an upload in", bucket.meta.path):
                    staging.move(info.upload_id, uploads, name)
                    staging.sync(uploads)
        return info

    def head(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        """Raises NoSuchBucket, NoSuchUpload."""
        with self._root.bucket(bucket) as home, _opened(home, key, upload_id) as upload:
            return upload.info

    def put_part(
        self,
        sealed: SealedFile,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        draft: ObjectDraft,
    ) -> PartInfo:
        """Consumes the staged file, also on failure. Raises NoSuchBucket, NoSuchUpload."""
        try:
            sealed.make_whole(draft)
            part = rules.published_part(number, draft, self._clock())
            with self._root.bucket(bucket) as home:
                staging, path = home.meta.staging, home.meta.path
                write_xattr(sealed.fileno(), PART_XATTR, encode_part(part), path)
                staging.publish(sealed.fileno(), sealed.name)
                with self._held(upload_id), _opened(home, key, upload_id) as upload:
                    with on_disk("naming a part in", path):
                        staging.move(sealed.name, upload.fd, part_name(number))
                    with on_disk("syncing the directory of a part in", path):
                        staging.sync(upload.fd)
            return part
        finally:
            sealed.abandon()

    def parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        """Raises NoSuchBucket, NoSuchUpload."""
        with self._root.bucket(bucket) as home, _opened(home, key, upload_id) as upload:
            parts = tuple(read_parts(upload.fd, home.meta.path, after_number, limit + 1))
        return parts[:limit], limit > 0 and len(parts) > limit

    def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        listed: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions,
    ) -> ObjectInfo:
        """Raises NoSuchBucket, NoSuchUpload, InvalidPart, InvalidPartOrder; as `place_file`."""
        with self._root.bucket(bucket) as home, self._held(upload_id):
            before = _settle(home, key, upload_id)
            if before is not None and rules.same_list(before, listed):
                return before
            with _opened(home, key, upload_id) as upload:
                stored = {part.number: part for part in read_parts(upload.fd, home.meta.path)}
                parts = rules.choose_parts(listed, stored, draft.size_bytes)
                info = rules.published(bucket, key, NULL_VERSION, draft, self._clock(), parts)
                info = _publish(upload, info, conditions)
            with suppress(InternalError):  # the object is there: made up for as after a crash
                _end(home, upload_id)
            return info

    def completed(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        """What Complete answered, while that is remembered."""
        try:
            with self._root.bucket(bucket) as home:
                return _result(home, key, upload_id)
        except ClientError:
            return None

    def abort(self, bucket: str, key: str, upload_id: str) -> None:
        """Raises NoSuchBucket, NoSuchUpload: also where it is finished, so no object is harmed."""
        with self._root.bucket(bucket) as home, self._held(upload_id):
            _settle(home, key, upload_id)
            with _opened(home, key, upload_id):
                remove_sidecar(home.meta, bucket, upload_id)  # of a Complete that failed
                _end(home, upload_id)

    def list(self, query: ListQuery, after_upload_id: str) -> UploadPage:
        """`query.after` is the key marker. Reads the description of every upload of the bucket.

        Raises NoSuchBucket.
        """
        with self._root.bucket(query.bucket) as home:
            known = sorted(_all(home), key=lambda info: (info.key.encode(), info.upload_id))

        def seek(start: Position) -> Iterator[tuple[Position, UploadInfo]]:
            for info in known:
                position = (info.key.encode(), info.upload_id)
                if position >= start:
                    yield position, info

        found = page(seek, query, after_upload_id or None)
        return UploadPage(
            uploads=tuple(found.rows),
            prefixes=tuple(found.prefixes),
            next_key=found.next_key,
            next_upload_id=found.next_id,
        )

    def eldest(self) -> str:
        """The least id of an upload that is not past its age."""
        return f"{max(0, self._clock() - self._expiry_ns):0{_NS_DIGITS}x}"

    def expire(self, bucket: Bucket, limit: int | None = None) -> None:
        """End the oldest uploads of a bucket that are past their age, at most `limit`.

        One that is in use stays. Raises InternalError.
        """
        eldest = self.eldest()
        for upload_id in sorted(_ids(bucket))[:limit]:
            if upload_id >= eldest:
                return
            with suppress(BusyError), self._held(upload_id, wait=False):
                _end(bucket, upload_id)

    def settle(self, bucket: Bucket) -> None:
        """Make up for every end that a crash cut short. Raises InternalError."""
        for info in _all(bucket):
            with suppress(BusyError), self._held(info.upload_id, wait=False):
                _settle(bucket, info.key, info.upload_id)

    @contextmanager
    def _held(self, upload_id: str, *, wait: bool = True) -> Iterator[None]:
        with self._root.locks.hold("upload", upload_id, wait=wait):
            yield


@contextmanager
def _opened(bucket: Bucket, key: str, upload_id: str) -> Iterator[_Upload]:
    """Raises NoSuchUpload, also where the id is another key's."""
    if not _ID.fullmatch(upload_id):
        raise rules.no_such_upload(upload_id)
    with bucket.meta.existing(UPLOADS, *_names(bucket, upload_id)) as fd:
        info = None if fd is None else _read(bucket, fd)
        if fd is None or info is None or info.key != key:
            raise rules.no_such_upload(upload_id)
        yield _Upload(info, Target(bucket, key, require_path(key, bucket.meta_name)), fd)


def _result(bucket: Bucket, key: str, upload_id: str) -> ObjectInfo | None:
    """What an upload became; None while it is in progress, or was aborted.

    Abort removes the sidecar first, Complete writes it first: without its directory, an upload
    that has one is completed.
    """
    if not _ID.fullmatch(upload_id):
        return None
    if _is_open(bucket, upload_id) and not _is_published(bucket, key, upload_id):
        return None
    info = read_sidecar(bucket.meta, bucket.name, upload_id)
    return info if info is not None and info.key == key else None


def _is_open(bucket: Bucket, upload_id: str) -> bool:
    with bucket.meta.existing(UPLOADS, *_names(bucket, upload_id)) as fd:
        return fd is not None


def _is_published(bucket: Bucket, key: str, upload_id: str) -> bool:
    """Whether the key's object is what the upload became."""
    where = find_path(key, bucket.meta_name)
    if where is None:
        return False
    with Target(bucket, key, where).looked() as found:
        return found is not None and found.sidecar == upload_id


def _settle(bucket: Bucket, key: str, upload_id: str) -> ObjectInfo | None:
    """As `_result`; an end that a crash cut short is made up for. The upload's lock is held."""
    result = _result(bucket, key, upload_id)
    if result is not None and _is_open(bucket, upload_id):
        _end(bucket, upload_id)
    return result


def _end(bucket: Bucket, upload_id: str) -> None:
    """Take an upload away in one step, then remove its parts. Raises InternalError."""
    staging = bucket.meta.staging
    with bucket.meta.existing(UPLOADS, bucket.name.encode()) as uploads:
        if uploads is None:
            return
        name = upload_id.encode()
        with on_disk("ending an upload in", bucket.meta.path):
            try:
                os.rename(name, name, src_dir_fd=uploads, dst_dir_fd=staging.fd)
            except FileNotFoundError:
                return
        with on_disk("syncing the directory of an upload in", bucket.meta.path):
            staging.sync(uploads)
        with suppress(OSError):  # the next start removes it
            remove_tree(staging.fd, name)


def _publish(upload: _Upload, info: ObjectInfo, conditions: Conditions) -> ObjectInfo:
    """Assemble the parts of `info` and publish them. Raises as `place_file`."""
    target, staging = upload.target, upload.target.bucket.meta.staging
    with target.looked() as current:  # before a long copy; what counts is the look that publishes
        check_write(conditions, current.info if current else None)
    fd, name = staging.create()
    try:
        with closing(fd):
            assemble(upload.fd, info.parts, fd, staging.path(name))
            info = replace(info, modified_ns=stamp(target, fd, info.modified_ns))
            describe(target, fd, info, upload.info.upload_id)
            staging.publish(fd, name)
        place_file(target, name, conditions)
    except BaseException:
        staging.remove((name,))
        raise
    return info


def _all(bucket: Bucket) -> Iterator[UploadInfo]:
    for upload_id in _ids(bucket):
        with bucket.meta.existing(UPLOADS, *_names(bucket, upload_id)) as fd:
            info = None if fd is None else _read(bucket, fd)
        if info is not None:
            yield info


def _ids(bucket: Bucket) -> list[str]:
    with bucket.meta.existing(UPLOADS, bucket.name.encode()) as uploads:
        if uploads is None:
            return []
        with on_disk("listing the uploads in", bucket.meta.path):
            return [os.fsdecode(name) for name in names_in(uploads)]


def _read(bucket: Bucket, fd: int) -> UploadInfo | None:
    """None where it ends at this moment. Raises InternalError."""
    data = read_small_file(fd, _DESCRIPTION, bucket.meta.path)
    if data is None:
        return None
    key, *columns = json.loads(data)
    return decode_upload(bucket.name, (key.encode(), *columns))


def _encode(info: UploadInfo) -> bytes:
    key, *columns = encode_upload(info)
    return json.dumps((key.decode(), *columns)).encode()


def _names(bucket: Bucket, upload_id: str) -> tuple[bytes, bytes]:
    return bucket.name.encode(), upload_id.encode()
