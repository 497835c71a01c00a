"""Changes to the catalog: what each S3 write means to the rows.

Every method runs inside a transaction that the writer opened; raising undoes what it did. Contents
that nothing refers to any more are noted in `dropped`; their files may go once that is durable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.storage import lookup, rules
from gateway.storage.port import (
    NULL_VERSION,
    BucketInfo,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    UploadInfo,
)
from gateway.storage.rows import encode_attributes, encode_checksums, encode_result
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import Conditions, check_write

EXPIRE_PER_UPLOAD = 16
"""How many expired uploads each new one clears away, so that none pile up between restarts."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A content, or some of its pieces, that no row refers to any more."""

    content: str
    files: tuple[str, ...]


class Catalog:
    """The writer's view of the catalog.

    Args:
        clock: POSIX nanoseconds.
        expiry_ns: the age at which uploads and remembered completions end.
    """

    def __init__(
        self, connection: sqlite3.Connection, clock: Callable[[], int], expiry_ns: int
    ) -> None:
        self._db = connection
        self._clock = clock
        self._expiry_ns = expiry_ns
        self.dropped: list[Dropped] = []

    def beat(self) -> None:
        """A real write, for the readiness check."""
        self._db.execute("REPLACE INTO heartbeat VALUES (1, ?)", (self._clock(),))

    # Buckets

    def create_bucket(self, bucket: str, region: str) -> BucketInfo:
        """Raises BucketAlreadyOwnedByYou."""
        info = BucketInfo(bucket, self._clock(), region)
        row = (info.name, info.created_ns, info.region)
        if not self._db.execute("INSERT OR IGNORE INTO buckets VALUES (?, ?, ?)", row).rowcount:
            raise rules.bucket_exists(bucket)
        return info

    def delete_bucket(self, bucket: str) -> None:
        """Raises NoSuchBucket, BucketNotEmpty. Its uploads are aborted."""
        lookup.bucket_info(self._db, bucket)
        lookup.require_empty(self._db, bucket)
        self._end_uploads("bucket = ?", (bucket,))
        self._db.execute("DELETE FROM completions WHERE bucket = ?", (bucket,))
        self._db.execute("DELETE FROM buckets WHERE name = ?", (bucket,))

    # Objects

    def put_object(
        self, bucket: str, key: str, file: str, draft: ObjectDraft, conditions: Conditions
    ) -> ObjectInfo:
        """Publish a data file as the object, if the conditions hold now.

        Raises NoSuchBucket, PreconditionFailed, NoSuchKey.
        """
        lookup.bucket_info(self._db, bucket)
        self._vacate(bucket, key, conditions)
        info = rules.published(bucket, key, draft, self._clock())
        self._insert_piece(file, file, rules.published_part(0, draft, info.modified_ns))
        self._insert_object(info, content=file)
        return info

    def delete_object(
        self, bucket: str, key: str, version_id: str | None, conditions: Conditions
    ) -> bool:
        """Whether there was one. Raises NoSuchBucket, PreconditionFailed, NoSuchKey."""
        lookup.bucket_info(self._db, bucket)
        return rules.is_current(version_id) and self._vacate(bucket, key, conditions)

    # Multipart

    def create_upload(
        self,
        bucket: str,
        key: str,
        attributes: ObjectAttributes,
        checksum_algorithm: Algorithm | None,
        checksum_type: ChecksumType | None,
    ) -> UploadInfo:
        """Raises NoSuchBucket."""
        lookup.bucket_info(self._db, bucket)
        self.expire_uploads(EXPIRE_PER_UPLOAD)
        now_ns = self._clock()
        upload_id = rules.fresh_id(now_ns)
        row = (
            bucket,
            key.encode(),
            upload_id,
            now_ns,
            encode_attributes(attributes),
            checksum_algorithm.name if checksum_algorithm else None,
            checksum_type.name if checksum_type else None,
        )
        self._db.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return lookup.upload_info(self._db, bucket, key, upload_id)

    def put_part(
        self, bucket: str, key: str, upload_id: str, number: int, file: str, draft: ObjectDraft
    ) -> PartInfo:
        """Raises NoSuchBucket, NoSuchUpload: also where it ended while the bytes came in."""
        lookup.upload_info(self._db, bucket, key, upload_id)
        self._drop_pieces(upload_id, "number = ?", (number,))
        part = rules.published_part(number, draft, self._clock())
        self._insert_piece(upload_id, file, part)
        return part

    def complete_upload(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        listed: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions,
    ) -> ObjectInfo:
        """Make the upload's content the object's; drop the parts that are not listed.

        Raises NoSuchBucket, NoSuchUpload, InvalidPart, InvalidPartOrder, PreconditionFailed.
        """
        before = lookup.completion(self._db, bucket, key, upload_id)
        if before is not None and rules.same_list(before, listed):
            return before
        upload = lookup.upload_info(self._db, bucket, key, upload_id)
        pieces = lookup.content_pieces(self._db, upload_id)
        stored = {piece.part.number: piece.part for piece in pieces}
        parts = rules.choose_parts(listed, stored, draft.size_bytes)
        self._vacate(bucket, key, conditions)
        info = rules.published(bucket, key, draft, self._clock(), parts)
        for number in stored.keys() - {part.number for part in parts}:
            self._drop_pieces(upload_id, "number = ?", (number,))
        self._db.execute(
            "DELETE FROM uploads WHERE bucket = ? AND key = ? AND upload_id = ?",
            (bucket, key.encode(), upload_id),
        )
        self._insert_object(info, content=upload_id)
        self._db.execute(
            "INSERT INTO completions VALUES (?, ?, ?, ?, ?)",
            (bucket, key.encode(), upload_id, upload.initiated_ns, encode_result(info)),
        )
        return info

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """Raises NoSuchBucket, NoSuchUpload: also where it is finished, so no object is harmed."""
        lookup.upload_info(self._db, bucket, key, upload_id)
        self._end_uploads(
            "bucket = ? AND key = ? AND upload_id = ?", (bucket, key.encode(), upload_id)
        )

    def expire_uploads(self, limit: int) -> None:
        """End the oldest uploads and completions that are past their age, at most `limit` each."""
        horizon_ns = self._clock() - self._expiry_ns
        oldest = "(bucket, key, upload_id) IN (SELECT bucket, key, upload_id FROM {0} "
        oldest += "WHERE initiated_ns < ? ORDER BY initiated_ns LIMIT ?)"
        self._end_uploads(oldest.format("uploads"), (horizon_ns, limit))
        self._db.execute(
            f"DELETE FROM completions WHERE {oldest.format('completions')}",  # noqa: S608 - as below
            (horizon_ns, limit),
        )

    # Rows. A `where` is text of this file, never a client's; values are bound.

    def _vacate(self, bucket: str, key: str, conditions: Conditions) -> bool:
        """Judge the conditions and take the current object away; whether there was one."""
        place = (bucket, key.encode(), NULL_VERSION)
        row = self._db.execute(
            "SELECT etag, content FROM objects WHERE bucket = ? AND key = ? AND version_id = ?",
            place,
        ).fetchone()
        etag, content = row or (None, None)
        check_write(conditions, etag)
        if content is None:
            return False
        self._db.execute(
            "DELETE FROM objects WHERE bucket = ? AND key = ? AND version_id = ?", place
        )
        self._drop_pieces(content)
        return True

    def _insert_object(self, info: ObjectInfo, content: str) -> None:
        row = (
            info.bucket,
            info.key.encode(),
            info.version_id,
            content,
            info.size_bytes,
            info.etag,
            info.modified_ns,
            encode_attributes(info.attributes),
            encode_checksums(info.checksums),
            info.checksum_type.name,
        )
        self._db.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _insert_piece(self, content: str, file: str, part: PartInfo) -> None:
        row = (
            content,
            part.number,
            file,
            part.size_bytes,
            part.etag,
            part.modified_ns,
            encode_checksums(part.checksums),
        )
        self._db.execute("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _end_uploads(self, where: str, values: tuple[object, ...]) -> None:
        ended = self._db.execute(
            f"DELETE FROM uploads WHERE {where} RETURNING upload_id",  # noqa: S608 - see above
            values,
        ).fetchall()
        for (upload_id,) in ended:
            self._drop_pieces(upload_id)

    def _drop_pieces(
        self, content: str, where: str = "true", values: tuple[object, ...] = ()
    ) -> None:
        files = self._db.execute(
            f"DELETE FROM pieces WHERE content = ? AND {where} RETURNING file",  # noqa: S608 - see above
            (content, *values),
        ).fetchall()
        if files:
            self.dropped.append(Dropped(content, tuple(file for (file,) in files)))
