"""Who may do what by an access control list: S3's permissions, groups and canned words.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

MAX_GRANTS = 100  # of one ACL, S3's own limit


class Permission(Enum):
    """What a grant allows; on a bucket READ lists, WRITE creates and deletes objects."""

    FULL_CONTROL = "FULL_CONTROL"
    READ = "READ"
    WRITE = "WRITE"
    READ_ACP = "READ_ACP"
    WRITE_ACP = "WRITE_ACP"


class Group(Enum):
    """Grantees that are no single account; the value is the URI that names them."""

    ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
    AUTHENTICATED_USERS = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
    LOG_DELIVERY = "http://acs.amazonaws.com/groups/s3/LogDelivery"


@dataclass(frozen=True, slots=True)
class Grant:
    """One line of an ACL. `grantee` is an account's canonical user id, or a group."""

    grantee: str | Group
    permission: Permission


Grants = tuple[Grant, ...]

NO_GRANTS: Grants = (Grant("", Permission.READ),)
"""How a list that is empty on purpose is stored, for () is the default; no account's id is ""."""


def effective_grants(stored: Grants, owner_id: str) -> Grants:
    """The list that a stored one stands for: () gives the owner alone full control."""
    if stored == NO_GRANTS:
        return ()
    return stored or (Grant(owner_id, Permission.FULL_CONTROL),)


def stored_grants(grants: Grants, owner_id: str) -> Grants:
    """How a list is stored: what `effective_grants` reads, with groups first, as S3 lists them."""
    if not grants:
        return NO_GRANTS
    listed = tuple(sorted(grants, key=lambda grant: not isinstance(grant.grantee, Group)))
    return () if listed == effective_grants((), owner_id) else listed


def is_public(grants: Grants) -> bool:
    """Whether a list lets in everybody, or everybody who has some account.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
    """
    public = (Group.ALL_USERS, Group.AUTHENTICATED_USERS)
    return any(grant.grantee in public for grant in grants)


class CannedAcl(Enum):
    """The words of x-amz-acl; aws-exec-read is not among them: it lets in Amazon's EC2."""

    PRIVATE = "private"
    PUBLIC_READ = "public-read"
    PUBLIC_READ_WRITE = "public-read-write"
    AUTHENTICATED_READ = "authenticated-read"
    BUCKET_OWNER_READ = "bucket-owner-read"
    BUCKET_OWNER_FULL_CONTROL = "bucket-owner-full-control"
    LOG_DELIVERY_WRITE = "log-delivery-write"


_OF_OWNERS = frozenset(
    {CannedAcl.PRIVATE, CannedAcl.BUCKET_OWNER_READ, CannedAcl.BUCKET_OWNER_FULL_CONTROL}
)

GRANT_HEADERS = {
    f"x-amz-grant-{permission.value.lower().replace('_', '-')}": permission
    for permission in Permission
}
"""Header name to the permission that its grantees get."""


@dataclass(frozen=True, slots=True)
class NamedGrant:
    """One grantee of an x-amz-grant-* header: `kind` is id, uri or emailaddress."""

    kind: str
    value: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class AclHeaders:
    """What the headers of a request say of access; the default is that they say nothing.

    Attributes:
        canned: the word of x-amz-acl.
        grants: of the x-amz-grant-* headers, in their order; never beside `canned`.
    """

    canned: CannedAcl | None = None
    grants: tuple[NamedGrant, ...] = ()

    @property
    def given(self) -> bool:
        """Whether they say anything."""
        return self.canned is not None or bool(self.grants)

    def only_for(self, *user_ids: str) -> bool:
        """Whether they share an object with nobody but the accounts named and its bucket's owner.

        An e-mail address may be anybody's.
        """
        if self.canned is not None:
            return self.canned in _OF_OWNERS
        return all(grant.kind == "id" and grant.value in user_ids for grant in self.grants)


NO_ACL_HEADERS = AclHeaders()

# One grantee: a kind, "=", and a quoted or a bare value.
_GRANTEE = re.compile(
    r"""\s*(id|uri|emailaddress)\s*=\s*(?:"([^"]*)"|([^",\s]+))\s*""", re.IGNORECASE
)


def parse_canned_acl(word: str) -> CannedAcl:
    """A canned ACL by its word. Raises InvalidArgument, as S3 does."""
    try:
        return CannedAcl(word)
    except ValueError as error:
        raise _invalid("x-amz-acl", word) from error


def parse_acl_headers(head: RequestHead) -> AclHeaders:
    """x-amz-acl and the x-amz-grant-* headers.

    Raises:
        ClientError: InvalidArgument for what they may not say; InvalidRequest for both kinds.
    """
    word = head.get("x-amz-acl")
    grants = tuple(
        grant
        for name, text in head.headers
        if name in GRANT_HEADERS
        for grant in _named_grants(name, text)
    )
    if word is not None and grants:
        raise ClientError(
            S3Code.INVALID_REQUEST,
            "Specifying both Canned ACLs and Header Grants is not allowed",
        )
    return AclHeaders(None if word is None else parse_canned_acl(word), grants)


def _named_grants(name: str, text: str) -> tuple[NamedGrant, ...]:
    grants: list[NamedGrant] = []
    for piece in text.split(","):
        match = _GRANTEE.fullmatch(piece)
        if match is None or len(grants) == MAX_GRANTS:
            raise _invalid(name, text)
        value = match[2] if match[2] is not None else match[3]
        grants.append(NamedGrant(match[1].lower(), value, GRANT_HEADERS[name]))
    return tuple(grants)


def _invalid(name: str, value: str) -> ClientError:
    return ClientError(
        S3Code.INVALID_ARGUMENT, details={"ArgumentName": name, "ArgumentValue": value}
    )
