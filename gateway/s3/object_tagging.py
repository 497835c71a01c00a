"""GetObjectTagging, PutObjectTagging, DeleteObjectTagging.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectTagging.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import version_header
from gateway.s3.object_changes import change_object
from gateway.s3.operations import DeleteObjectTagging, GetObjectTagging, PutObjectTagging
from gateway.s3.results import Reply, XmlReply
from gateway.s3.tagging import Tags, parse_tagging, tagging_document
from gateway.storage.port import ObjectAttributes, ObjectInfo


async def get_object_tagging(operation: GetObjectTagging, context: Context) -> XmlReply:
    """A version's tags; an empty set where it has none."""
    info = await context.storage.head_object(operation.bucket, operation.key, operation.version_id)
    return XmlReply(
        headers=tuple(version_header(info)), root=tagging_document(info.attributes.tags)
    )


async def put_object_tagging(operation: PutObjectTagging, body: Body, context: Context) -> Reply:
    """Replace a version's tags. Raises MalformedXML, InvalidTag."""
    limit_bytes = context.limits.max_xml_bytes
    tags = parse_tagging(await body.read(limit_bytes), limit_bytes)
    await context.authorise(replace(operation, attributes=ObjectAttributes(tags=tags)))
    return await change_object(operation, _with_tags(tags), context)


async def delete_object_tagging(operation: DeleteObjectTagging, context: Context) -> Reply:
    """204, also where there were none."""
    return await change_object(operation, _with_tags(()), context, status=204)


def _with_tags(tags: Tags) -> Callable[[ObjectInfo], ObjectAttributes]:
    return lambda info: replace(info.attributes, tags=tags)
