"""Changing what is said of a stored version, in one step that leaves its bytes, time and ETag."""

from __future__ import annotations

from collections.abc import Callable

from gateway.s3.context import Context
from gateway.s3.documents import version_header
from gateway.s3.operations import (
    DeleteObjectTagging,
    PutObjectAcl,
    PutObjectLegalHold,
    PutObjectRetention,
    PutObjectTagging,
)
from gateway.s3.results import Reply
from gateway.storage.port import ObjectAttributes, ObjectInfo

ChangesObject = (
    DeleteObjectTagging | PutObjectAcl | PutObjectLegalHold | PutObjectRetention | PutObjectTagging
)


async def change_object(
    operation: ChangesObject,
    change: Callable[[ObjectInfo], ObjectAttributes],
    context: Context,
    status: int = 200,
) -> Reply:
    """Replace the attributes of the version that an operation names, and say which it was.

    Args:
        operation: its bucket, key and version count.
        change: pure; may raise to leave everything as it is.
        context: the request's.
        status: of the reply.

    Raises:
        ClientError: NoSuchBucket, NoSuchKey, NoSuchVersion, MethodNotAllowed (a delete marker).
    """
    info = await context.storage.update_object(
        operation.bucket, operation.key, operation.version_id, change
    )
    return Reply(status=status, headers=tuple(version_header(info)))
