"""GetBucketAcl, PutBucketAcl, GetObjectAcl, PutObjectAcl.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectAcl.html
"""

from __future__ import annotations

from dataclasses import replace

from gateway.auth.principal import OWNER_ID
from gateway.errors import ClientError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import version_header
from gateway.s3.grants import acl_document, admitted, header_grants, parse_acl
from gateway.s3.object_changes import change_object
from gateway.s3.operations import GetBucketAcl, GetObjectAcl, PutBucketAcl, PutObjectAcl
from gateway.s3.results import Reply, XmlReply
from gateway.storage.port import BucketInfo, ObjectAttributes, ObjectInfo
from gateway.wire.grants import AclHeaders, Grants, effective_grants


async def get_bucket_acl(operation: GetBucketAcl, context: Context) -> XmlReply:
    """The bucket's list."""
    bucket = await context.storage.head_bucket(operation.bucket)
    return _shown(bucket.owner, bucket.grants, context)


async def get_object_acl(operation: GetObjectAcl, context: Context) -> XmlReply:
    """A version's list."""
    info = await context.storage.head_object(operation.bucket, operation.key, operation.version_id)
    shown = _shown(info.owner, info.attributes.grants, context)
    return replace(shown, headers=tuple(version_header(info)))


def _shown(owner: str, stored: Grants, context: Context) -> XmlReply:
    owner_id = owner or OWNER_ID
    grants = effective_grants(stored, owner_id)
    return XmlReply(root=acl_document(owner_id, grants, context.accounts))


async def put_bucket_acl(operation: PutBucketAcl, body: Body, context: Context) -> Reply:
    """Replace the bucket's list.

    Raises:
        ClientError: as `s3.grants.parse_acl` and `s3.grants.admitted`.
    """
    data = await _document(operation.acl, body, context)

    def change(bucket: BucketInfo) -> BucketInfo:
        owner = bucket.owner or OWNER_ID
        grants = _wanted(operation.acl, data, owner, owner, context)
        return replace(bucket, grants=admitted(bucket, grants, owner))

    await context.storage.update_bucket(operation.bucket, change)
    return Reply()


async def put_object_acl(operation: PutObjectAcl, body: Body, context: Context) -> Reply:
    """Replace a version's list. Raises as `put_bucket_acl`."""
    data = await _document(operation.acl, body, context)
    bucket = await context.storage.head_bucket(operation.bucket)

    def change(info: ObjectInfo) -> ObjectAttributes:
        owner = info.owner or OWNER_ID
        grants = _wanted(operation.acl, data, owner, bucket.owner or OWNER_ID, context)
        return replace(info.attributes, grants=admitted(bucket, grants, owner))

    return await change_object(operation, change, context)


async def _document(headers: AclHeaders, body: Body, context: Context) -> bytes:
    """The body, which there is exactly where the headers say nothing."""
    data = await body.read(context.limits.max_xml_bytes)
    if data and headers.given:
        raise ClientError(S3Code.UNEXPECTED_CONTENT)
    if not data and not headers.given:
        raise ClientError(
            S3Code.MISSING_SECURITY_HEADER,
            details={"MissingHeaderName": "x-amz-acl"},
        )
    return data


def _wanted(
    headers: AclHeaders, data: bytes, owner: str, bucket_owner: str, context: Context
) -> Grants:
    if headers.given:
        return header_grants(headers, owner, bucket_owner, context.accounts)
    return parse_acl(data, context.limits.max_xml_bytes, owner, context.accounts)
