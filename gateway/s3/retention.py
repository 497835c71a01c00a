"""Retention and legal hold of object versions: get and put, and who may bypass a retention.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectRetention.html
"""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import ClientError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.object_changes import change_object
from gateway.s3.object_lock import (
    check_retention_change,
    legal_hold_document,
    need_object_lock,
    read_legal_hold,
    read_retention,
    removal_permit,
    retention_document,
)
from gateway.s3.operations import (
    BypassGovernanceRetention,
    DeleteObject,
    GetObjectLegalHold,
    GetObjectRetention,
    PutObjectLegalHold,
    PutObjectRetention,
)
from gateway.s3.results import Reply, XmlReply
from gateway.storage.port import ObjectAttributes, ObjectInfo, Permit
from gateway.wire.xml import parse_xml


async def get_object_retention(operation: GetObjectRetention, context: Context) -> XmlReply:
    """A version's retention. Raises InvalidRequest, NoSuchObjectLockConfiguration."""
    info = await _lockable(operation, context)
    if info.attributes.retention is None:
        raise ClientError(S3Code.NO_SUCH_OBJECT_LOCK_CONFIGURATION)
    return XmlReply(root=retention_document(info.attributes.retention))


async def get_object_legal_hold(operation: GetObjectLegalHold, context: Context) -> XmlReply:
    """A version's legal hold; OFF where none was ever set. Raises InvalidRequest."""
    info = await _lockable(operation, context)
    return XmlReply(root=legal_hold_document(info.attributes.legal_hold))


async def _lockable(
    operation: GetObjectRetention | GetObjectLegalHold, context: Context
) -> ObjectInfo:
    need_object_lock(await context.storage.head_bucket(operation.bucket))
    return await context.storage.head_object(operation.bucket, operation.key, operation.version_id)


async def put_object_retention(
    operation: PutObjectRetention, body: Body, context: Context
) -> Reply:
    """Replace a version's retention.

    Raises:
        ClientError: InvalidRequest, MalformedXML; as `s3.object_lock.check_retention_change`.
    """
    limit_bytes = context.limits.max_xml_bytes
    wanted = read_retention(parse_xml(await body.read(limit_bytes), limit_bytes))
    await context.authorise(replace(operation, attributes=ObjectAttributes(retention=wanted)))
    need_object_lock(await context.storage.head_bucket(operation.bucket))
    bypass = await _may_bypass(operation, context)

    def change(info: ObjectInfo) -> ObjectAttributes:
        current = info.attributes.retention
        check_retention_change(current, wanted, context.requester.now_ns, bypass=bypass)
        return replace(info.attributes, retention=wanted)

    return await change_object(operation, change, context)


async def put_object_legal_hold(
    operation: PutObjectLegalHold, body: Body, context: Context
) -> Reply:
    """Switch a version's legal hold. Raises InvalidRequest, MalformedXML."""
    limit_bytes = context.limits.max_xml_bytes
    hold = read_legal_hold(parse_xml(await body.read(limit_bytes), limit_bytes))
    await context.authorise(replace(operation, attributes=ObjectAttributes(legal_hold=hold)))
    need_object_lock(await context.storage.head_bucket(operation.bucket))

    def change(info: ObjectInfo) -> ObjectAttributes:
        return replace(info.attributes, legal_hold=hold)

    return await change_object(operation, change, context)


async def deletion_permit(operation: DeleteObject, context: Context) -> Permit:
    """What the storage is to ask before it removes the version that a delete names."""
    bypass = await _may_bypass(operation, context)
    return removal_permit(context.requester.now_ns, bypass=bypass)


async def _may_bypass(operation: DeleteObject | PutObjectRetention, context: Context) -> bool:
    """Whether a GOVERNANCE retention gives way: it was asked to, and policy lets this requester."""
    if not operation.bypass_governance:
        return False
    wanted = BypassGovernanceRetention(operation.bucket, operation.key, operation.version_id)
    try:
        await context.authorise(wanted)
    except ClientError as error:
        if error.code is not S3Code.ACCESS_DENIED:
            raise
        return False
    return True
