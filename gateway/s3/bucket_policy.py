"""Bucket policies: put, get, delete, and whether a bucket is public.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketPolicy.html
"""

from __future__ import annotations

from dataclasses import replace

from gateway.auth.policy import malformed, parse_policy
from gateway.errors import ClientError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import truth
from gateway.s3.operations import (
    DeleteBucketPolicy,
    GetBucketPolicy,
    GetBucketPolicyStatus,
    PutBucketPolicy,
)
from gateway.s3.public_access import public_access
from gateway.s3.results import JsonReply, Reply, XmlReply
from gateway.s3.subresources import remove_setting
from gateway.storage.port import BucketInfo
from gateway.wire.grants import is_public
from gateway.wire.xml import document

SETTING = "policy"


async def get_bucket_policy(operation: GetBucketPolicy, context: Context) -> JsonReply:
    """The policy, byte for byte as it was put. Raises NoSuchBucketPolicy."""
    bucket = await context.storage.head_bucket(operation.bucket)
    text = bucket.settings.get(SETTING)
    if text is None:
        raise ClientError(S3Code.NO_SUCH_BUCKET_POLICY, details={"BucketName": bucket.name})
    return JsonReply(text=text)


async def put_bucket_policy(operation: PutBucketPolicy, body: Body, context: Context) -> Reply:
    """204 once the policy counts.

    Raises:
        ClientError: MalformedPolicy; AccessDenied for a public one that is blocked.
    """
    data = await body.read(context.limits.max_xml_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed("Policies must be UTF-8.") from error
    policy = parse_policy(text, operation.bucket)

    def change(bucket: BucketInfo) -> BucketInfo:
        if policy.public and public_access(bucket).block_policy:
            raise ClientError(
                S3Code.ACCESS_DENIED,
                "Public policies are blocked by the bucket's BlockPublicPolicy setting.",
            )
        return replace(bucket, settings={**bucket.settings, SETTING: text})

    await context.storage.update_bucket(operation.bucket, change)
    return Reply(status=204)


async def delete_bucket_policy(operation: DeleteBucketPolicy, context: Context) -> Reply:
    """204, also where there was none."""
    await remove_setting(context.storage, operation.bucket, SETTING)
    return Reply(status=204)


async def get_bucket_policy_status(operation: GetBucketPolicyStatus, context: Context) -> XmlReply:
    """Whether policy or ACL let the public in; false where the bucket has no policy."""
    bucket = await context.storage.head_bucket(operation.bucket)
    text = bucket.settings.get(SETTING)
    public = is_public(bucket.grants) or (
        text is not None and parse_policy(text, bucket.name).public
    )
    return XmlReply(root=document("PolicyStatus", truth("IsPublic", public)))
