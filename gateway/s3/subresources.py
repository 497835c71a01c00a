"""Sub-resources of buckets and objects that can be read but not set: honest defaults.

A feature that is not there answers as S3 does for a bucket that does not use it: an empty
document, or the 404 with exactly the code that clients look for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, S3Code
from gateway.s3.context import Context
from gateway.s3.documents import leaf, owner
from gateway.s3.operations import GetBucketLocation, GetBucketSubresource, GetObjectSubresource
from gateway.s3.results import XmlReply
from gateway.wire.xml import document, element

_DEFAULT_REGION = "us-east-1"  # S3 names it by an empty LocationConstraint
_XSI = "http://www.w3.org/2001/XMLSchema-instance"

_ABSENT: Mapping[str, S3Code] = MappingProxyType(
    {
        "cors": S3Code.NO_SUCH_CORS_CONFIGURATION,
        "encryption": S3Code.ENCRYPTION_NOT_FOUND,
        "lifecycle": S3Code.NO_SUCH_LIFECYCLE_CONFIGURATION,
        "object-lock": S3Code.OBJECT_LOCK_CONFIGURATION_NOT_FOUND,
        "ownershipControls": S3Code.OWNERSHIP_CONTROLS_NOT_FOUND,
        "policy": S3Code.NO_SUCH_BUCKET_POLICY,
        "policyStatus": S3Code.NO_SUCH_BUCKET_POLICY,
        "publicAccessBlock": S3Code.NO_SUCH_PUBLIC_ACCESS_BLOCK,
        "replication": S3Code.REPLICATION_NOT_FOUND,
        "tagging": S3Code.NO_SUCH_TAG_SET,
        "website": S3Code.NO_SUCH_WEBSITE_CONFIGURATION,
    }
)


def _owner_controls_all() -> Element:
    grantee = owner("Grantee")
    grantee.set("xmlns:xsi", _XSI)
    grantee.set("xsi:type", "CanonicalUser")
    grant = element("Grant", grantee, leaf("Permission", "FULL_CONTROL"))
    return document("AccessControlPolicy", owner(), element("AccessControlList", grant))


_DOCUMENTS: Mapping[str, Callable[[], Element]] = MappingProxyType(
    {
        "accelerate": lambda: document("AccelerateConfiguration"),
        "acl": _owner_controls_all,
        "logging": lambda: document("BucketLoggingStatus"),
        "notification": lambda: document("NotificationConfiguration"),
        "requestPayment": lambda: document(
            "RequestPaymentConfiguration", leaf("Payer", "BucketOwner")
        ),
        "versioning": lambda: document("VersioningConfiguration"),
    }
)

BUCKET_SUBRESOURCES = frozenset(_ABSENT) | frozenset(_DOCUMENTS)
OBJECT_SUBRESOURCES = frozenset({"acl", "tagging"})


async def get_bucket_location(operation: GetBucketLocation, context: Context) -> XmlReply:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketLocation.html"""
    bucket = await context.storage.head_bucket(operation.bucket)
    root = document("LocationConstraint")
    if bucket.region != _DEFAULT_REGION:
        root.text = bucket.region
    return XmlReply(root=root)


async def get_bucket_subresource(operation: GetBucketSubresource, context: Context) -> XmlReply:
    """`operation.name` is one of BUCKET_SUBRESOURCES."""
    await context.storage.head_bucket(operation.bucket)
    absent = _ABSENT.get(operation.name)
    if absent is not None:
        raise ClientError(absent, details={"BucketName": operation.bucket})
    return XmlReply(root=_DOCUMENTS[operation.name]())


async def get_object_subresource(operation: GetObjectSubresource, context: Context) -> XmlReply:
    """`operation.name` is one of OBJECT_SUBRESOURCES."""
    info = await context.storage.head_object(operation.bucket, operation.key, operation.version_id)
    if operation.name == "acl":
        return XmlReply(root=_owner_controls_all())
    tags = (
        element("Tag", leaf("Key", key), leaf("Value", value))
        for key, value in info.attributes.tags
    )
    return XmlReply(root=document("Tagging", element("TagSet", *tags)))
