"""May this requester do this? Asked for every operation, whichever way it came.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/how-s3-evaluates-access-control.html

In order: the bucket must be there; a denial of its policy is final, but for the owner's hold on the
policy itself; the bucket's owner may do everything; a permission of the policy, then the access
control lists, let others in; nobody else may do anything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gateway.auth.acl import bucket_permission, granted, object_permission
from gateway.auth.actions import OF_A_VERSION, POLICY_ACTIONS
from gateway.auth.conditions import Facts
from gateway.auth.policy import Policy, Verdict, parse_policy
from gateway.auth.principal import OWNER_ID
from gateway.auth.statement import Question
from gateway.errors import ClientError, S3Code
from gateway.s3.operations import CreateBucket, DeleteObjects, Operation
from gateway.s3.ownership import ObjectOwnership, object_ownership
from gateway.s3.policy_facts import policy_facts
from gateway.s3.public_access import PublicAccess, public_access
from gateway.s3.requester import Requester
from gateway.storage.port import BucketInfo, ObjectAttributes, ObjectInfo, Storage
from gateway.telemetry import trail
from gateway.wire.grants import NO_ACL_HEADERS, Permission, effective_grants

_log = logging.getLogger(__name__)

_LIST_OF_OBJECT = frozenset(
    {
        "s3:GetObjectAcl",
        "s3:GetObjectVersionAcl",
        "s3:PutObjectAcl",
        "s3:PutObjectVersionAcl",
    }
)
"""What the owner of an object may do, and the bucket's owner only where that is the same."""
_READS = frozenset({"s3:GetObject", "s3:GetObjectVersion"})
_NOT_THERE = frozenset({S3Code.NO_SUCH_KEY, S3Code.NO_SUCH_VERSION, S3Code.METHOD_NOT_ALLOWED})


async def authorise(operation: Operation, requester: Requester, storage: Storage) -> None:
    """Let a requester do something, or refuse.

    Costs one look-up of the bucket where its owner asks and it has no policy, and one of the object
    where tags, grants or its mere existence matter.

    Args:
        operation: what is to be done.
        requester: who asks.
        storage: started.

    Raises:
        ClientError: NoSuchBucket, before all others; AccessDenied.
    """
    name: str | None = getattr(operation, "bucket", None)
    if name is None or isinstance(operation, CreateBucket):
        if requester.principal.anonymous:
            raise _denied()
        return
    bucket = await storage.head_bucket(name)
    trail().bucket_owner = bucket.owner or OWNER_ID
    case = _Case.of(bucket, requester)
    if case.owner_asks and case.policy is None and operation.action not in _LIST_OF_OBJECT:
        return
    if isinstance(operation, DeleteObjects):
        if requester.principal.anonymous and not case.open:
            raise _denied()
        return  # each key is asked for by itself
    body_is_unread = getattr(operation, "attributes", "") is None
    if body_is_unread and case.policy is not None and case.policy.reads_bodies:
        return  # the verb asks with what it says
    await _Judge(case, operation, requester, storage).decide()


async def expect_owner(bucket: str | None, expected: str | None, storage: Storage) -> None:
    """Hold a request to the owner that it expects of a bucket (x-amz-expected-bucket-owner).

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html

    Raises:
        ClientError: AccessDenied where the bucket is another's; NoSuchBucket.
    """
    if bucket is None or expected is None:
        return
    info = await storage.head_bucket(bucket)
    if (info.owner or OWNER_ID) != expected:
        raise _denied()


def actions_of(operation: Operation, requester: Requester, bucket_owner: str) -> Iterator[str]:
    """Everything that an operation is allowed by: its action, and what its headers ask besides.

    An ACL that shares a new object with nobody but the bucket's owner asks for nothing more: so
    CloudTrail's bucket policy and others of AWS's have it.
    """
    version_id: str | None = getattr(operation, "version_id", None)
    action = operation.action
    yield OF_A_VERSION.get(action, action) if version_id is not None else action
    if action in ("s3:GetObjectAttributes", "s3:GetObjectVersionAttributes"):
        yield "s3:GetObject" if version_id is None else "s3:GetObjectVersion"
    attributes = getattr(operation, "attributes", None)
    if action != "s3:PutObject" or not isinstance(attributes, ObjectAttributes):
        return
    acl = getattr(operation, "acl", NO_ACL_HEADERS)
    if not acl.only_for(requester.principal.user_id, bucket_owner):
        yield "s3:PutObjectAcl"
    if attributes.tags:
        yield "s3:PutObjectTagging"
    if attributes.retention is not None:
        yield "s3:PutObjectRetention"
    if attributes.legal_hold:
        yield "s3:PutObjectLegalHold"


@dataclass(frozen=True, slots=True)
class _Case:
    """A bucket as far as access goes, and whether its owner asks."""

    bucket: BucketInfo
    policy: Policy | None
    access: PublicAccess
    owner_asks: bool

    @classmethod
    def of(cls, bucket: BucketInfo, requester: Requester) -> _Case:
        text = bucket.settings.get("policy")
        return cls(
            bucket,
            policy=None if text is None else _parsed(text, bucket.name),
            access=public_access(bucket),
            owner_asks=requester.principal.user_id == (bucket.owner or OWNER_ID),
        )

    @property
    def open(self) -> bool:
        """Whether anybody but the owner might be let in."""
        return self.policy is not None or bool(self.bucket.grants)

    @property
    def acls_count(self) -> bool:
        return object_ownership(self.bucket) is not ObjectOwnership.BUCKET_OWNER_ENFORCED


class _Judge:
    """One operation's case; looks the object up at most once, and only if it must."""

    def __init__(
        self, case: _Case, operation: Operation, requester: Requester, storage: Storage
    ) -> None:
        self._case = case
        self._operation = operation
        self._requester = requester
        self._storage = storage
        self._key: str | None = getattr(operation, "key", None)
        self._facts: Facts = {}
        self._looked = False
        self._found: ObjectInfo | None = None

    async def decide(self) -> None:
        """Raises AccessDenied."""
        policy = self._case.policy
        if policy is not None:
            found = await self._object() if policy.reads_tags else None
            self._facts = policy_facts(self._operation, self._requester, found)
        owner = self._case.bucket.owner or OWNER_ID
        for position, action in enumerate(actions_of(self._operation, self._requester, owner)):
            if not await self._may(action, of_headers=position > 0):
                raise _denied()
        await self._hide_missing()

    async def _may(self, action: str, *, of_headers: bool) -> bool:
        """Whether one action is allowed.

        What headers ask besides the operation itself, ACLs allow along with it.
        """
        verdict = self._verdict(action, self._key, self._facts)
        rules = self._case.owner_asks and (of_headers or await self._rules_object(action))
        if rules and (verdict is not Verdict.DENY or action in POLICY_ACTIONS):
            return True
        match verdict:
            case Verdict.DENY:
                return False
            case Verdict.ALLOW:
                return True
        return await self._by_lists(self._operation.action if of_headers else action)

    async def _rules_object(self, action: str) -> bool:
        """Whether the bucket's owner may do something because the bucket is theirs.

        The list of an object that somebody else wrote is that one's, as long as lists count.
        """
        if action not in _LIST_OF_OBJECT or not self._case.acls_count:
            return True
        found = await self._object()
        return found is None or (found.owner or OWNER_ID) == self._requester.principal.user_id

    def _verdict(self, action: str, key: str | None, facts: Facts) -> Verdict:
        """The policy's; what it allows to all is not allowed where RestrictPublicBuckets is on."""
        policy, name = self._case.policy, self._case.bucket.name
        if policy is None:
            return Verdict.SILENT
        resource = name if key is None else f"{name}/{key}"
        verdict = policy.judge(Question(self._requester.principal, action, resource, facts))
        restricted = policy.public and self._case.access.restrict_buckets
        return Verdict.SILENT if verdict is Verdict.ALLOW and restricted else verdict

    async def _by_lists(self, action: str) -> bool:
        """Whether the bucket's or the object's access control list allows an action."""
        of_bucket, of_object = bucket_permission(action), object_permission(action)
        if of_bucket is not None:
            return self._bucket_grants(of_bucket)
        if of_object is None or not self._case.acls_count:
            return False
        found = await self._object()
        if found is None:
            return action in _READS and self._may_list()  # to hear that it is not there
        owner, principal = found.owner or OWNER_ID, self._requester.principal
        if not principal.anonymous and principal.user_id == owner:
            return True
        grants = effective_grants(found.attributes.grants, owner)
        return granted(grants, principal, of_object, public=not self._case.access.ignore_acls)

    def _bucket_grants(self, permission: Permission) -> bool:
        """Whether the bucket's own list grants something."""
        case = self._case
        grants = effective_grants(case.bucket.grants, case.bucket.owner or OWNER_ID)
        return case.acls_count and granted(
            grants, self._requester.principal, permission, public=not case.access.ignore_acls
        )

    async def _hide_missing(self) -> None:
        """AccessDenied for an object that is not there, unless the requester may list the bucket.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html ("Permissions")
        """
        if self._case.owner_asks or self._operation.action not in _READS:
            return
        if await self._object() is None and not self._may_list():
            raise _denied()

    def _may_list(self) -> bool:
        """Whether a list of what begins with this key would be allowed."""
        facts = {**self._facts, "s3:prefix": (self._key or "",)}
        verdict = self._verdict("s3:ListBucket", None, facts)
        if verdict is not Verdict.SILENT:
            return verdict is Verdict.ALLOW
        return self._bucket_grants(Permission.READ)

    async def _object(self) -> ObjectInfo | None:
        """The object that the operation names, as it is now; None where it is not there."""
        if not self._looked and self._key is not None:
            version_id: str | None = getattr(self._operation, "version_id", None)
            try:
                self._found = await self._storage.head_object(
                    self._case.bucket.name, self._key, version_id
                )
            except ClientError as error:
                if error.code not in _NOT_THERE:
                    raise
        self._looked = True
        return self._found


@lru_cache(maxsize=256)
def _parsed(text: str, bucket: str) -> Policy:
    """A stored policy. One that can't be read any more denies everything but its own repair."""
    try:
        return parse_policy(text, bucket)
    except ClientError as error:
        _log.error("the policy of bucket %s denies all: %s", bucket, error.message)
        return parse_policy(_DENY_ALL, bucket)


_DENY_ALL = (
    '{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", '
    '"Resource": ["arn:aws:s3:::*"]}}'
)


def _denied() -> ClientError:
    return ClientError(S3Code.ACCESS_DENIED)
