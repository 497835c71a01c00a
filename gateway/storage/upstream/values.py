"""The port's values as botocore's parameters, and its replies as the port's values. Pure.

What S3 has no field for goes into user metadata under a name of the gateway's own: the account that
owns an object, where it is not the gateway's own.

Header values are the bytes a client sent, as latin-1 text; botocore's client sends and gives text
in UTF-8. https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from gateway.errors import ClientError, S3Code
from gateway.storage.port import (
    NULL_VERSION,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    Retention,
    RetentionMode,
)
from gateway.storage.upstream.clients import Raw
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import Conditions, parse_http_date, unquote_etag

OWNER_METADATA = "s3rdma-owner"

_META = "x-amz-meta-"
_KEPT = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
)
_FIRST_REGION = "us-east-1"
_NS_PER_S = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MD5_HEX_DIGITS = 32

Parameters = dict[str, Any]


def quoted(etag: str) -> str:
    """An ETag as a header carries it."""
    return f'"{etag}"'


def object_headers(attributes: ObjectAttributes, owner: str) -> Raw:
    """What a client says of a new object, as it goes upstream word for word."""
    headers = dict(attributes.headers)
    headers |= {_META + name: value for name, value in attributes.metadata.items()}
    headers.pop(_META + OWNER_METADATA, None)  # nobody says it of himself
    if owner:
        headers[_META + OWNER_METADATA] = owner
    return Raw({name: _to_utf8(name, value) for name, value in headers.items()})


def object_parameters(attributes: ObjectAttributes) -> Parameters:
    """The same for what has a parameter of its own, but for grants."""
    given: Parameters = {}
    if attributes.tags:
        given["Tagging"] = urlencode(attributes.tags, quote_via=quote)
    if attributes.storage_class != "STANDARD":
        given["StorageClass"] = attributes.storage_class
    if attributes.retention is not None:
        given["ObjectLockMode"] = attributes.retention.mode.value
        given["ObjectLockRetainUntilDate"] = moment(attributes.retention.until_ns)
    if attributes.legal_hold:
        given["ObjectLockLegalHoldStatus"] = "ON"
    return given


def condition_parameters(conditions: Conditions) -> Parameters:
    """The write conditions of a PUT or Complete."""
    wanted = (("IfMatch", conditions.if_match), ("IfNoneMatch", conditions.if_none_match))
    return {name: _etags(etags) for name, etags in wanted if etags is not None}


def delete_conditions(conditions: Conditions) -> Parameters:
    """The conditions of a delete."""
    given = condition_parameters(conditions)
    if conditions.if_modified_at is not None:
        given["IfMatchLastModifiedTime"] = moment(conditions.if_modified_at * _NS_PER_S)
    if conditions.if_size_bytes is not None:
        given["IfMatchSize"] = conditions.if_size_bytes
    return given


def integrity_parameters(draft: ObjectDraft, *, checksums: bool) -> Parameters:
    """What the service is to hold the bytes to: their MD5, and the checksums it is to keep."""
    given: Parameters = {}
    if len(draft.etag) == _MD5_HEX_DIGITS:
        given["ContentMD5"] = base64.b64encode(bytes.fromhex(draft.etag)).decode("ascii")
    if checksums:
        given |= checksum_parameters(draft.checksums)
    return given


def checksum_parameters(checksums: Mapping[Algorithm, str]) -> Parameters:
    """One parameter for each, as `ChecksumCRC32`."""
    return {algorithm.element: value for algorithm, value in checksums.items()}


def versioned(key: str, version_id: str | None) -> Parameters:
    """Key and, where one is named, VersionId."""
    return {"Key": key} if version_id is None else {"Key": key, "VersionId": version_id}


def read_info(bucket: str, key: str, reply: Mapping[str, Any], *, latest: bool) -> ObjectInfo:
    """HEAD's reply; tags and grants are not in it."""
    headers: Mapping[str, str] = reply["ResponseMetadata"]["HTTPHeaders"]
    metadata = {
        name.removeprefix(_META): _from_utf8(value)
        for name, value in headers.items()
        if name.startswith(_META)
    }
    owner = metadata.pop(OWNER_METADATA, "")
    return ObjectInfo(
        bucket=bucket,
        key=key,
        size_bytes=int(reply.get("ContentLength", 0)),
        etag=unquote_etag(reply.get("ETag", "")),
        modified_ns=posix_ns(reply["LastModified"]),
        attributes=ObjectAttributes(
            headers={name: _from_utf8(headers[name]) for name in _KEPT if name in headers},
            metadata=metadata,
            storage_class=reply.get("StorageClass") or "STANDARD",
            retention=_retention(reply),
            legal_hold=reply.get("ObjectLockLegalHoldStatus") == "ON",
        ),
        checksums=read_checksums(reply),
        checksum_type=_checksum_type(reply),
        version_id=reply.get("VersionId") or NULL_VERSION,
        owner=owner,
        latest=latest,
    )


def written_info(bucket: str, key: str, draft: ObjectDraft, reply: Mapping[str, Any]) -> ObjectInfo:
    """What a PUT's or Complete's reply makes of a draft: the service's own ETag and version.

    The reply has no Last-Modified; its Date is the nearest that it says.
    """
    return ObjectInfo(
        bucket=bucket,
        key=key,
        size_bytes=draft.size_bytes,
        etag=unquote_etag(reply.get("ETag", "")),
        modified_ns=posix_ns_of_date(reply),
        attributes=draft.attributes,
        checksums=read_checksums(reply),
        checksum_type=_checksum_type(reply),
        version_id=reply.get("VersionId") or NULL_VERSION,
        owner=draft.owner,
    )


def read_part(reply: Mapping[str, Any]) -> PartInfo:
    """One part of ListParts."""
    return PartInfo(
        number=int(reply["PartNumber"]),
        size_bytes=int(reply["Size"]),
        etag=unquote_etag(reply["ETag"]),
        modified_ns=posix_ns(reply["LastModified"]),
        checksums=read_checksums(reply),
    )


def read_checksums(reply: Mapping[str, Any]) -> dict[Algorithm, str]:
    """The checksums that a reply names."""
    found = ((algorithm, reply.get(algorithm.element)) for algorithm in Algorithm)
    return {algorithm: value for algorithm, value in found if value}


def posix_ns_of_date(reply: Mapping[str, Any]) -> int:
    """POSIX nanoseconds of a reply's Date; this host's clock where it has none."""
    sent_s = parse_http_date(reply["ResponseMetadata"]["HTTPHeaders"].get("date", ""))
    return time.time_ns() if sent_s is None else sent_s * _NS_PER_S


def posix_ns(when: datetime) -> int:
    """POSIX nanoseconds of a reply's time."""
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000


def moment(time_ns: int) -> datetime:
    """POSIX nanoseconds as a parameter's time."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def location(region: str) -> Parameters:
    """Where CreateBucket is to make a bucket; S3's first region must not be named."""
    if region == _FIRST_REGION:
        return {}
    return {"CreateBucketConfiguration": {"LocationConstraint": region}}


def tag_set(tags: tuple[tuple[str, str], ...]) -> Parameters:
    """Tags as PutObjectTagging has them."""
    return {"TagSet": [{"Key": key, "Value": value} for key, value in tags]}


def read_tags(reply: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The tags of GetObjectTagging."""
    return tuple((tag["Key"], tag["Value"]) for tag in reply.get("TagSet", ()))


def _retention(reply: Mapping[str, Any]) -> Retention | None:
    mode, until = reply.get("ObjectLockMode"), reply.get("ObjectLockRetainUntilDate")
    return Retention(RetentionMode(mode), posix_ns(until)) if mode and until else None


def _checksum_type(reply: Mapping[str, Any]) -> ChecksumType:
    return ChecksumType(reply.get("ChecksumType") or ChecksumType.FULL_OBJECT.value)


def _etags(etags: tuple[str, ...]) -> str:
    return ", ".join(etag if etag == "*" else quoted(etag) for etag in etags)


def _to_utf8(name: str, value: str) -> str:
    """Raises InvalidArgument for bytes that are not UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeEncodeError:  # text of a document, which is no header's bytes
        return value
    except UnicodeDecodeError as error:
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            "The storage service upstream takes header values in UTF-8 only.",
            details={"ArgumentName": name},
        ) from error


def _from_utf8(value: str) -> str:
    return value.encode("utf-8").decode("latin-1")
