"""What a new object gets from its bucket and its writer: an owner, an ACL, and a lock.

The same for PUT, copies, forms, multipart uploads, and whichever way the bytes come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.auth.principal import OWNER_ID
from gateway.s3.context import Context
from gateway.s3.grants import admitted, header_grants
from gateway.s3.object_lock import locked
from gateway.s3.ownership import ObjectOwnership, object_ownership
from gateway.storage.port import BucketInfo, ObjectAttributes
from gateway.wire.grants import AclHeaders, CannedAcl


@dataclass(frozen=True, slots=True)
class Authorship:
    """Attributes to store, and the user id of whom the object will belong to."""

    owner: str
    attributes: ObjectAttributes


async def author(
    bucket: str, attributes: ObjectAttributes, acl: AclHeaders, context: Context
) -> Authorship:
    """Complete what a request says of a new object by what its bucket says.

    Args:
        bucket: where the object will be.
        attributes: from the request's headers, or a copy's source.
        acl: from the request's headers.
        context: the request's.

    Raises:
        ClientError: NoSuchBucket; InvalidRequest or InvalidArgument for a lock that can't be;
            AccessControlListNotSupported, AccessDenied or an unknown grantee for an ACL.
    """
    info = await context.storage.head_bucket(bucket)
    owner = _owner(info, acl, context.principal.user_id)
    grants = header_grants(acl, owner, info.owner or OWNER_ID, context.accounts)
    kept = locked(attributes, info, context.requester.now_ns)
    return Authorship(owner, replace(kept, grants=admitted(info, grants, owner)))


def _owner(bucket: BucketInfo, acl: AclHeaders, writer: str) -> str:
    """The writer, or the bucket's owner where ownership controls say so."""
    match object_ownership(bucket):
        case ObjectOwnership.BUCKET_OWNER_ENFORCED:
            return bucket.owner or OWNER_ID
        case ObjectOwnership.BUCKET_OWNER_PREFERRED if (
            acl.canned is CannedAcl.BUCKET_OWNER_FULL_CONTROL
        ):
            return bucket.owner or OWNER_ID
        case _:
            return writer
