"""Buckets: create, head, list, delete.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
"""

from __future__ import annotations

from dataclasses import replace

from gateway.auth.principal import OWNER_ID
from gateway.errors import ClientError, S3Code
from gateway.s3 import ownership
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import continuation_token, iso_time, leaf, owned_by, resume_after
from gateway.s3.grants import admitted, header_grants
from gateway.s3.operations import CreateBucket, DeleteBucket, HeadBucket, ListBuckets
from gateway.s3.ownership import ownership_controls
from gateway.s3.results import Reply, XmlReply
from gateway.s3.subresources import FIRST_REGION
from gateway.s3.tagging import MAX_BUCKET_TAGS, read_tag_set, tagging_document
from gateway.storage.port import BucketInfo, Versioning
from gateway.wire.grants import effective_grants
from gateway.wire.xml import Children, document, element, malformed, parse_xml, render


async def create_bucket(operation: CreateBucket, body: Body, context: Context) -> Reply:
    """Make a bucket that belongs to who asks for it.

    Raises:
        ClientError: InvalidLocationConstraint for any region but the gateway's own; MalformedXML,
            InvalidTag; AccessControlListNotSupported, an unknown grantee; BucketAlreadyExists;
            BucketAlreadyOwnedByYou, but not in S3's first region.
    """
    limit_bytes = context.limits.max_xml_bytes
    region, settings = _configuration(await body.read(limit_bytes), limit_bytes)
    if region not in ("", context.region):
        raise ClientError(
            S3Code.INVALID_LOCATION_CONSTRAINT,
            f"This gateway's region is {context.region}.",
            details={"LocationConstraint": region},
        )
    if operation.ownership is not None:
        controls = render(ownership_controls(operation.ownership))
        settings[ownership.SETTING] = controls.decode("utf-8")
    owner = context.principal.user_id
    wanted = BucketInfo(
        operation.bucket,
        created_ns=0,
        region=context.region,
        owner="" if owner == OWNER_ID else owner,  # as in the records of older gateways
        versioning=Versioning.ENABLED if operation.object_lock else Versioning.OFF,
        object_lock=operation.object_lock,
        settings=settings,
    )
    grants = header_grants(operation.acl, owner, owner, context.accounts)
    await _create(replace(wanted, grants=admitted(wanted, grants, owner)), context)
    return Reply(headers=(("location", f"/{operation.bucket}"),))


async def _create(wanted: BucketInfo, context: Context) -> None:
    """Make a bucket. In S3's first region, making one's own again changes nothing.

    S3 would reset its ACL; who may read a bucket is not to change behind its owner's back, so
    another ACL is refused, as Ceph RGW does.
    """
    try:
        await context.storage.create_bucket(wanted)
    except ClientError as error:
        ours = error.code is S3Code.BUCKET_ALREADY_OWNED_BY_YOU
        if not ours or context.region != FIRST_REGION:
            raise
        owner = wanted.owner or OWNER_ID
        there = await context.storage.head_bucket(wanted.name)
        if effective_grants(there.grants, owner) != effective_grants(wanted.grants, owner):
            raise ClientError(
                S3Code.BUCKET_ALREADY_EXISTS, "Your bucket exists, with another ACL."
            ) from error


def _configuration(data: bytes, limit_bytes: int) -> tuple[str, dict[str, str]]:
    """A CreateBucketConfiguration: the region wanted, or "", and documents to store at once."""
    if not data:
        return "", {}
    root = parse_xml(data, limit_bytes)
    if root.tag != "CreateBucketConfiguration":
        raise malformed("The document must be a CreateBucketConfiguration.")
    given = Children(root, once=("LocationConstraint", "Tags"))
    tags = given.one("Tags")
    settings = {}
    if tags is not None:
        tagging = tagging_document(read_tag_set(tags, MAX_BUCKET_TAGS))
        settings["tagging"] = render(tagging).decode("utf-8")
    return given.text("LocationConstraint") or "", settings


async def head_bucket(operation: HeadBucket, context: Context) -> Reply:
    """Whether it is there, and in which region."""
    bucket = await context.storage.head_bucket(operation.bucket)
    return Reply(headers=(("x-amz-bucket-region", bucket.region),))


async def delete_bucket(operation: DeleteBucket, context: Context) -> Reply:
    """204; BucketNotEmpty while objects remain."""
    await context.storage.delete_bucket(operation.bucket)
    return Reply(status=204)


async def list_buckets(operation: ListBuckets, context: Context) -> XmlReply:
    """The requester's own buckets by name, a page of `max_buckets` at a time."""
    after = resume_after(operation.continuation_token)
    owner = context.principal.user_id
    found = [
        bucket
        for bucket in await context.storage.list_buckets()
        if bucket.name.startswith(operation.prefix)
        and bucket.name > after
        and (bucket.owner or OWNER_ID) == owner
    ]
    page = found[: operation.max_buckets]
    root = document(
        "ListAllMyBucketsResult",
        owned_by(owner, context.accounts),
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
