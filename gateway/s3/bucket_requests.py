"""Requests on a bucket's address: what their headers and parameters say, as operations."""

from __future__ import annotations

from gateway.s3 import headers
from gateway.s3.addressed import Addressed, method_not_allowed
from gateway.s3.bucket_settings import SETTINGS, Setting
from gateway.s3.operations import (
    CreateBucket,
    DeleteBucketPolicy,
    DeleteBucketSubresource,
    DeleteObjects,
    GetBucketAcl,
    GetBucketPolicy,
    GetBucketPolicyStatus,
    GetBucketSubresource,
    GetBucketVersioning,
    Operation,
    PutBucketAcl,
    PutBucketPolicy,
    PutBucketSubresource,
    PutBucketVersioning,
)
from gateway.wire.grants import parse_acl_headers


def create_bucket(request: Addressed) -> CreateBucket:
    """PUT of a bucket."""
    return CreateBucket(
        request.bucket,
        acl=parse_acl_headers(request.head),
        object_lock=headers.flag(request.head, "x-amz-bucket-object-lock-enabled"),
        ownership=headers.object_ownership(request.head),
    )


def delete_objects(request: Addressed) -> DeleteObjects:
    """POST ?delete."""
    return DeleteObjects(request.bucket, headers.bypass_governance(request.head))


def subresource(request: Addressed, name: str) -> Operation | None:
    """What a request on a sub-resource asks for, or None where this gateway has no such thing.

    Raises MethodNotAllowed for what it has, but S3 has no such request on.
    """
    bucket = request.bucket
    match request.head.method, name:
        case "GET", "acl":
            return GetBucketAcl(bucket)
        case "PUT", "acl":
            return PutBucketAcl(bucket, parse_acl_headers(request.head))
        case "GET", "policy":
            return GetBucketPolicy(bucket)
        case "PUT", "policy":
            return PutBucketPolicy(bucket)
        case "DELETE", "policy":
            return DeleteBucketPolicy(bucket)
        case "GET", "policyStatus":
            return GetBucketPolicyStatus(bucket)
        case "GET", "versioning":
            return GetBucketVersioning(bucket)
        case "PUT", "versioning":
            return PutBucketVersioning(bucket)
        case method, "acl" | "policy" | "policyStatus" | "versioning":
            raise method_not_allowed(method, "BUCKET")
        case _:
            setting = SETTINGS.get(name)
            return None if setting is None else _of_setting(request, name, setting)


def _of_setting(request: Addressed, name: str, setting: Setting) -> Operation:
    """The same for a row of SETTINGS. Raises MethodNotAllowed."""
    match request.head.method:
        case "GET":
            return GetBucketSubresource(request.bucket, name, setting.get)
        case "PUT":
            return PutBucketSubresource(request.bucket, name, setting.put)
        case "DELETE" if setting.delete:
            return DeleteBucketSubresource(request.bucket, name, setting.delete)
        case method:
            raise method_not_allowed(method, "BUCKET")
