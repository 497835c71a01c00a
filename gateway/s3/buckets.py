"""Buckets: create, head, list, delete.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
"""

from __future__ import annotations

from gateway.errors import ClientError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import continuation_token, iso_time, leaf, owner, resume_after
from gateway.s3.operations import CreateBucket, DeleteBucket, HeadBucket, ListBuckets
from gateway.s3.results import Reply, XmlReply
from gateway.wire.xml import document, element, parse_xml


async def create_bucket(operation: CreateBucket, body: Body, context: Context) -> Reply:
    """The body may say where: nowhere else than in this gateway's region."""
    wanted = _location_constraint(await body.read(context.limits.max_xml_bytes), context)
    if wanted not in ("", context.region):
        raise ClientError(
            S3Code.INVALID_LOCATION_CONSTRAINT,
            f"This gateway's region is {context.region}.",
            details={"LocationConstraint": wanted},
        )
    await context.storage.create_bucket(operation.bucket, context.region)
    return Reply(headers=(("location", f"/{operation.bucket}"),))


def _location_constraint(data: bytes, context: Context) -> str:
    if not data:
        return ""
    root = parse_xml(data, context.limits.max_xml_bytes)
    if root.tag != "CreateBucketConfiguration":
        raise ClientError(S3Code.MALFORMED_XML)
    return (root.findtext("LocationConstraint") or "").strip()


async def head_bucket(operation: HeadBucket, context: Context) -> Reply:
    """Whether it is there, and in which region."""
    bucket = await context.storage.head_bucket(operation.bucket)
    return Reply(headers=(("x-amz-bucket-region", bucket.region),))


async def delete_bucket(operation: DeleteBucket, context: Context) -> Reply:
    """204; BucketNotEmpty while objects remain."""
    await context.storage.delete_bucket(operation.bucket)
    return Reply(status=204)


async def list_buckets(operation: ListBuckets, context: Context) -> XmlReply:
    """All buckets by name, a page of `max_buckets` at a time."""
    after = resume_after(operation.continuation_token)
    found = [
        bucket
        for bucket in await context.storage.list_buckets()
        if bucket.name.startswith(operation.prefix) and bucket.name > after
    ]
    page = found[: operation.max_buckets]
    root = document(
        "ListAllMyBucketsResult",
        owner(),
        element(
            "Buckets",
            *(
                element(
                    "Bucket",
                    leaf("Name", bucket.name),
                    leaf("CreationDate", iso_time(bucket.created_ns)),
                    leaf("BucketRegion", bucket.region),
                )
                for bucket in page
            ),
        ),
    )
    if operation.prefix:
        root.append(leaf("Prefix", operation.prefix))
    if len(page) < len(found):
        root.append(leaf("ContinuationToken", continuation_token(page[-1].name)))
    return XmlReply(root=root)
