"""Buckets' documents: one way to get, put and delete each of them.

What they may say and what their absence means is in ``s3.bucket_settings``.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.config import KIB
from gateway.s3.body import Body
from gateway.s3.bucket_settings import SETTINGS
from gateway.s3.context import Context
from gateway.s3.documents import stored_document
from gateway.s3.operations import (
    DeleteBucketSubresource,
    GetBucketLocation,
    GetBucketSubresource,
    PutBucketSubresource,
)
from gateway.s3.results import Reply, XmlReply
from gateway.storage.port import BucketInfo, Storage
from gateway.wire.xml import document, malformed, parse_xml, render

MAX_DOCUMENT_BYTES = 64 * KIB  # S3's own for CORS, the longest that is kept
FIRST_REGION = "us-east-1"  # older than regions: S3 names it by an empty LocationConstraint


async def get_bucket_location(operation: GetBucketLocation, context: Context) -> XmlReply:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketLocation.html"""
    bucket = await context.storage.head_bucket(operation.bucket)
    root = document("LocationConstraint")
    if bucket.region != FIRST_REGION:
        root.text = bucket.region
    return XmlReply(root=root)


async def get_bucket_subresource(operation: GetBucketSubresource, context: Context) -> XmlReply:
    """The document that was stored, or what stands for none."""
    bucket = await context.storage.head_bucket(operation.bucket)
    stored = stored_document(bucket.settings.get(operation.name, ""))
    if stored is None:
        return XmlReply(root=SETTINGS[operation.name].answer_absent(bucket))
    return XmlReply(root=document(stored.tag, *stored))


async def put_bucket_subresource(
    operation: PutBucketSubresource, body: Body, context: Context
) -> Reply:
    """200 once the document is stored.

    Raises:
        ClientError: MalformedXML, MaxMessageLengthExceeded; what the document's rules refuse.
    """
    setting = SETTINGS[operation.name]
    limit_bytes = min(context.limits.max_xml_bytes, MAX_DOCUMENT_BYTES)
    root = parse_xml(await body.read(limit_bytes), limit_bytes)
    if root.tag != setting.root:
        raise malformed(f"The document must be a {setting.root}.")
    text = render(setting.read(root)).decode("utf-8")

    def change(bucket: BucketInfo) -> BucketInfo:
        return setting.admit(replace(bucket, settings={**bucket.settings, operation.name: text}))

    await context.storage.update_bucket(operation.bucket, change)
    return Reply()


async def delete_bucket_subresource(operation: DeleteBucketSubresource, context: Context) -> Reply:
    """204, also where there was none."""
    await remove_setting(context.storage, operation.bucket, operation.name)
    return Reply(status=204)


async def remove_setting(storage: Storage, bucket: str, name: str) -> None:
    """Forget a bucket's document; nothing happens where there is none."""

    def change(info: BucketInfo) -> BucketInfo:
        kept = {key: text for key, text in info.settings.items() if key != name}
        return replace(info, settings=kept)

    await storage.update_bucket(bucket, change)
