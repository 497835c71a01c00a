"""Changes to multipart uploads: they begin, take parts, and end as an object or as nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.storage import lookup, rules
from gateway.storage.pieces import Pieces, Placed
from gateway.storage.port import ObjectDraft, ObjectInfo, PartInfo, UploadInfo
from gateway.storage.rows import encode_result, encode_upload, put_row
from gateway.storage.versions import Versions
from gateway.wire.conditional import Conditions

EXPIRE_PER_UPLOAD = 16
"""How many expired uploads each new one clears away, so that none pile up between restarts."""

# Conditions of statements; values are bound.
_THIS = "bucket = ? AND key = ? AND upload_id = ?"
_OLDEST = (
    "(bucket, key, upload_id) IN (SELECT bucket, key, upload_id FROM {0} "
    "WHERE initiated_ns < ? ORDER BY initiated_ns LIMIT ?)"
)


class Uploads:
    """The writer's view of uploads and of the completions it remembers.

    Args:
        clock: POSIX nanoseconds.
        expiry_ns: the age at which both end.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        pieces: Pieces,
        versions: Versions,
        clock: Callable[[], int],
        expiry_ns: int,
    ) -> None:
        self._db = connection
        self._pieces = pieces
        self._versions = versions
        self._clock = clock
        self._expiry_ns = expiry_ns

    def create(self, wanted: UploadInfo) -> UploadInfo:
        """As wanted, with a new id and the time of now. Raises NoSuchBucket."""
        lookup.versioning(self._db, wanted.bucket)
        self.expire(EXPIRE_PER_UPLOAD)
        now_ns = self._clock()
        info = replace(wanted, upload_id=rules.fresh_id(now_ns), initiated_ns=now_ns)
        put_row(self._db, "uploads", (info.bucket, *encode_upload(info)))
        return info

    def put_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        placed: Placed,
        draft: ObjectDraft,
    ) -> PartInfo:
        """Raises NoSuchBucket, NoSuchUpload: also where it ended while the bytes came in."""
        lookup.upload_info(self._db, bucket, key, upload_id)
        self._pieces.drop(upload_id, number)
        part = rules.published_part(number, draft, self._clock())
        self._pieces.insert(upload_id, placed, part)
        return part

    def complete(
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
        stored = {part.number: part for part in lookup.parts(self._db, upload_id)}
        parts = rules.choose_parts(listed, stored, draft.size_bytes)
        self._versions.judge(bucket, key, conditions)
        version_id = rules.version_id_for(lookup.versioning(self._db, bucket))
        info = rules.published(bucket, key, version_id, draft, self._clock(), parts)
        for number in stored.keys() - {part.number for part in parts}:
            self._pieces.drop(upload_id, number)
        this = (bucket, key.encode(), upload_id)
        self._db.execute(f"DELETE FROM uploads WHERE {_THIS}", this)  # noqa: S608 - see above
        self._versions.add(info, content=upload_id)
        put_row(self._db, "completions", (*this, upload.initiated_ns, encode_result(info)))
        return info

    def abort(self, bucket: str, key: str, upload_id: str) -> None:
        """Raises NoSuchBucket, NoSuchUpload: also where it is finished, so no object is harmed."""
        lookup.upload_info(self._db, bucket, key, upload_id)
        self._end(_THIS, (bucket, key.encode(), upload_id))

    def end_all(self, bucket: str) -> None:
        """Abort all uploads of a bucket that goes, and forget what was completed there."""
        self._end("bucket = ?", (bucket,))
        self._db.execute("DELETE FROM completions WHERE bucket = ?", (bucket,))

    def expire(self, limit: int) -> None:
        """End the oldest uploads and completions that are past their age, at most `limit` each."""
        values = (self._clock() - self._expiry_ns, limit)
        self._end(_OLDEST.format("uploads"), values)
        self._db.execute(
            f"DELETE FROM completions WHERE {_OLDEST.format('completions')}",  # noqa: S608 - see above
            values,
        )

    def _end(self, where: str, values: tuple[object, ...]) -> None:
        ended = self._db.execute(
            f"DELETE FROM uploads WHERE {where} RETURNING upload_id",  # noqa: S608 - see above
            values,
        ).fetchall()
        for (upload_id,) in ended:
            self._pieces.drop(upload_id)
