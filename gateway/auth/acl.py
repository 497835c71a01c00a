"""What the grants of an access control list allow, by action.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#permissions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gateway.auth.principal import Principal
from gateway.wire.grants import Grant, Group, Permission

_BUCKET: Mapping[str, Permission] = MappingProxyType(
    {
        "s3:ListBucket": Permission.READ,
        "s3:ListBucketVersions": Permission.READ,
        "s3:ListBucketMultipartUploads": Permission.READ,
        "s3:PutObject": Permission.WRITE,
        "s3:DeleteObject": Permission.WRITE,
        "s3:AbortMultipartUpload": Permission.WRITE,
        "s3:ListMultipartUploadParts": Permission.WRITE,
        "s3:GetBucketAcl": Permission.READ_ACP,
        "s3:PutBucketAcl": Permission.WRITE_ACP,
    }
)
_OBJECT: Mapping[str, Permission] = MappingProxyType(
    {
        "s3:GetObject": Permission.READ,
        "s3:GetObjectVersion": Permission.READ,
        "s3:GetObjectAttributes": Permission.READ,
        "s3:GetObjectVersionAttributes": Permission.READ,
        "s3:GetObjectAcl": Permission.READ_ACP,
        "s3:GetObjectVersionAcl": Permission.READ_ACP,
        "s3:PutObjectAcl": Permission.WRITE_ACP,
        "s3:PutObjectVersionAcl": Permission.WRITE_ACP,
    }
)


def bucket_permission(action: str) -> Permission | None:
    """What a bucket's list must grant for an action; None where no bucket's list can."""
    return _BUCKET.get(action)


def object_permission(action: str) -> Permission | None:
    """What an object's list must grant for an action; None where no object's list can."""
    return _OBJECT.get(action)


def granted(
    grants: Iterable[Grant], principal: Principal, permission: Permission, *, public: bool = True
) -> bool:
    """Whether a list grants something.

    Args:
        grants: the whole list.
        principal: to whom.
        permission: what; FULL_CONTROL grants everything.
        public: whether grants to groups count (IgnorePublicAcls says no).
    """
    return any(
        grant.permission in (permission, Permission.FULL_CONTROL)
        and _means(grant.grantee, principal, public)
        for grant in grants
    )


def _means(grantee: str | Group, principal: Principal, public: bool) -> bool:
    match grantee:
        case Group.ALL_USERS:
            return public
        case Group.AUTHENTICATED_USERS:
            return public and not principal.anonymous
        case Group():
            return False
        case user_id:
            return not principal.anonymous and user_id == principal.user_id
