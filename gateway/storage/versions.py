"""Changes to the versions of one key: what becomes visible, what goes behind, what goes for good.

Of the two tables (tables.py) `objects` has a key's latest version, unless that is a delete marker.
Each method leaves it so.
"""

from __future__ import annotations

import sqlite3

from gateway.storage import lookup, rules
from gateway.storage.pieces import Pieces
from gateway.storage.port import NULL_VERSION, ObjectAttributes, ObjectInfo
from gateway.storage.rows import Version, encode_attributes, encode_version, put_row
from gateway.wire.conditional import NO_CONDITIONS, Conditions, check_write

_TABLES = ("objects", "history")
_PLACE = "bucket = ? AND key = ? AND rank = ?"


class Versions:
    """The writer's view of objects; the pieces of what goes are dropped with it."""

    def __init__(self, connection: sqlite3.Connection, pieces: Pieces) -> None:
        self._db = connection
        self._pieces = pieces

    def judge(self, bucket: str, key: str, conditions: Conditions) -> None:
        """Hold a write's conditions against what is visible. Raises as `check_write`."""
        if conditions != NO_CONDITIONS:
            visible = lookup.visible(self._db, bucket, key)
            check_write(conditions, visible.info if visible else None)

    def add(self, info: ObjectInfo, content: str | None) -> None:
        """Make a version, or with None for its content a delete marker, the key's latest.

        What was visible goes behind it. A version that already has its id is removed.
        """
        bucket, key = info.bucket, info.key
        if info.version_id == NULL_VERSION:
            before = lookup.version(self._db, bucket, key, NULL_VERSION)
            if before is not None:
                self._delete(before)
        visible = lookup.visible(self._db, bucket, key)
        if visible is not None:
            self._move(visible, "objects", "history")
        newest = lookup.newest_hidden(self._db, bucket, key)
        rank = rules.rank_before(newest.rank if newest else None)
        row = (bucket, *encode_version(Version(info, rank, content)))
        put_row(self._db, "history" if content is None else "objects", row)

    def remove(self, version: Version) -> None:
        """Take a version away for good; where it was the latest, the next one comes forward."""
        self._delete(version)
        bucket, key = version.info.bucket, version.info.key
        if lookup.visible(self._db, bucket, key) is None:
            newest = lookup.newest_hidden(self._db, bucket, key)
            if newest is not None and newest.content is not None:
                self._move(newest, "history", "objects")

    def change(self, version: Version, attributes: ObjectAttributes) -> None:
        """Replace its attributes."""
        text = encode_attributes(attributes)
        for table in _TABLES:
            self._db.execute(
                f"UPDATE {table} SET attributes = ? WHERE {_PLACE}",  # noqa: S608 - a table's name
                (text, *_place(version)),
            )

    def _delete(self, version: Version) -> None:
        for table in _TABLES:
            self._db.execute(f"DELETE FROM {table} WHERE {_PLACE}", _place(version))  # noqa: S608 - as above
        if version.content is not None:
            self._pieces.drop(version.content)

    def _move(self, version: Version, source: str, target: str) -> None:
        place = _place(version)
        self._db.execute(f"INSERT INTO {target} SELECT * FROM {source} WHERE {_PLACE}", place)  # noqa: S608 - as above
        self._db.execute(f"DELETE FROM {source} WHERE {_PLACE}", place)  # noqa: S608 - as above


def _place(version: Version) -> tuple[str, bytes, str]:
    """Where its row is, in whichever table: ranks of a key are unique over both."""
    return version.info.bucket, version.info.key.encode(), version.rank
