"""Every S3 request the gateway understands, as a frozen value: parsed once, at the edge.

HTTP and RDMA requests become the same values, so authentication, policy, preconditions and the
verbs can't tell them apart. Keys and bucket names are decoded text (UTF-8); sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gateway.s3.ownership import ObjectOwnership
from gateway.storage.port import ObjectAttributes
from gateway.wire.byte_range import RangeSpec
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions
from gateway.wire.grants import NO_ACL_HEADERS, AclHeaders


@dataclass(frozen=True, slots=True)
class Operation:
    """The base of all. `action` is what a policy names (``s3:GetObject``)."""

    action = "s3:Unknown"


@dataclass(frozen=True, slots=True)
class ListBuckets(Operation):
    prefix: str = ""
    continuation_token: str = ""
    max_buckets: int = 10_000
    action = "s3:ListAllMyBuckets"


@dataclass(frozen=True, slots=True)
class CreateBucket(Operation):
    """The body, if any, is a CreateBucketConfiguration that the verb parses.

    `object_lock` switches versioning on as well; `ownership` is None where nothing is said of it.
    """

    bucket: str
    acl: AclHeaders = NO_ACL_HEADERS
    object_lock: bool = False
    ownership: ObjectOwnership | None = None
    action = "s3:CreateBucket"


@dataclass(frozen=True, slots=True)
class HeadBucket(Operation):
    bucket: str
    action = "s3:ListBucket"


@dataclass(frozen=True, slots=True)
class DeleteBucket(Operation):
    bucket: str
    action = "s3:DeleteBucket"


@dataclass(frozen=True, slots=True)
class GetBucketLocation(Operation):
    bucket: str
    action = "s3:GetBucketLocation"


@dataclass(frozen=True, slots=True)
class GetBucketSubresource(Operation):
    """A sub-resource that is a document of its own: a row of ``s3.bucket_settings``.

    `name` is the query's (cors, tagging, lifecycle, …), and the row names the action.
    """

    bucket: str
    name: str
    action: str


@dataclass(frozen=True, slots=True)
class PutBucketSubresource(Operation):
    """The body is the document."""

    bucket: str
    name: str
    action: str


@dataclass(frozen=True, slots=True)
class DeleteBucketSubresource(Operation):
    bucket: str
    name: str
    action: str


@dataclass(frozen=True, slots=True)
class GetBucketPolicy(Operation):
    bucket: str
    action = "s3:GetBucketPolicy"


@dataclass(frozen=True, slots=True)
class PutBucketPolicy(Operation):
    """The body is the policy, JSON."""

    bucket: str
    action = "s3:PutBucketPolicy"


@dataclass(frozen=True, slots=True)
class DeleteBucketPolicy(Operation):
    bucket: str
    action = "s3:DeleteBucketPolicy"


@dataclass(frozen=True, slots=True)
class GetBucketPolicyStatus(Operation):
    bucket: str
    action = "s3:GetBucketPolicyStatus"


@dataclass(frozen=True, slots=True)
class GetBucketAcl(Operation):
    bucket: str
    action = "s3:GetBucketAcl"


@dataclass(frozen=True, slots=True)
class PutBucketAcl(Operation):
    """Where the headers say nothing, the body is an AccessControlPolicy; so for objects."""

    bucket: str
    acl: AclHeaders = NO_ACL_HEADERS
    action = "s3:PutBucketAcl"


@dataclass(frozen=True, slots=True)
class GetBucketVersioning(Operation):
    bucket: str
    action = "s3:GetBucketVersioning"


@dataclass(frozen=True, slots=True)
class PutBucketVersioning(Operation):
    """The body is a VersioningConfiguration."""

    bucket: str
    action = "s3:PutBucketVersioning"


@dataclass(frozen=True, slots=True)
class ListObjects(Operation):
    """ListObjects, version 1. `encode` is encoding-type=url."""

    bucket: str
    prefix: str = ""
    delimiter: str = ""
    marker: str = ""
    max_keys: int = 1000
    encode: bool = False
    action = "s3:ListBucket"


@dataclass(frozen=True, slots=True)
class ListObjectsV2(Operation):
    bucket: str
    prefix: str = ""
    delimiter: str = ""
    start_after: str = ""
    continuation_token: str | None = None
    fetch_owner: bool = False
    max_keys: int = 1000
    encode: bool = False
    action = "s3:ListBucket"


@dataclass(frozen=True, slots=True)
class ListObjectVersions(Operation):
    bucket: str
    prefix: str = ""
    delimiter: str = ""
    key_marker: str = ""
    version_id_marker: str = ""
    max_keys: int = 1000
    encode: bool = False
    action = "s3:ListBucketVersions"


@dataclass(frozen=True, slots=True)
class ListMultipartUploads(Operation):
    bucket: str
    prefix: str = ""
    delimiter: str = ""
    key_marker: str = ""
    upload_id_marker: str = ""
    max_uploads: int = 1000
    encode: bool = False
    action = "s3:ListBucketMultipartUploads"


@dataclass(frozen=True, slots=True)
class GetObject(Operation):
    """`overrides` are response-* parameters: reply header name (lower case) to value.

    `extent_exact` is set by RDMA requests: the range must lie wholly inside the object.
    """

    bucket: str
    key: str
    version_id: str | None = None
    byte_range: RangeSpec | None = None
    if_range: str | None = None
    part_number: int | None = None
    conditions: Conditions = NO_CONDITIONS
    overrides: Mapping[str, str] = field(default_factory=dict)
    checksum_mode: bool = False
    extent_exact: bool = False
    action = "s3:GetObject"


@dataclass(frozen=True, slots=True)
class HeadObject(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    byte_range: RangeSpec | None = None
    if_range: str | None = None
    part_number: int | None = None
    conditions: Conditions = NO_CONDITIONS
    overrides: Mapping[str, str] = field(default_factory=dict)
    checksum_mode: bool = False
    action = "s3:GetObject"


class ObjectAttribute(Enum):
    """What GetObjectAttributes may be asked for; the value is the request's word."""

    ETAG = "ETag"
    CHECKSUM = "Checksum"
    OBJECT_PARTS = "ObjectParts"
    STORAGE_CLASS = "StorageClass"
    OBJECT_SIZE = "ObjectSize"


@dataclass(frozen=True, slots=True)
class GetObjectAttributes(Operation):
    """`max_parts` and `part_number_marker` are the page of ObjectParts."""

    bucket: str
    key: str
    version_id: str | None = None
    wanted: frozenset[ObjectAttribute] = frozenset()
    part_number_marker: int = 0
    max_parts: int = 1000
    action = "s3:GetObjectAttributes"


@dataclass(frozen=True, slots=True)
class PutObject(Operation):
    bucket: str
    key: str
    attributes: ObjectAttributes
    conditions: Conditions = NO_CONDITIONS
    acl: AclHeaders = NO_ACL_HEADERS
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class PostObject(Operation):
    """A form with a file: its fields name the key and prove who sent it; then it is a PutObject."""

    bucket: str
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class CopySource:
    """x-amz-copy-source, split at the first "/" before decoding.

    `expected_owner` is the user id that the source's bucket must belong to, if any is named.
    """

    bucket: str
    key: str
    version_id: str | None = None
    conditions: Conditions = NO_CONDITIONS
    expected_owner: str | None = None


@dataclass(frozen=True, slots=True)
class CopyObject(Operation):
    """`attributes` hold only where replace_metadata; else the source's are taken along."""

    bucket: str
    key: str
    source: CopySource
    attributes: ObjectAttributes
    replace_metadata: bool = False
    replace_tags: bool = False
    checksum_algorithm: Algorithm | None = None
    conditions: Conditions = NO_CONDITIONS
    acl: AclHeaders = NO_ACL_HEADERS
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class DeleteObject(Operation):
    """`bypass_governance` asks to remove what is retained, if policy lets this requester."""

    bucket: str
    key: str
    version_id: str | None = None
    conditions: Conditions = NO_CONDITIONS
    bypass_governance: bool = False
    action = "s3:DeleteObject"


@dataclass(frozen=True, slots=True)
class DeleteObjects(Operation):
    """The list of keys is the body; the verb parses it, policy is asked for each key."""

    bucket: str
    bypass_governance: bool = False
    action = "s3:DeleteObject"


@dataclass(frozen=True, slots=True)
class GetObjectAcl(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    action = "s3:GetObjectAcl"


@dataclass(frozen=True, slots=True)
class PutObjectAcl(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    acl: AclHeaders = NO_ACL_HEADERS
    action = "s3:PutObjectAcl"


@dataclass(frozen=True, slots=True)
class GetObjectTagging(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    action = "s3:GetObjectTagging"


@dataclass(frozen=True, slots=True)
class PutObjectTagging(Operation):
    """The body is a Tagging document.

    Policies may have conditions on what it says, so the verb asks again with `attributes`, which
    are None until the body is read. It is the same for retention and legal hold.
    """

    bucket: str
    key: str
    version_id: str | None = None
    attributes: ObjectAttributes | None = None
    action = "s3:PutObjectTagging"


@dataclass(frozen=True, slots=True)
class DeleteObjectTagging(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    action = "s3:DeleteObjectTagging"


@dataclass(frozen=True, slots=True)
class GetObjectRetention(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    action = "s3:GetObjectRetention"


@dataclass(frozen=True, slots=True)
class PutObjectRetention(Operation):
    """The body is a Retention document; what shortens one needs `bypass_governance`."""

    bucket: str
    key: str
    version_id: str | None = None
    attributes: ObjectAttributes | None = None
    bypass_governance: bool = False
    action = "s3:PutObjectRetention"


@dataclass(frozen=True, slots=True)
class GetObjectLegalHold(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    action = "s3:GetObjectLegalHold"


@dataclass(frozen=True, slots=True)
class PutObjectLegalHold(Operation):
    """The body is a LegalHold document."""

    bucket: str
    key: str
    version_id: str | None = None
    attributes: ObjectAttributes | None = None
    action = "s3:PutObjectLegalHold"


@dataclass(frozen=True, slots=True)
class BypassGovernanceRetention(Operation):
    """No request of its own: what a request that bypasses a retention is asked for besides."""

    bucket: str
    key: str
    version_id: str | None = None
    action = "s3:BypassGovernanceRetention"


@dataclass(frozen=True, slots=True)
class CreateMultipartUpload(Operation):
    bucket: str
    key: str
    attributes: ObjectAttributes
    checksum_algorithm: Algorithm | None = None
    checksum_type: ChecksumType | None = None
    acl: AclHeaders = NO_ACL_HEADERS
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class UploadPart(Operation):
    bucket: str
    key: str
    upload_id: str
    part_number: int
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class UploadPartCopy(Operation):
    bucket: str
    key: str
    upload_id: str
    part_number: int
    source: CopySource
    source_range: RangeSpec | None = None
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class ListParts(Operation):
    bucket: str
    key: str
    upload_id: str
    part_number_marker: int = 0
    max_parts: int = 1000
    encode: bool = False
    action = "s3:ListMultipartUploadParts"


@dataclass(frozen=True, slots=True)
class CompleteMultipartUpload(Operation):
    """The list of parts is the body.

    `checksums` and `object_size_bytes` (x-amz-mp-object-size) are the whole object's, as the
    client claims them.
    """

    bucket: str
    key: str
    upload_id: str
    conditions: Conditions = NO_CONDITIONS
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)
    checksum_type: ChecksumType | None = None
    object_size_bytes: int | None = None
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class AbortMultipartUpload(Operation):
    bucket: str
    key: str
    upload_id: str
    action = "s3:AbortMultipartUpload"
