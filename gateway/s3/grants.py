"""Access control lists: canned words and headers spelled out, documents, and what may be set.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from xml.etree.ElementTree import Element

from gateway.auth.accounts import Accounts
from gateway.errors import ClientError, S3Code
from gateway.s3.documents import leaf, owned_by
from gateway.s3.ownership import ObjectOwnership, object_ownership
from gateway.s3.public_access import public_access
from gateway.s3.query import invalid_argument
from gateway.storage.port import BucketInfo
from gateway.wire.grants import (
    MAX_GRANTS,
    AclHeaders,
    CannedAcl,
    Grant,
    Grants,
    Group,
    NamedGrant,
    Permission,
    is_public,
    stored_grants,
)
from gateway.wire.xml import Children, document, element, malformed, parse_xml

_XSI = "http://www.w3.org/2001/XMLSchema-instance"

# What a word adds to the owner's full control, in the order in which S3 lists it.
_CANNED: Mapping[CannedAcl, Grants] = MappingProxyType(
    {
        CannedAcl.PUBLIC_READ: (Grant(Group.ALL_USERS, Permission.READ),),
        CannedAcl.PUBLIC_READ_WRITE: (
            Grant(Group.ALL_USERS, Permission.READ),
            Grant(Group.ALL_USERS, Permission.WRITE),
        ),
        CannedAcl.AUTHENTICATED_READ: (Grant(Group.AUTHENTICATED_USERS, Permission.READ),),
        CannedAcl.LOG_DELIVERY_WRITE: (
            Grant(Group.LOG_DELIVERY, Permission.WRITE),
            Grant(Group.LOG_DELIVERY, Permission.READ_ACP),
        ),
    }
)
_FOR_BUCKET_OWNER: Mapping[CannedAcl, Permission] = MappingProxyType(
    {
        CannedAcl.BUCKET_OWNER_READ: Permission.READ,
        CannedAcl.BUCKET_OWNER_FULL_CONTROL: Permission.FULL_CONTROL,
    }
)

# A Grantee's xsi:type, the element that names it, and the same in an x-amz-grant-* header.
_GRANTEES = (
    ("CanonicalUser", "ID", "id"),
    ("AmazonCustomerByEmail", "EmailAddress", "emailaddress"),
    ("Group", "URI", "uri"),
)


def header_grants(headers: AclHeaders, owner: str, bucket_owner: str, accounts: Accounts) -> Grants:
    """The list that a request's headers ask for; without any, the owner alone.

    Args:
        headers: parsed from the request.
        owner: user id of whom the bucket or object belongs to.
        bucket_owner: user id; the same as `owner` for a bucket's own list, where words that name
            the bucket's owner add nothing.
        accounts: who may be granted anything.

    Raises:
        ClientError: InvalidArgument, UnresolvableGrantByEmailAddress: there is no such grantee.
    """
    if headers.grants:
        return tuple(_resolved(named, accounts) for named in headers.grants)
    word = headers.canned or CannedAcl.PRIVATE
    grants = (*_CANNED.get(word, ()), Grant(owner, Permission.FULL_CONTROL))
    for_bucket_owner = _FOR_BUCKET_OWNER.get(word)
    if for_bucket_owner is None or bucket_owner == owner:
        return grants
    return (*grants, Grant(bucket_owner, for_bucket_owner))


def _resolved(named: NamedGrant, accounts: Accounts) -> Grant:
    """A grant to somebody who exists."""
    value = named.value
    match named.kind:
        case "id":
            account = accounts.by_id(value) if value else None
            if account is None:
                raise invalid_argument("CanonicalUser/ID", value, "Invalid id")
            return Grant(account.user_id, named.permission)
        case "uri":
            try:
                return Grant(Group(value), named.permission)
            except ValueError as error:
                raise invalid_argument("Group/URI", value, "Invalid group uri") from error
    account = accounts.by_email(value)
    if account is None:
        raise ClientError(S3Code.UNRESOLVABLE_GRANT_BY_EMAIL_ADDRESS)
    return Grant(account.user_id, named.permission)


def parse_acl(data: bytes, limit_bytes: int, owner: str, accounts: Accounts) -> Grants:
    """The list of an AccessControlPolicy document.

    Args:
        data: the body.
        limit_bytes: its greatest length.
        owner: user id that its Owner must name: no request changes whose a thing is.
        accounts: who may be granted anything.

    Raises:
        ClientError: MalformedACLError; AccessDenied for another owner; as `header_grants`.
    """
    try:
        root = parse_xml(data, limit_bytes)
        stated_owner, named = _read_acl(root)
    except ClientError as error:
        if error.code is not S3Code.MALFORMED_XML:
            raise
        raise ClientError(S3Code.MALFORMED_ACL, error.message) from error
    if stated_owner != owner:
        raise ClientError(S3Code.ACCESS_DENIED, "The owner of an ACL can't be changed.")
    return tuple(_resolved(grant, accounts) for grant in named)


def _read_acl(root: Element) -> tuple[str, list[NamedGrant]]:
    if root.tag != "AccessControlPolicy":
        raise malformed("The document must be an AccessControlPolicy.")
    policy = Children(root, once=("Owner", "AccessControlList"))
    owner = Children(policy.need("Owner"), once=("ID", "DisplayName"))
    grants = Children(policy.need("AccessControlList"), several=("Grant",)).each("Grant")
    if len(grants) > MAX_GRANTS:
        raise malformed(f"An ACL has at most {MAX_GRANTS} grants.")
    return owner.need_text("ID"), [_read_grant(grant) for grant in grants]


def _read_grant(node: Element) -> NamedGrant:
    grant = Children(node, once=("Grantee", "Permission"))
    grantee = grant.need("Grantee")
    named = Children(grantee, once=("ID", "DisplayName", "EmailAddress", "URI"))
    try:
        permission = Permission(grant.need_text("Permission"))
    except ValueError as error:
        raise malformed("Permission is none of S3's five words.") from error
    stated = grantee.get("type")
    for kind, tag, header_kind in _GRANTEES:
        value = named.text(tag)
        if value and stated in (None, kind):
            return NamedGrant(header_kind, value, permission)
    raise malformed("A Grantee needs an ID, an EmailAddress or a URI, after its type.")


def acl_document(owner: str, grants: Grants, accounts: Accounts) -> Element:
    """The AccessControlPolicy of an effective list."""
    shown = (
        element("Grant", _grantee(grant, accounts), leaf("Permission", grant.permission.value))
        for grant in grants
    )
    return document(
        "AccessControlPolicy", owned_by(owner, accounts), element("AccessControlList", *shown)
    )


def _grantee(grant: Grant, accounts: Accounts) -> Element:
    match grant.grantee:
        case Group() as group:
            kind, shown = "Group", element("Grantee", leaf("URI", group.value))
        case user_id:
            kind, shown = "CanonicalUser", owned_by(user_id, accounts, "Grantee")
    shown.set("xmlns:xsi", _XSI)
    shown.set("xsi:type", kind)
    return shown


def admitted(bucket: BucketInfo, grants: Grants, owner: str) -> Grants:
    """A list as it is stored, if the bucket's settings let it be set.

    Args:
        bucket: whose list it is, or whose object's.
        grants: effective.
        owner: user id of the owner of the bucket or object.

    Raises:
        ClientError: AccessControlListNotSupported where ACLs don't count, for any list but the
            bucket owner's alone; AccessDenied for a public one that is blocked.
    """
    stored = stored_grants(grants, owner)
    if stored and object_ownership(bucket) is ObjectOwnership.BUCKET_OWNER_ENFORCED:
        raise ClientError(S3Code.ACCESS_CONTROL_LIST_NOT_SUPPORTED)
    if is_public(grants) and public_access(bucket).block_acls:
        raise ClientError(
            S3Code.ACCESS_DENIED, "Public ACLs are blocked by the bucket's BlockPublicAcls setting."
        )
    return stored
