"""Changes to the catalog: what each S3 write means to the rows.

Every method, also of `uploads`, runs inside a transaction that the writer opened; raising undoes
what it did. Contents that nothing refers to any more are noted in `dropped`; their files may go
once that is durable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace

from gateway.storage import lookup, rules
from gateway.storage.pieces import Dropped, Pieces, Placed
from gateway.storage.port import (
    BucketInfo,
    Deletion,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    Permit,
    Versioning,
)
from gateway.storage.rows import encode_bucket, put_row
from gateway.storage.uploads import Uploads
from gateway.storage.versions import Versions
from gateway.wire.conditional import NO_CONDITIONS, Conditions, check_delete


class Catalog:
    """The writer's view of the catalog; multipart uploads are in `uploads`.

    Args:
        clock: POSIX nanoseconds.
        expiry_ns: the age at which uploads and remembered completions end.
    """

    def __init__(
        self, connection: sqlite3.Connection, clock: Callable[[], int], expiry_ns: int
    ) -> None:
        self._db = connection
        self._clock = clock
        self._pieces = Pieces(connection)
        self._versions = Versions(connection, self._pieces)
        self.uploads = Uploads(connection, self._pieces, self._versions, clock, expiry_ns)

    @property
    def dropped(self) -> list[Dropped]:
        """What the changes since it was last cleared let go of."""
        return self._pieces.dropped

    def beat(self) -> None:
        """A real write, for the readiness check."""
        self._db.execute("REPLACE INTO heartbeat VALUES (1, ?)", (self._clock(),))

    # Buckets

    def create_bucket(self, wanted: BucketInfo) -> BucketInfo:
        """Raises BucketAlreadyOwnedByYou, BucketAlreadyExists."""
        info = replace(wanted, created_ns=self._clock())
        if not put_row(self._db, "buckets", encode_bucket(info), how="INSERT OR IGNORE"):
            there = lookup.bucket_info(self._db, wanted.name)
            raise rules.bucket_exists(there, wanted.owner)
        return info

    def update_bucket(self, bucket: str, change: Callable[[BucketInfo], BucketInfo]) -> BucketInfo:
        """Raises NoSuchBucket, and what `change` raises."""
        before = lookup.bucket_info(self._db, bucket)
        after = rules.reconfigured(before, change(before))
        put_row(self._db, "buckets", encode_bucket(after), how="REPLACE")
        return after

    def delete_bucket(self, bucket: str) -> None:
        """Raises NoSuchBucket, BucketNotEmpty. Its uploads are aborted."""
        lookup.bucket_info(self._db, bucket)
        lookup.require_empty(self._db, bucket)
        self.uploads.end_all(bucket)
        self._db.execute("DELETE FROM buckets WHERE name = ?", (bucket,))

    # Objects

    def put_object(
        self, bucket: str, key: str, placed: Placed, draft: ObjectDraft, conditions: Conditions
    ) -> ObjectInfo:
        """Publish bytes that are in their place as the object, if the conditions hold now.

        Raises NoSuchBucket, PreconditionFailed, NoSuchKey.
        """
        version_id = rules.version_id_for(lookup.versioning(self._db, bucket))
        self._versions.judge(bucket, key, conditions)
        info = rules.published(bucket, key, version_id, draft, self._clock())
        part = rules.published_part(0, draft, info.modified_ns)
        self._pieces.insert(placed.name, placed, part)
        self._versions.add(info, content=placed.name)
        return info

    def update_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        """Raises as `lookup.readable`, and what `change` raises."""
        found = lookup.locate(self._db, bucket, key, version_id).version
        attributes = change(found.info)
        self._versions.change(found, attributes)
        return replace(found.info, attributes=attributes)

    def delete_object(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions,
        owner: str,
        permit: Permit,
    ) -> Deletion:
        """Remove the version named, or what the key alone names, or hide that by a marker.

        Raises NoSuchBucket, PreconditionFailed, NoSuchKey, and what `permit` raises.
        """
        state = lookup.versioning(self._db, bucket)
        if version_id is None:
            target = lookup.latest(self._db, bucket, key)
        else:
            target = lookup.version(self._db, bucket, key, version_id)
        check_delete(conditions, target.info if target else None)
        hides = version_id is None and state is not Versioning.OFF
        if hides and (target is not None or conditions == NO_CONDITIONS):
            existed = target is not None and not target.info.delete_marker
            marker_id = self._hide(bucket, key, state, owner, permit)
            return Deletion(existed, marker_id, delete_marker=True)
        if target is None:
            return Deletion(existed=False)
        permit(target.info)
        self._versions.remove(target)
        named = None if state is Versioning.OFF else target.info.version_id
        return Deletion(True, named, target.info.delete_marker)

    def _hide(self, bucket: str, key: str, state: Versioning, owner: str, permit: Permit) -> str:
        """Put a delete marker before a key's versions; its id. A null one replaces its like."""
        marker_id = rules.version_id_for(state)
        replaced = lookup.version(self._db, bucket, key, marker_id)
        if replaced is not None:
            permit(replaced.info)
        marker = rules.delete_marker(bucket, key, marker_id, owner, self._clock())
        self._versions.add(marker, content=None)
        return marker_id
