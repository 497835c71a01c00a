"""PutObject: stage, pour, commit. The same three steps for HTTP, RDMA and copies.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html
"""

from __future__ import annotations

from gateway.s3.authorship import author
from gateway.s3.body import Body, refuse_longer
from gateway.s3.context import Context
from gateway.s3.documents import checksum_headers, quoted, version_header
from gateway.s3.operations import PutObject
from gateway.s3.results import Reply
from gateway.s3.staging import staged_bytes
from gateway.storage.port import Destination, ObjectDraft, ObjectInfo
from gateway.telemetry import trail
from gateway.wire.checksums import Algorithm


async def put_object(operation: PutObject, body: Body, context: Context) -> Reply:
    """200 once the object is durable; its ETag and the checksum that was verified or computed."""
    info = await store_object(operation, body, context)
    return Reply(headers=written_headers(info))


async def store_object(
    operation: PutObject,
    body: Body,
    context: Context,
    also: frozenset[Algorithm] = frozenset(),
) -> ObjectInfo:
    """Make the body the object, in one step, after it was verified whole.

    Args:
        operation: where to, with which attributes and write conditions.
        body: poured once.
        context: the request's.
        also: checksums to compute and keep, besides those the client declared.
    """
    refuse_longer(body.length_bytes, context.limits.max_object_bytes)
    bucket, storage = operation.bucket, context.storage
    authored = await author(bucket, operation.attributes, operation.acl, context)
    destination = Destination(
        operation.key, authored.attributes, authored.owner, operation.conditions
    )
    async with staged_bytes(storage, bucket, body.length_bytes, destination) as staged:
        poured = await body.pour(staged, also)
        trail().object_bytes = poured.size_bytes
        draft = ObjectDraft(
            size_bytes=poured.size_bytes,
            etag=poured.md5.hex(),
            attributes=authored.attributes,
            checksums=poured.checksums,
            owner=authored.owner,
        )
        return await storage.commit_object(
            staged, bucket, operation.key, draft, operation.conditions
        )


def written_headers(info: ObjectInfo) -> tuple[tuple[str, str], ...]:
    """What the reply to a write says of the object."""
    return (
        ("etag", quoted(info.etag)),
        *checksum_headers(info.checksums, info.checksum_type),
        *version_header(info),
    )
