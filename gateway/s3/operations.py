"""Every S3 request the gateway understands, as a frozen value: parsed once, at the edge.

HTTP and RDMA requests become the same values, so authentication, policy, preconditions and the
verbs can't tell them apart. Keys and bucket names are decoded text (UTF-8); sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.storage.port import ObjectAttributes
from gateway.wire.byte_range import RangeSpec
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import NO_CONDITIONS, Conditions


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
    """The body, if any, is a CreateBucketConfiguration that the verb parses."""

    bucket: str
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
    """A sub-resource the gateway answers with an honest default or S3's "not there" error.

    `name` is the query's: versioning, acl, policy, cors, tagging, lifecycle, website, …
    """

    bucket: str
    name: str
    action = "s3:GetBucketConfiguration"


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


@dataclass(frozen=True, slots=True)
class PutObject(Operation):
    bucket: str
    key: str
    attributes: ObjectAttributes
    conditions: Conditions = NO_CONDITIONS
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class CopySource:
    """x-amz-copy-source, split at the first "/" before decoding."""

    bucket: str
    key: str
    version_id: str | None = None
    conditions: Conditions = NO_CONDITIONS


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
    action = "s3:PutObject"


@dataclass(frozen=True, slots=True)
class DeleteObject(Operation):
    bucket: str
    key: str
    version_id: str | None = None
    conditions: Conditions = NO_CONDITIONS
    action = "s3:DeleteObject"


@dataclass(frozen=True, slots=True)
class DeleteObjects(Operation):
    """The list of keys is the body; the verb parses it, policy is asked for each key."""

    bucket: str
    action = "s3:DeleteObject"


@dataclass(frozen=True, slots=True)
class GetObjectSubresource(Operation):
    """acl, tagging, … of an object: an honest default or S3's "not there" error."""

    bucket: str
    key: str
    name: str
    version_id: str | None = None
    action = "s3:GetObject"


@dataclass(frozen=True, slots=True)
class CreateMultipartUpload(Operation):
    bucket: str
    key: str
    attributes: ObjectAttributes
    checksum_algorithm: Algorithm | None = None
    checksum_type: ChecksumType | None = None
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
