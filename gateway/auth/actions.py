"""The actions that a bucket policy may name, and which of them an object's version renames.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gateway.auth.wildcard import compile_pattern

_OF_OBJECTS = (
    "AbortMultipartUpload BypassGovernanceRetention DeleteObject DeleteObjectTagging "
    "DeleteObjectVersion DeleteObjectVersionTagging GetObject GetObjectAcl GetObjectAttributes "
    "GetObjectLegalHold GetObjectRetention GetObjectTagging GetObjectTorrent GetObjectVersion "
    "GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionForReplication "
    "GetObjectVersionTagging GetObjectVersionTorrent InitiateReplication "
    "ListMultipartUploadParts ObjectOwnerOverrideToBucketOwner PutObject PutObjectAcl "
    "PutObjectLegalHold PutObjectRetention PutObjectTagging PutObjectVersionAcl "
    "PutObjectVersionTagging ReplicateDelete ReplicateObject ReplicateTags RestoreObject"
)
_OF_BUCKETS = (
    "CreateBucket DeleteBucket DeleteBucketOwnershipControls DeleteBucketPolicy "
    "DeleteBucketPublicAccessBlock DeleteBucketWebsite GetAccelerateConfiguration "
    "GetAnalyticsConfiguration GetBucketAcl GetBucketCORS GetBucketLocation GetBucketLogging "
    "GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls "
    "GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock GetBucketRequestPayment "
    "GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration "
    "GetIntelligentTieringConfiguration GetInventoryConfiguration GetLifecycleConfiguration "
    "GetMetricsConfiguration GetReplicationConfiguration ListBucket "
    "ListBucketMultipartUploads ListBucketVersions PutAccelerateConfiguration "
    "PutAnalyticsConfiguration PutBucketAcl PutBucketCORS PutBucketLogging PutBucketNotification "
    "PutBucketObjectLockConfiguration PutBucketOwnershipControls PutBucketPolicy "
    "PutBucketPublicAccessBlock PutBucketRequestPayment PutBucketTagging PutBucketVersioning "
    "PutBucketWebsite PutEncryptionConfiguration PutIntelligentTieringConfiguration "
    "PutInventoryConfiguration PutLifecycleConfiguration PutMetricsConfiguration "
    "PutReplicationConfiguration"
)
ACTIONS = tuple(f"s3:{name}" for name in f"{_OF_OBJECTS} {_OF_BUCKETS}".split())

POLICY_ACTIONS = frozenset({"s3:DeleteBucketPolicy", "s3:GetBucketPolicy", "s3:PutBucketPolicy"})
"""What no policy can take from the bucket's owner: else nobody could ever repair one."""

OF_A_VERSION: Mapping[str, str] = MappingProxyType(
    {
        "s3:DeleteObject": "s3:DeleteObjectVersion",
        "s3:DeleteObjectTagging": "s3:DeleteObjectVersionTagging",
        "s3:GetObject": "s3:GetObjectVersion",
        "s3:GetObjectAcl": "s3:GetObjectVersionAcl",
        "s3:GetObjectAttributes": "s3:GetObjectVersionAttributes",
        "s3:GetObjectTagging": "s3:GetObjectVersionTagging",
        "s3:PutObjectAcl": "s3:PutObjectVersionAcl",
        "s3:PutObjectTagging": "s3:PutObjectVersionTagging",
    }
)
"""What an action is called where the request names a version of the object."""


def names_an_action(pattern: str) -> bool:
    """Whether an Action of a policy, which may have wildcards, means anything here."""
    compiled = compile_pattern(pattern, ignore_case=True)
    return any(compiled.fullmatch(action) for action in ACTIONS)
