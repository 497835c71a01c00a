"""From an operation to the verb that performs it: the whole of S3 on one page."""

from __future__ import annotations

from gateway.errors import InternalError
from gateway.s3 import (
    acl,
    bucket_policy,
    buckets,
    complete_upload,
    copy_object,
    delete_objects,
    get_object,
    list_objects,
    list_uploads,
    list_versions,
    multipart,
    object_attributes,
    object_tagging,
    operations,
    put_object,
    retention,
    subresources,
    versioning,
)
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.operations import Operation
from gateway.s3.results import Reply


async def perform(operation: Operation, body: Body | None, context: Context) -> Reply:
    """Do what an authorised operation says.

    Args:
        operation: from `s3.route`.
        body: the request's bytes; None only for operations that take none.
        context: the request's surroundings.

    Raises:
        GatewayError: every outcome but success.
    """
    match operation:
        case operations.GetObject():
            return await get_object.get_object(operation, context)
        case operations.HeadObject():
            return await get_object.head_object(operation, context)
        case operations.PutObject():
            return await put_object.put_object(operation, _given(body), context)
        case operations.UploadPart():
            return await multipart.upload_part(operation, _given(body), context)
        case operations.DeleteObject():
            return await delete_objects.delete_object(operation, context)
        case operations.DeleteObjects():
            return await delete_objects.delete_objects(operation, _given(body), context)
        case operations.CopyObject():
            return await copy_object.copy_object(operation, context)
        case operations.ListObjects():
            return await list_objects.list_objects(operation, context)
        case operations.ListObjectsV2():
            return await list_objects.list_objects_v2(operation, context)
        case operations.ListObjectVersions():
            return await list_versions.list_object_versions(operation, context)
        case operations.GetObjectAttributes():
            return await object_attributes.get_object_attributes(operation, context)
        case _:
            return await _perform_rarer(operation, body, context)


async def _perform_rarer(operation: Operation, body: Body | None, context: Context) -> Reply:
    """Buckets, and the life of a multipart upload around its parts."""
    match operation:
        case operations.CreateMultipartUpload():
            return await multipart.create_upload(operation, context)
        case operations.UploadPartCopy():
            return await multipart.upload_part_copy(operation, context)
        case operations.CompleteMultipartUpload():
            return await complete_upload.complete_upload(operation, _given(body), context)
        case operations.AbortMultipartUpload():
            return await multipart.abort_upload(operation, context)
        case operations.ListParts():
            return await list_uploads.list_parts(operation, context)
        case operations.ListMultipartUploads():
            return await list_uploads.list_uploads(operation, context)
        case operations.ListBuckets():
            return await buckets.list_buckets(operation, context)
        case operations.CreateBucket():
            return await buckets.create_bucket(operation, _given(body), context)
        case operations.HeadBucket():
            return await buckets.head_bucket(operation, context)
        case operations.DeleteBucket():
            return await buckets.delete_bucket(operation, context)
        case operations.GetBucketVersioning():
            return await versioning.get_bucket_versioning(operation, context)
        case operations.PutBucketVersioning():
            return await versioning.put_bucket_versioning(operation, _given(body), context)
        case operations.GetBucketLocation():
            return await subresources.get_bucket_location(operation, context)
        case operations.GetBucketSubresource():
            return await subresources.get_bucket_subresource(operation, context)
        case operations.PutBucketSubresource():
            return await subresources.put_bucket_subresource(operation, _given(body), context)
        case operations.DeleteBucketSubresource():
            return await subresources.delete_bucket_subresource(operation, context)
        case _:
            return await _perform_access(operation, body, context)


async def _perform_access(operation: Operation, body: Body | None, context: Context) -> Reply:
    """Policies, access control lists, tags and locks."""
    match operation:
        case operations.GetBucketPolicy():
            return await bucket_policy.get_bucket_policy(operation, context)
        case operations.PutBucketPolicy():
            return await bucket_policy.put_bucket_policy(operation, _given(body), context)
        case operations.DeleteBucketPolicy():
            return await bucket_policy.delete_bucket_policy(operation, context)
        case operations.GetBucketPolicyStatus():
            return await bucket_policy.get_bucket_policy_status(operation, context)
        case operations.GetBucketAcl():
            return await acl.get_bucket_acl(operation, context)
        case operations.PutBucketAcl():
            return await acl.put_bucket_acl(operation, _given(body), context)
        case operations.GetObjectAcl():
            return await acl.get_object_acl(operation, context)
        case operations.PutObjectAcl():
            return await acl.put_object_acl(operation, _given(body), context)
        case operations.GetObjectTagging():
            return await object_tagging.get_object_tagging(operation, context)
        case operations.PutObjectTagging():
            return await object_tagging.put_object_tagging(operation, _given(body), context)
        case operations.DeleteObjectTagging():
            return await object_tagging.delete_object_tagging(operation, context)
        case operations.GetObjectRetention():
            return await retention.get_object_retention(operation, context)
        case operations.PutObjectRetention():
            return await retention.put_object_retention(operation, _given(body), context)
        case operations.GetObjectLegalHold():
            return await retention.get_object_legal_hold(operation, context)
        case operations.PutObjectLegalHold():
            return await retention.put_object_legal_hold(operation, _given(body), context)
        case _:
            raise InternalError(f"no verb performs {type(operation).__name__}")


def _given(body: Body | None) -> Body:
    if body is None:
        raise InternalError("a verb that takes a body was called without one")
    return body
