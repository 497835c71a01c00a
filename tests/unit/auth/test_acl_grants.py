"""auth.acl: which grant allows which action to whom."""

from __future__ import annotations

import pytest

from gateway.auth.acl import bucket_permission, granted, object_permission
from gateway.auth.principal import ANONYMOUS, ANONYMOUS_ID, Account, Principal
from gateway.wire.grants import Grant, Group, Permission

ALICE = Principal("AKIA", Account("alice", "Alice"))
BOB = Principal("AKIB", Account("bob", "Bob"))


@pytest.mark.parametrize(
    ("grantee", "allowed"),
    [
        ("alice", [True, False, False]),
        (Group.ALL_USERS, [True, True, True]),
        (Group.AUTHENTICATED_USERS, [True, True, False]),
        (Group.LOG_DELIVERY, [False, False, False]),
        (ANONYMOUS_ID, [False, False, False]),
    ],
)
def test_granted__grantee__means_exactly_those(grantee: str | Group, allowed: list[bool]) -> None:
    grants = [Grant(grantee, Permission.READ)]
    found = [granted(grants, who, Permission.READ) for who in (ALICE, BOB, ANONYMOUS)]
    assert found == allowed


@pytest.mark.parametrize("permission", list(Permission))
def test_granted__full_control__is_every_permission(permission: Permission) -> None:
    assert granted([Grant("alice", Permission.FULL_CONTROL)], ALICE, permission)


def test_granted__other_permission__is_not_enough() -> None:
    assert not granted([Grant("alice", Permission.READ)], ALICE, Permission.WRITE)


def test_granted__public_grants_ignored__leaves_those_by_name() -> None:
    everybody = [Grant(Group.ALL_USERS, Permission.READ)]
    assert not granted(everybody, ALICE, Permission.READ, public=False)
    assert granted([Grant("alice", Permission.READ)], ALICE, Permission.READ, public=False)


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#permissions
@pytest.mark.parametrize(
    ("action", "of_bucket", "of_object"),
    [
        ("s3:ListBucket", Permission.READ, None),
        ("s3:ListBucketVersions", Permission.READ, None),
        ("s3:ListBucketMultipartUploads", Permission.READ, None),
        ("s3:PutObject", Permission.WRITE, None),
        ("s3:DeleteObject", Permission.WRITE, None),
        ("s3:DeleteObjectVersion", None, None),
        ("s3:GetBucketAcl", Permission.READ_ACP, None),
        ("s3:PutBucketAcl", Permission.WRITE_ACP, None),
        ("s3:GetObject", None, Permission.READ),
        ("s3:GetObjectVersion", None, Permission.READ),
        ("s3:GetObjectAcl", None, Permission.READ_ACP),
        ("s3:PutObjectAcl", None, Permission.WRITE_ACP),
        ("s3:GetObjectTagging", None, None),
        ("s3:PutBucketPolicy", None, None),
        ("s3:DeleteBucket", None, None),
    ],
)
def test_permissions__action__is_that_of_the_table(
    action: str, of_bucket: Permission | None, of_object: Permission | None
) -> None:
    assert bucket_permission(action) is of_bucket
    assert object_permission(action) is of_object
